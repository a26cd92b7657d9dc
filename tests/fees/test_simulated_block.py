"""In which block a transaction is simulated, on nodes that are behind or ahead of the price."""

import asyncio
import time
from typing import Any

from relaydeck.fees import FeeOptions
from relaydeck.fees.chain_cache import ChainCaches
from relaydeck.fees.gas import Gas, Run
from relaydeck.networks.model import RpcUrl
from tests.networks.fault_node import CHAIN_ID, FaultNode, started

SENDER = "0x" + "11" * 20


class Simulating(FaultNode):
    """As geth: it runs after its newest block, and fills a gap up to the number that was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[str | None] = []

    def _result(self, mood: str, method: str, params: Any) -> Any:
        if method != "eth_simulateV1":
            return super()._result(mood, method, params)
        number = params[0]["blockStateCalls"][0]["blockOverrides"].get("number")
        self.numbers.append(number)
        wanted = int(number, 16) if number else self.block + 1
        if wanted <= self.block:
            return {"code": -38020, "message": "block numbers must be in order"}
        gap = [{"number": hex(each), "calls": []} for each in range(self.block + 1, wanted)]
        return [*gap, {"number": hex(wanted), "calls": [{"gasUsed": hex(30_000), "status": "0x1"}]}]


def run_after(block: int) -> Run:
    call = {"from": SENDER, "to": "0x" + "99" * 20, "value": "0x0", "data": "0x"}
    return Run(call=call, prices={"gasPrice": "0x96"}, base_fee=100, block=block)


async def measured(node: FaultNode, *blocks: int) -> list[Gas]:
    """After each of these blocks, as far as the price is concerned."""
    caches, loop = ChainCaches(FeeOptions(deadline=30.0, try_timeout=30.0), time.monotonic), asyncio.get_running_loop()
    meter = caches.find((RpcUrl(node.url),), CHAIN_ID).gas
    try:
        return [await meter.measure(run_after(block), loop.time() + 30) for block in blocks]
    finally:
        await caches.close()


async def test_a_node_that_is_behind_simulates_in_the_block_of_the_price() -> None:
    async with started(Simulating()) as node:
        found = await measured(node, 102, 100)
        assert [(each.used, each.method) for each in found] == [(30_000, "eth_simulateV1")] * 2
        assert node.numbers == [None, "0x67", None]  # that it was behind once is not remembered


async def test_a_node_that_is_ahead_of_the_price_simulates_in_its_next_block() -> None:
    class InLastBlock(Simulating):
        def _result(self, mood: str, method: str, params: Any) -> Any:
            answer = super()._result(mood, method, params)
            if method == "eth_simulateV1" and self.numbers[-1] is None:
                answer[-1]["number"] = hex(self.block)
            return answer

    async with started(InLastBlock()) as node:
        found = await measured(node, 100, 90)
        assert [(each.used, each.method) for each in found] == [(30_000, "eth_simulateV1")] * 2
        assert node.numbers == [None, "0x65", "0x5b", None]
