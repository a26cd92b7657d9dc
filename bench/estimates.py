"""Our time per estimate beside the bare round-trip of the node call it needs.

`python -m bench.estimates` measures the estimator itself; `measure` takes any other way to ask for one,
such as `over_http`, which asks a running server.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import cache

import aiohttp
import msgspec
import rlp

from relaydeck.fees import Estimator, FeeEstimateParams, FeeOptions
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.relayers.model import Relayer

CHAIN_ID = 31337
SENDER = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
RECEIVER = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
AT_MOST, AT_LEAST = 1.3, 0.7

Ask = Callable[[int], Awaitable[object]]  # the estimate, or the bare call, of transaction number n


@dataclass(frozen=True)
class Figures:
    bare_ms: float  # median, one at a time
    ours_ms: float
    times: float  # ours / bare: at most AT_MOST
    bare_per_second: float  # 64 at a time
    ours_per_second: float
    share: float  # ours / bare: at least AT_LEAST

    @property
    def good(self) -> bool:
        return self.times <= AT_MOST and self.share >= AT_LEAST


@cache  # made before the clock starts: whoever asks for an estimate has it already
def transaction(number: int) -> str:
    """A different transaction for each number."""
    to = bytes.fromhex(RECEIVER[2:])
    encoded: bytes = rlp.encode([CHAIN_ID, number, 1, 2, 21000, to, number, b"", []])
    return "0x02" + encoded.hex()


async def measure(node_url: str, ours: Ask, *, singles: int = 300, many: int = 1500, rounds: int = 5) -> Figures:
    """Side by side: one of each in turn, so that a busy moment of the machine hits both."""
    for number in range(max(singles, many)):
        transaction(number)
    async with bare_node(node_url) as bare:
        await _batcher(bare, 64, 64)
        await _batcher(ours, 64, 64)
        bare_times, our_times = [], []
        for number in range(singles):
            bare_times.append(await _seconds(bare, number))
            our_times.append(await _seconds(ours, number))
        bare_rates, our_rates = [], []
        for _ in range(rounds):
            bare_rates.append(await _batcher(bare, many // rounds, 64))
            our_rates.append(await _batcher(ours, many // rounds, 64))
    bare_ms, ours_ms = statistics.median(bare_times) * 1000, statistics.median(our_times) * 1000
    bare_rate, our_rate = statistics.median(bare_rates), statistics.median(our_rates)
    return Figures(bare_ms, ours_ms, ours_ms / bare_ms, bare_rate, our_rate, our_rate / bare_rate)


@asynccontextmanager
async def bare_node(node_url: str) -> AsyncIterator[Ask]:
    """`eth_estimateGas` over a kept connection, and nothing around it."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:

        async def call(number: int) -> object:
            params = [{"from": SENDER, "to": RECEIVER, "value": hex(number), "data": "0x"}, "latest"]
            body = {"jsonrpc": "2.0", "id": number, "method": "eth_estimateGas", "params": params}
            raw = msgspec.json.encode(body)
            async with session.post(node_url, data=raw, headers={"Content-Type": "application/json"}) as reply:
                return msgspec.json.decode(await reply.read())["result"]

        yield call


@asynccontextmanager
async def direct(node_url: str) -> AsyncIterator[Ask]:
    """The estimator, in this process."""
    estimator = Estimator(FeeOptions())
    network = Network("local", "evm", CHAIN_ID, "ETH", rpc_urls=(RpcUrl(node_url),))
    relayer = Relayer("r", "r", "local", "evm", SENDER, "s")

    async def estimate(number: int) -> object:
        params = FeeEstimateParams(fee_token="ETH", network="local", transaction=transaction(number))
        return await estimator.estimate(relayer, network, params)

    try:
        yield estimate
    finally:
        await estimator.close()


@asynccontextmanager
async def over_http(url: str, credential: str, network: str, fee_token: str) -> AsyncIterator[Ask]:
    """A running server: `url` is the whole address of a relayer's JSON-RPC operation."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {credential}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64), headers=headers) as session:

        async def estimate(number: int) -> object:
            params = {"fee_token": fee_token, "network": network, "transaction": transaction(number)}
            body = {"jsonrpc": "2.0", "id": number, "method": "feeEstimate", "params": params}
            async with session.post(url, data=msgspec.json.encode(body)) as reply:
                return msgspec.json.decode(await reply.read())["result"]

        yield estimate


async def _seconds(ask: Ask, number: int) -> float:
    started = time.perf_counter()
    await ask(number)
    return time.perf_counter() - started


async def _batcher(ask: Ask, count: int, at_once: int) -> float:
    """How many a second, `at_once` at a time."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await ask(number)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return count / (time.perf_counter() - started)


async def measure_direct(node_url: str) -> Figures:
    async with direct(node_url) as ours:
        return await measure(node_url, ours)


if __name__ == "__main__":
    import sys

    import uvloop

    from tests.node.process import HARDHAT, running

    with running(HARDHAT) as url:
        figures = uvloop.run(measure_direct(url))
    sys.stdout.write(f"{asdict(figures)} good={figures.good}\n")
