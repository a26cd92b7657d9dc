"""Which failures are the question's fault, and which are the node's."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from relaydeck.networks.evm.errors import NodeError, NodesUnreachable
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import Question, read_gas
from tests.networks.test_pool import GAS, Clock, pool_over
from tests.support.fault_node import FaultNode, fault_nodes

STATUSES = [400, 401, 403, 404, 413, 422, 429, 500, 502, 503]


def poisoned(number: int = 0) -> Question[int]:
    return Question("eth_estimateGas", ({"from": f"0xbad{number}", "to": "0x" + "11" * 20}, "latest"), read_gas)


def error_body(code: int, message: str, number: str = "%ID%", **more: Any) -> bytes:
    error = json.dumps({"code": code, "message": message, **more})
    return f'{{"jsonrpc":"2.0","id":{number},"error":{error}}}'.encode()


async def tried(pool: NodePool, question: Question[int]) -> Exception | int:
    try:
        return (await pool.ask(question)).value
    except (NodeError, NodesUnreachable) as error:
        return error


@pytest.mark.parametrize("status", STATUSES)
async def test_a_revert_is_read_at_any_status(status: int) -> None:
    async with fault_nodes("healthy") as nodes, pool_over(nodes) as pool:
        nodes[0].raw["eth_estimateGas"] = (f"{status} No", error_body(3, "execution reverted", data="0x"), "")
        with pytest.raises(NodeError, match="error 3"):
            await pool.ask(GAS)
        assert pool.nodes[0].reason == ""


async def test_an_error_without_an_id_is_read() -> None:
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, [1, 0]) as pool:
        nodes[0].raw["eth_estimateGas"] = ("200 OK", error_body(-32005, "limit exceeded", "null"), "")
        assert (await pool.ask(GAS)).node.endswith(str(nodes[1].port))
        assert pool.nodes[0].reason == "is over its limits"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("413 Too Large", b"<html>413</html>"),
        ("500 Oops", b"boom"),
        ("500 Oops", error_body(-32000, "execution reverted: no", data="0x")),
        ("200 OK", b"not json"),
        ("200 OK", b'{"jsonrpc":"2.0","id":%ID%,"result":true}'),
    ],
)
@pytest.mark.parametrize("count", [1, 2])
async def test_a_poison_question_fails_no_other(status: str, body: bytes, count: int) -> None:
    """Sixty poison questions, the same one and different ones, and a valid one after each."""
    async with fault_nodes(*["healthy"] * count) as nodes, pool_over(nodes, clock=Clock()) as pool:
        for node in nodes:
            node.poison, node.raw["poison"] = "0xbad", (status, body, "")
        for number in range(30):
            same, other = await asyncio.gather(tried(pool, poisoned()), tried(pool, poisoned(number)))
            assert isinstance(same, Exception)
            assert isinstance(other, Exception)
            assert await tried(pool, GAS) == 21000


async def test_a_question_that_one_node_cannot_take_is_answered_by_another() -> None:
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, [1, 0]) as pool:
        nodes[0].poison, nodes[0].raw["poison"] = "0xbad", ("413 Too Large", b"", "")
        assert await tried(pool, poisoned()) == 21000
        assert (await pool.ask(GAS)).node.endswith(str(nodes[0].port))


async def test_a_node_that_fails_what_another_answers_is_set_aside() -> None:
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, [1, 0], clock=Clock()) as pool:
        nodes[0].raw["eth_estimateGas"] = ("200 OK", b'{"jsonrpc":"2.0","id":%ID%,"result":true}', "")
        assert await tried(pool, poisoned(1)) == 21000
        assert pool.nodes[0].answers
        assert await tried(pool, poisoned(2)) == 21000
        asked = nodes[0].calls["eth_estimateGas"]
        assert await tried(pool, poisoned(3)) == 21000
        assert nodes[0].calls["eth_estimateGas"] == asked


@pytest.mark.parametrize(("asked", "honoured"), [(100, 100), (600, 600), (86_400, 3600)])
@pytest.mark.parametrize("as_date", [False, True])
async def test_retry_after_is_honoured_for_up_to_an_hour(asked: int, honoured: int, as_date: bool) -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=asked), usegmt=True)
    header = f"retry-after: {moment if as_date else asked}\r\n"
    clock = Clock()
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, [1, 0], clock=clock) as pool:
        await pool.ask(GAS)
        nodes[0].raw["eth_estimateGas"] = ("429 Slow Down", b"", header)
        await pool.ask(GAS)
        nodes[0].raw.clear()
        requests = nodes[0].requests
        clock.time += honoured - 60  # a date is compared with today's clock, which goes on
        await pool.ask(GAS)
        assert nodes[0].requests == requests
        clock.time += 60
        await _asked_again(pool, nodes[0], requests)


async def _asked_again(pool: NodePool, node: FaultNode, requests: int) -> None:
    async with asyncio.timeout(60):
        while node.requests == requests:
            await pool.ask(GAS)


async def test_a_wrong_key_moves_on_and_shows_our_words_only() -> None:
    async with fault_nodes("healthy") as nodes, pool_over(nodes) as pool:
        await pool.ask(GAS)
        nodes[0].raw["eth_estimateGas"] = ("401 No", error_body(-32600, "Must be authenticated!"), "")
        with pytest.raises(NodesUnreachable, match=r"http://127.0.0.1:\d+ does not accept our key"):
            await pool.ask(GAS)
