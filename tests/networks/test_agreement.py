"""What several nodes answer: numbers by the median, verdicts by the majority, and nobody without one."""

from typing import Any

import pytest
from msgspec import structs

from relaydeck.networks.evm.agreement import Decision, Subject, decide, near, shown_answer, similar
from relaydeck.networks.evm.calls import Said
from relaydeck.networks.evm.errors import NodeError, NodesDisagree
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.options import PoolOptions, PoolRules
from relaydeck.networks.evm.questions import Question, read_quantity
from relaydeck.networks.model import RpcUrl
from tests.networks.test_pool import Clock, pool_over
from tests.support.fault_node import FaultNode, fault_nodes

NONCE = Question("eth_getTransactionCount", ("0x" + "11" * 20, "0x64"), read_quantity)
BALANCE = Question("eth_getBalance", ("0x" + "11" * 20, "0x64"), read_quantity)
REVERT = {"code": 3, "message": "execution reverted", "data": "0x"}
GAS_DISPUTED = "the nodes disagree about the gas:"
EXACT: Subject[int] = Subject("the gas")
TIPS: Subject[int] = Subject("the tip", near, int)
SEARCHED: Subject[int] = Subject("the gas", similar, int)


def said(*values: Any) -> list[Said]:
    nodes = [Node(RpcUrl(f"http://{name}.example"), PoolOptions()) for name in "abcde"]
    return [Said(node, value) for node, value in zip(nodes, values, strict=False)]


@pytest.mark.parametrize(
    ("about", "values", "quorum", "decided"),
    [
        (EXACT, [5], 1, 5),
        (EXACT, [5, 5], 2, 5),
        (EXACT, [9, 5, 5], 2, 5),
        (EXACT, [9, 5, 5], 3, 5),
        (EXACT, [9, 5, 5, 5, 8], 5, 5),
        (TIPS, [20, 10, 12], 2, 12),
        (TIPS, [2000, 1000, 1001], 2, 1001),
        (TIPS, [20_000, 1000, 1001], 2, 1001),
        (TIPS, [1000, 2000], 2, 2000),  # of two that agree, the higher
        (SEARCHED, [100_000, 101_000], 2, 101_000),
    ],
)
def test_what_is_decided(about: Subject[int], values: list[int], quorum: int, decided: int) -> None:
    assert decide(said(*values), quorum, about).chosen.value == decided


@pytest.mark.parametrize(
    ("about", "values", "quorum", "words"),
    [
        (EXACT, [5, 6], 1, "the nodes disagree about the gas: http://a.example 5; http://b.example 6"),
        (EXACT, [5, 6, 7], 2, f"{GAS_DISPUTED} http://a.example 5; http://b.example 6; http://c.example 7"),
        (EXACT, [5], 2, "2 nodes decide about the gas, and only one answers: http://a.example 5"),
        (TIPS, [1000, 3001], 2, "the nodes disagree about the tip: http://a.example 1000; http://b.example 3001"),
        (SEARCHED, [100_000, 103_000], 2, f"{GAS_DISPUTED} http://a.example 100000; http://b.example 103000"),
        (
            EXACT,
            [5, NodeError(3, "a secret", "0x")],
            1,
            "the nodes disagree about the gas: http://a.example 5; http://b.example execution reverts: no reason given",
        ),
    ],
)  # fmt: skip
def test_what_is_not_decided(about: Subject[int], values: list[Any], quorum: int, words: str) -> None:
    with pytest.raises(NodesDisagree) as failure:
        decide(said(*values), quorum, about)
    assert str(failure.value) == words


def test_errors_agree_with_errors() -> None:
    assert isinstance(decide(said(NodeError(3, ""), 5, NodeError(3, "")), 2, EXACT).chosen.value, NodeError)


def test_bytes_are_shown_as_numbers() -> None:
    assert shown_answer(bytes(31) + b"\x07" + bytes(31) + b"\x08") == "7 8"
    assert shown_answer(b"") == "nothing"


def answering(nodes: list[FaultNode], *answers: Any) -> None:
    for node, answer in zip(nodes, answers, strict=True):
        node.answers["eth_getTransactionCount"] = answer


async def test_two_of_three_nodes_are_asked_by_default_and_the_third_decides() -> None:
    async with fault_nodes(*["healthy"] * 3) as nodes, pool_over(nodes, clock=Clock()) as pool:
        answering(nodes, "0x5", "0x5", "0x5")
        assert (await pool.ask(NONCE)).value == 5
        assert sum(node.calls[NONCE.method] for node in nodes) == 2
        answering(nodes, "0x9", "0x5", "0x5")
        for _ in range(3):
            assert (await pool.ask(NONCE)).value == 5
    liar = next(node for node in pool.nodes if f":{nodes[0].port}" in node.shown)
    assert liar.outvoted >= 1
    assert liar.last_fault is not None
    assert liar.last_fault.reason == ("answered 9 about the answer to eth_getTransactionCount; the others answered 5")
    assert pool.figures().disagreements == liar.outvoted


async def test_a_node_that_is_outvoted_is_asked_less_often() -> None:
    async with fault_nodes(*["healthy"] * 4) as nodes, pool_over(nodes, clock=Clock()) as pool:
        answering(nodes, "0x9", "0x5", "0x5", "0x5")
        for _ in range(60):
            assert (await pool.ask(NONCE)).value == 5
    first, *others = (node.calls[NONCE.method] for node in nodes)
    assert first < min(others) / 2


async def test_one_node_of_two_is_enough_but_a_refusal_is_confirmed() -> None:
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, clock=Clock()) as pool:
        answering(nodes, "0x5", "0x5")
        await pool.ask(NONCE)
        assert sum(node.calls[NONCE.method] for node in nodes) == 1
        answering(nodes, REVERT, REVERT)
        with pytest.raises(NodeError):
            await pool.ask(NONCE)
        assert sum(node.calls[NONCE.method] for node in nodes) == 3
        answering(nodes, REVERT, "0x5")
        with pytest.raises(NodesDisagree, match="execution reverts: no reason given"):
            for _ in range(2):  # the one or the other is asked first
                await pool.ask(NONCE)


async def test_the_quorum_of_the_network_counts() -> None:
    async with fault_nodes("healthy", "dead", "healthy") as nodes, pool_over(nodes, clock=Clock()) as pool:
        pool.rules = PoolRules(quorum=3)
        answering(nodes, "0x5", "0x5", "0x5")
        assert (await pool.ask(NONCE)).value == 5  # two that answer are enough to agree
        await nodes[2].stop()
        with pytest.raises(NodesDisagree) as failure:
            await pool.ask(NONCE)
    assert str(failure.value).startswith(
        "3 nodes decide about the answer to eth_getTransactionCount, and only one answers"
    )
    assert f"http://127.0.0.1:{nodes[1].port} refused the connection" in str(failure.value)


async def test_questions_of_one_request_are_decided_one_by_one() -> None:
    async with fault_nodes(*["healthy"] * 3) as nodes, pool_over(nodes, clock=Clock()) as pool:
        answering(nodes, "0x9", "0x5", "0x5")
        for node, amount in zip(nodes, ("0x1", "0x2", "0x3"), strict=True):
            node.answers["eth_getBalance"] = amount
        nonce, balance = await pool.ask_each([NONCE, BALANCE])
    assert isinstance(nonce, Decision)
    assert (nonce.chosen.value, len(nonce.believed)) == (5, 2)
    assert isinstance(balance, NodesDisagree)
    assert "the answer to eth_getBalance" in pool.figures().disputes[31337]


async def test_a_method_that_no_node_offers_is_no_dispute() -> None:
    async with fault_nodes(*["healthy"] * 3) as nodes, pool_over(nodes, clock=Clock()) as pool:
        answering(nodes, *[{"code": -32601, "message": "the method does not exist"}] * 3)
        with pytest.raises(NodeError, match="error -32601"):
            await pool.ask(NONCE)
        assert (pool.figures().disagreements, pool.figures().disputes) == (0, {})


async def test_a_dispute_is_over_when_all_agree() -> None:
    async with fault_nodes(*["healthy"] * 2) as nodes, pool_over(nodes, clock=Clock()) as pool:
        pool.rules = PoolRules(quorum=2)
        answering(nodes, "0x9", "0x5")
        with pytest.raises(NodesDisagree):
            await pool.ask(NONCE)
        assert pool.figures().disputes
        answering(nodes, "0x5", "0x5")
        await pool.ask(NONCE)
        assert pool.figures().disputes == {}


async def test_a_dispute_lasts_until_the_nodes_of_it_agree() -> None:
    async with fault_nodes(*["healthy"] * 3) as nodes, pool_over(nodes, clock=Clock()) as pool:
        answering(nodes, "0x9", "0x5", "0x5")
        for _ in range(4):  # the honest ones agree with each other meanwhile
            await pool.ask(NONCE)
        assert "eth_getTransactionCount" in pool.figures().disputes[31337]
        pool.rules = PoolRules(quorum=3)
        answering(nodes, "0x5", "0x5", "0x5")
        await pool.ask(NONCE)
        assert pool.figures().disputes == {}


async def test_the_disputes_that_are_kept_are_bounded() -> None:
    async with fault_nodes(*["healthy"] * 2) as nodes, pool_over(nodes, clock=Clock()) as pool:
        pool.rules = PoolRules(quorum=2)
        answering(nodes, "0x9", "0x5")
        await pool.ask_each([structs.replace(NONCE, about=f"the nonce of {number}") for number in range(50)])
        said = pool.figures().disputes[31337]
    assert (said.count("the nonce of "), "the nonce of 49: " in said, "the nonce of 29: " in said) == (20, True, False)


async def test_the_newest_block_is_read_from_every_node_with_what_is_asked_about_it() -> None:
    async with fault_nodes(*["healthy"] * 3) as nodes, pool_over(nodes, clock=Clock()) as pool:
        nodes[0].block = 99
        reading = await pool.read(lambda block: [Question("eth_gasPrice", (), read_quantity)])
        assert (reading.head.number, [each.value for each in reading.said]) == (100, [[110], [110]])
        lags = {each.shown.rsplit(":")[-1]: each.lag for each in pool.nodes}
        assert lags == {str(nodes[0].port): 1, str(nodes[1].port): 0, str(nodes[2].port): 0}
        assert [node.requests for node in nodes] == [2, 2, 2]  # the probe, and one request for everything
