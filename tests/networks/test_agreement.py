"""Fee data of several nodes: which are believed, and what happens when too few agree."""

from collections.abc import Sequence

import pytest

from relaydeck.networks.evm.agreement import Witness, believed_by_bounds, believed_by_quorum
from relaydeck.networks.evm.errors import NodeError, NodesDisagree
from relaydeck.networks.evm.figures import Figures
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.options import PoolOptions, PoolRules
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import Question, read_quantity
from relaydeck.networks.model import RpcUrl
from tests.networks.fault_node import FaultNode, fault_nodes
from tests.networks.test_pool import Clock, pool_over

GAS_PRICE = Question("eth_gasPrice", (), read_quantity)


def witnesses(*prices: int, block: int | None = 100) -> list[Witness]:
    node = Node(RpcUrl("http://node.example"), PoolOptions())
    return [Witness(node, price, Figures(block=block, price=price)) for price in prices]


def prices(found: Sequence[Witness]) -> list[int]:
    return [witness.price for witness in found]


@pytest.mark.parametrize(
    ("heard", "quorum", "believed"),
    [
        ([10**9, 10**9], 2, [10**9, 10**9]),
        ([10**9, 10**9 * 11 // 10], 2, [10**9, 10**9 * 11 // 10]),
        ([10**9, 10**16], 2, []),
        ([10**9], 2, []),
        ([], 2, []),
        ([1, 10**9, 10**16, 10**9, 5 * 10**12], 2, [10**9, 10**9]),  # three liars, each alone
        ([10**16, 10**9, 10**16, 10**9, 10**16], 2, []),  # two groups: neither is believed
        ([10**9, 10**9, 10**16], 3, []),
    ],
)
def test_a_quorum(heard: list[int], quorum: int, believed: list[int]) -> None:
    assert prices(believed_by_quorum(witnesses(*heard), quorum, 10)) == believed


def test_suggestions_may_differ_by_the_factor() -> None:
    assert prices(believed_by_quorum(witnesses(10**9, 5 * 10**9, block=None), 2, 10)) == [10**9, 5 * 10**9]


@pytest.mark.parametrize(
    ("heard", "base_fee", "believed"),
    [
        ([10**9, 2 * 10**9], None, [10**9, 2 * 10**9]),
        ([10**9, 10**16], 10**9, [10**9]),
        ([1, 10**9], 10**9, [10**9]),
        ([10**9, 10**16], 10**13, [10**9]),  # a tip is often far below the base fee
        ([10**9, 10**16], 10**6, [10**9]),  # or far above it
        ([10**9, 10**16], None, []),  # a chain without a base fee
        ([1, 10**9], 0, []),  # or with one that says nothing about the price
        ([7, 4 * 10**7], 7, []),
        ([1, 10**9, 10**9], None, [10**9, 10**9]),
        ([10**9, 10**16, 10**9], None, [10**9, 10**9]),
    ],
)
def test_bounds(heard: list[int], base_fee: int | None, believed: list[int]) -> None:
    assert prices(believed_by_bounds(witnesses(*heard), 10, base_fee)) == believed


def of_block(base_fee: int, price: int, block: int = 100, blob_price: int | None = None) -> Witness:
    figures = Figures(block=block, base_fee=base_fee, price=price, blob_price=blob_price)
    return Witness(Node(RpcUrl("http://node.example"), PoolOptions()), price, figures)


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (of_block(7, 40_000_007), of_block(7, 80_000_007, 101), True),  # tips vary more than base fees
        (of_block(7, 40_000_007), of_block(7, 400_000_007, 101), False),
        (of_block(252, 252), of_block(252, 1_000_252, 101), True),  # idle blocks say nothing about tips
        (of_block(10**9, 10**9), of_block(2 * 10**9, 2 * 10**9, 101), False),
        (of_block(10**9, 10**9, blob_price=10**9), of_block(10**9, 10**9, 101, 1_100_000_000), True),
        (of_block(10**9, 10**9, blob_price=1), of_block(10**9, 10**9, blob_price=10**18), False),
        (of_block(10**9, 10**9, blob_price=1), of_block(10**9, 10**9), True),  # one does not know blobs
    ],
)
def test_data_of_blocks(one: Witness, other: Witness, agree: bool) -> None:
    assert (one.agrees(other, 10), other.agrees(one, 10)) == (agree, agree)


def lie(pool: NodePool, nodes: Sequence[FaultNode], *liars: int, price: str = "0xffffffff") -> None:
    pool.rules = PoolRules(quorum=2)
    for liar in liars:
        nodes[liar].answers["eth_gasPrice"] = price


async def test_a_lying_majority_is_reported_and_not_believed() -> None:
    async with fault_nodes(*["healthy"] * 5) as nodes, pool_over(nodes, clock=Clock()) as pool:
        lie(pool, nodes, 0, 1, 2)
        with pytest.raises(NodesDisagree) as failure:
            await pool.ask(GAS_PRICE)
    shown = [f"http://127.0.0.1:{node.port} {4294967295 if i < 3 else 110} Wei" for i, node in enumerate(nodes)]
    assert str(failure.value) == f"no 2 nodes agree on the price of gas: {', '.join(shown)}"
    assert (pool.disagreements, pool.figures().disputes) == (1, {31337: ", ".join(shown)})


async def test_a_dispute_is_over_when_all_agree() -> None:
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, clock=Clock()) as pool:
        lie(pool, nodes, 0)
        with pytest.raises(NodesDisagree):
            await pool.ask(GAS_PRICE)
        nodes[0].answers.clear()
        await pool.ask(GAS_PRICE)
        assert pool.figures().disputes == {}


async def test_two_that_agree_are_believed_against_liars_that_do_not() -> None:
    async with fault_nodes(*["healthy"] * 4) as nodes, pool_over(nodes, clock=Clock()) as pool:
        lie(pool, nodes, 0)
        lie(pool, nodes, 1, price="0xffffff")
        assert (await pool.ask(GAS_PRICE)).value == 110
    assert pool.disagreements == 1


async def test_a_quorum_needs_as_many_nodes() -> None:
    async with fault_nodes("healthy", "dead") as nodes, pool_over(nodes, clock=Clock()) as pool:
        lie(pool, nodes)
        with pytest.raises(NodesDisagree, match=r"no 2 nodes agree on the price of gas: http://127\.0\.0\.1"):
            await pool.ask(GAS_PRICE)


async def test_of_two_that_are_far_apart_neither_is_believed_without_a_base_fee() -> None:
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, clock=Clock()) as pool:
        for node in nodes:
            node.answers["eth_getBlockByNumber"] = {"number": "0x64", "gasLimit": "0x1c9c380"}
        nodes[0].answers["eth_gasPrice"] = "0xffffffff"
        with pytest.raises(NodesDisagree) as failure:
            await pool.ask(GAS_PRICE)
    shown = [f"http://127.0.0.1:{node.port} {price} Wei" for node, price in zip(nodes, (4294967295, 110), strict=True)]
    assert str(failure.value) == f"no 2 nodes agree on the price of gas: {', '.join(shown)}"


async def test_a_node_that_is_late_is_not_replaced_in_a_comparison() -> None:
    """The answer of another node in its place would make one node agree with itself."""
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, clock=Clock()) as pool:
        lie(pool, nodes)
        await pool.ask(GAS_PRICE)
        for node in pool._nodes:
            for _ in range(20):
                node.pace.add(GAS_PRICE.method, 0.001)
        for _ in range(10):
            pool.hedges.earn()
        nodes[0].delay = 0.1  # later than every answer so far
        assert (await pool.ask(GAS_PRICE)).value == 110
        assert pool.hedges.sent == 0


async def test_a_method_that_no_node_offers_is_no_dispute() -> None:
    unknown = {"code": -32601, "message": "the method does not exist"}
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, clock=Clock()) as pool:
        pool.rules = PoolRules(quorum=2)
        for node in nodes:
            node.answers["eth_gasPrice"] = unknown
        with pytest.raises(NodeError, match="-32601: the method does not exist"):
            await pool.ask(GAS_PRICE)
        assert (pool.disagreements, pool.figures().disputes) == (0, {})


async def test_an_idle_node_does_not_contradict_one_that_saw_tips() -> None:
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, clock=Clock()) as pool:
        for node, tip in zip(nodes, ("0x0", "0xf4240"), strict=True):
            history = {"oldestBlock": "0x63", "baseFeePerGas": ["0x64"] * 3, "gasUsedRatio": [0.5] * 2}
            node.answers["eth_feeHistory"] = history | {"reward": [[tip], [tip]]}
        found = await pool.ask(Question("eth_feeHistory", ("0x2", "latest", (50,)), dict))
        assert found.value["baseFeePerGas"] == ["0x64"] * 3
        assert pool.disagreements == 0
