"""Our time per estimate beside the bare round-trip of the node call it needs: the very question that it asks.

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
from typing import Any, NamedTuple

import aiohttp
import msgspec
import rlp
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimateParams, FeeOptions
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.relayers.model import Relayer

SENDER = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
RECEIVER = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
VALUE = hex(987_654_321)  # of the transaction with which the question is recorded

Ask = Callable[[int], Awaitable[object]]  # the estimate, or the bare call, of transaction number n


class NodeUrl(NamedTuple):
    url: str
    chain_id: int


class Question(NamedTuple):
    method: str
    params: Any


@dataclass(frozen=True)
class Figures:
    bare_ms: float  # median, one at a time
    ours_ms: float
    times: float  # ours / bare
    bare_per_second: float  # 64 at a time
    ours_per_second: float
    share: float  # ours / bare


@cache  # made before the clock starts: whoever asks for an estimate has it already
def transaction(number: int, chain_id: int) -> str:
    """A different transaction for each number."""
    to = bytes.fromhex(RECEIVER[2:])
    encoded: bytes = rlp.encode([chain_id, number, 1, 2, 21000, to, number, b"", []])
    return "0x02" + encoded.hex()


async def measure(
    chain_id: int, bare: Ask, ours: Ask, *, singles: int = 300, many: int = 1500, rounds: int = 5
) -> Figures:
    """Side by side: one of each in turn, so that a busy moment of the machine hits both."""
    for number in range(max(singles, many)):
        transaction(number, chain_id)
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
async def bare_node(node: NodeUrl) -> AsyncIterator[Ask]:
    """The question of an estimate over a kept connection, and nothing around it."""
    async with bare_call(node, await recorded_question(node)) as call:
        yield call


@asynccontextmanager
async def bare_call(node: NodeUrl, question: Question) -> AsyncIterator[Ask]:
    method, params = question
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:

        async def call(number: int) -> object:
            body = {"jsonrpc": "2.0", "id": number, "method": method, "params": _with_value(params, hex(number))}
            raw = msgspec.json.encode(body)
            async with session.post(node.url, data=raw, headers={"Content-Type": "application/json"}) as reply:
                return msgspec.json.decode(await reply.read())["result"]

        yield call


def _with_value(params: Any, value: str) -> Any:
    """The params for another transaction. As cheap as building them: the bare side must not look slow."""
    if isinstance(params, dict):
        return {name: _with_value(each, value) for name, each in params.items()}
    if isinstance(params, list):
        return [_with_value(each, value) for each in params]
    return value if params == VALUE else params


async def recorded_question(node: NodeUrl) -> Question:
    """What a second estimate asks for its transaction: the first one finds out what the node offers."""
    seen: list[Any] = []
    async with (
        aiohttp.ClientSession() as session,
        TestServer(_recorder(session, node.url, seen)) as server,
        direct(NodeUrl(str(server.make_url("/")), node.chain_id)) as estimate,
    ):
        await estimate(int(VALUE, 16))
        seen.clear()
        await estimate(int(VALUE, 16))
    return next(Question(each["method"], each["params"]) for each in seen if VALUE in str(each["params"]))


def _recorder(session: aiohttp.ClientSession, node_url: str, seen: list[Any]) -> web.Application:
    async def pass_on(request: web.Request) -> web.Response:
        body = await request.read()
        call = msgspec.json.decode(body)
        seen.extend(call if isinstance(call, list) else [call])
        async with session.post(node_url, data=body, headers={"Content-Type": "application/json"}) as reply:
            return web.Response(body=await reply.read(), content_type="application/json")

    app = web.Application()
    app.router.add_post("/", pass_on)
    return app


@asynccontextmanager
async def direct(node: NodeUrl) -> AsyncIterator[Ask]:
    """The estimator, in this process."""
    estimator = Estimator(FeeOptions())
    network = Network("local", "evm", node.chain_id, "ETH", rpc_urls=(RpcUrl(node.url),))
    relayer = Relayer("r", "r", "local", "evm", SENDER, "s")

    async def estimate(number: int) -> object:
        encoded = transaction(number, node.chain_id)
        params = FeeEstimateParams(fee_token="ETH", network="local", transaction=encoded)
        return await estimator.estimate(relayer, network, params)

    try:
        yield estimate
    finally:
        await estimator.close()


@asynccontextmanager
async def over_http(url: str, credential: str, network: str, chain_id: int) -> AsyncIterator[Ask]:
    """A running server: `url` is the whole address of a relayer's JSON-RPC operation."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {credential}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64), headers=headers) as session:

        async def estimate(number: int) -> object:
            params = {"fee_token": "ETH", "network": network, "transaction": transaction(number, chain_id)}
            body = {"jsonrpc": "2.0", "id": number, "method": "feeEstimate", "params": params}
            async with session.post(url, data=msgspec.json.encode(body)) as reply:
                return msgspec.json.decode(await reply.read())["result"]

        async with session.get(URL(url).with_path("/healthz")) as reply:  # now the client is connected
            await reply.read()
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


async def measure_direct(node: NodeUrl) -> Figures:
    async with direct(node) as ours, bare_node(node) as bare:
        return await measure(node.chain_id, bare, ours)


async def first_and_warm(ours: Ask, warm: int = 20) -> tuple[float, float]:
    """The seconds of the first estimate, and the median of those that follow."""
    first = await _seconds(ours, 0)
    return first, statistics.median([await _seconds(ours, number) for number in range(1, warm + 1)])


if __name__ == "__main__":
    import sys

    import uvloop

    from tests.node.process import HARDHAT, running

    with running(HARDHAT) as url:
        figures = uvloop.run(measure_direct(NodeUrl(url, 31337)))
    sys.stdout.write(f"{asdict(figures)}\n")
