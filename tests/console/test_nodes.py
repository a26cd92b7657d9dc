"""What pages show of nodes and rates, called while the page is open."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relaydeck.console.node_calls import NodeAnswer, NodeCalls
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from tests.console.conftest import Operator, plain
from tests.fees.archive import LEGACY, Archive, simulated
from tests.support.fault_node import CHAIN_ID, fault_nodes
from tests.support.fee_scene import network
from tests.support.running import Running
from tests.support.seeding import opened


@pytest.fixture
async def estimator() -> AsyncIterator[Estimator]:
    estimator = Estimator(FeeOptions())
    yield estimator
    await estimator.close()


async def test_nodes_with_a_problem_come_first(estimator: Estimator, tmp_path: Path) -> None:
    async with fault_nodes("healthy", "http_500", "healthy") as (newest, failing, late):
        newest.block, late.block = 105, 100
        calls = NodeCalls(estimator, tmp_path)
        found = await calls.call_all([network(newest.url, failing.url, late.url)])
        shown = [each._replace(milliseconds=0) for each in found]
        hosts = [f"http://127.0.0.1:{each.port}" for each in (newest, failing, late)]
        assert shown == [
            NodeAnswer("local", hosts[1], 1, "answered HTTP 500", None, None, 0),
            NodeAnswer("local", hosts[0], 1, "", 105, 0, 0),
            NodeAnswer("local", hosts[2], 1, "", 100, 5, 0),
        ]


async def test_the_blocks_of_another_chain_are_not_compared(estimator: Estimator, tmp_path: Path) -> None:
    async with fault_nodes("healthy", "wrong_chain", "wrong_chain") as (healthy, ahead, behind):
        healthy.block, ahead.block, behind.block = 105, 9_000_000, 3
        found = await NodeCalls(estimator, tmp_path).call(network(healthy.url, ahead.url, behind.url))
        assert [(bool(each.problem), each.block, each.blocks_behind) for each in found] == [
            (False, 105, 0),
            (True, 9_000_000, None),
            (True, 3, None),
        ]


async def test_pages_of_the_same_moment_share_the_calls(estimator: Estimator, tmp_path: Path) -> None:
    now = 0.0
    async with fault_nodes("healthy") as (node,):
        calls, where = NodeCalls(estimator, tmp_path, lambda: now), network(node.url)
        await calls.call_all([where, msgspec.structs.replace(where, name="the same nodes")])
        now = 4.9
        await calls.call(where)
        assert node.requests == 1
        now = 5.0
        await calls.call(where)
        assert node.requests == 2


def test_the_overview_shows_every_node_by_health(operator: Operator) -> None:
    assert 'data-load="/console/nodes"' in operator.text("")
    page = plain(operator.get("/nodes"))
    assert "1 of 1 nodes" in page
    assert "http://127.0.0.1:9" in page
    assert "refused the connection" in page


NETWORK = {
    "network_type": "evm",
    "chain_id": 5,
    "native_symbol": "ETH",
    "rpc_urls": [{"url": "http://127.0.0.1:9/key"}],
    "fee_tokens": {"USDC": {"address": "0x" + "11" * 20, "decimals": 6, "rate": {"fixed": "2"}}},
}


def test_a_network_shows_its_nodes_and_rates(served: Running, operator: Operator) -> None:
    assert served.ask("POST", "/admin/v1/networks", NETWORK | {"name": "priced"}).status == 201
    assert 'data-load="/console/networks/priced/now"' in operator.text("/networks/priced")
    page = plain(operator.get("/networks/priced/now"))
    assert "refused the connection" in page
    assert "Node unreachable: http://127.0.0.1:9 refused the connection" in page


def test_a_network_that_does_not_exist(operator: Operator) -> None:
    assert operator.get("/networks/none/now").status == 404


def test_a_network_with_urls_that_do_not_open(served: Running, operator: Operator) -> None:
    assert served.ask("POST", "/admin/v1/networks", NETWORK | {"name": "broken"}).status == 201
    with opened(served.home) as store, store.database.transaction() as transaction:
        transaction.execute("UPDATE networks SET sealed_rpc_urls = :other WHERE name = 'broken'", {"other": b"x"})
    assert "None." in plain(operator.get("/networks/broken/now"))
    assert "http://127.0.0.1:9" in plain(operator.get("/nodes"))


class QuietArchive(Archive):
    """Its newest block is 97, and only block 96 has a transaction."""

    def __init__(self) -> None:
        super().__init__(LEGACY)
        self.answers = {"eth_simulateV1": simulated(21_000)}
        self.block = 97

    def _result(self, mood: str, method: str, params: Any) -> Any:
        if method == "eth_getBlockByNumber" and params[1] and params[0] != "0x60":
            return {"number": params[0], "transactions": []}
        return super()._result(mood, method, params)


async def test_a_backtest_of_a_network(served: Running, operator: Operator) -> None:
    node = QuietArchive()
    await node.start()
    try:
        where = NETWORK | {"name": "tested", "chain_id": CHAIN_ID, "rpc_urls": [{"url": node.url}], "fee_tokens": {}}
        assert (await asyncio.to_thread(served.ask, "POST", "/admin/v1/networks", where)).status == 201
        assert 'href="/console/networks/tested/backtest"' in await asyncio.to_thread(operator.text, "/networks/tested")
        page = plain(await asyncio.to_thread(operator.get, "/networks/tested/backtest"))
        assert "type 0, transfer10.00 %0.00 %+0.00 %" in page
        assert "gas10.00 %0.00 %+0.00 %" in page
        node.receipt = node.receipt | {"l1Fee": hex(2 * 21_000 * 150), "l1GasPrice": "0x1"}
        page = plain(await asyncio.to_thread(operator.get, "/networks/tested/backtest"))
        assert "this chain charges a data fee: 66 % of the fee is missing; try fee_model = op_stack" in page
    finally:
        await node.stop()


def test_a_backtest_of_nodes_that_do_not_answer(served: Running, operator: Operator) -> None:
    silent = NETWORK | {"name": "silent", "labels": {"team": "payments"}}
    assert served.ask("POST", "/admin/v1/networks", silent).status == 201
    page = plain(operator.get("/networks/silent/backtest"))
    assert "nothing was tested: http://127.0.0.1:9 refused the connection" in page
    assert operator.get("/networks/none/backtest").status == 404
