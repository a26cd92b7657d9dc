"""Slow and failing nodes get smaller shares, and a late answer is raced by a second request."""

import asyncio
from dataclasses import replace

import pytest

from relaydeck.networks.evm.hedge import HedgeBudget, hedge_delay
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.pace import Pace
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.ranking import choose, shares
from relaydeck.networks.model import RpcUrl
from tests.networks.fault_node import fault_nodes
from tests.networks.test_pool import GAS, QUICK, Clock, pool_over


def node(weight: int, seconds: float = 0.0, errors: int = 0) -> Node:
    made = Node(RpcUrl("http://node.example", weight), PoolOptions())
    if seconds:
        made.pace.add("eth_call", seconds)
    for _ in range(errors):
        made.pace.add_error()
    return made


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node(5), node(3)], [5000, 3000]),  # nothing is known: the weights
        ([node(1, 0.005), node(1, 0.020)], [1000, 1000]),  # as fast as the other, as far as it matters
        ([node(1, 0.100), node(1, 0.190)], [1000, 1000]),
        ([node(1, 0.050), node(1, 0.500)], [1000, 40]),  # (0.1 / 0.5)²
        ([node(10, 0.500), node(1, 0.050)], [400, 1000]),  # weights stay the base
        ([node(1), node(1, errors=1)], [1000, 810]),  # 0.9²
        ([node(1), node(1, errors=50)], [1000, 1]),  # never nothing: it may recover
    ],
)
def test_shares(nodes: list[Node], expected: list[int]) -> None:
    assert shares(nodes, "eth_call") == expected


def test_the_choice_follows_the_shares() -> None:
    slow, fast = node(1, 0.500), node(1, 0.050)
    chosen = [choose([slow, fast], "eth_call") for _ in range(104)]
    assert (chosen.count(slow), chosen.count(fast)) == (4, 100)


def test_the_choice_converges_to_the_weights_without_bursts() -> None:
    nodes = [node(5), node(3), node(2)]
    chosen = [nodes.index(choose(nodes)) for _ in range(100)]
    assert [chosen.count(each) for each in range(3)] == [50, 30, 20]
    assert chosen[:10] == [0, 1, 2, 0, 0, 1, 0, 2, 1, 0]


def test_errors_are_forgotten_after_enough_answers() -> None:
    pace = Pace()
    pace.add_error()
    for _ in range(30):
        pace.add("eth_call", 0.01)
    assert pace.error_rate == 0.0


def test_a_percentile_needs_twenty_answers() -> None:
    pace = Pace()
    for number in range(1, 20):
        pace.add("eth_call", number / 1000)
    assert hedge_delay(pace.p95("eth_call")) is None
    pace.add("eth_call", 0.020)
    assert hedge_delay(pace.p95("eth_call")) == 0.020
    assert hedge_delay(0.001) == 0.01


def test_second_requests_are_a_tenth_of_the_calls() -> None:
    budget = HedgeBudget()
    taken = 0
    for _ in range(1000):
        budget.earn()
        taken += budget.take()
    assert taken in (99, 100)


def practised(pool: NodePool) -> None:
    """As after many calls: the nodes' times are known, and a second request is earned."""
    for each in pool._nodes:
        for _ in range(20):
            each.pace.add(GAS.method, 0.001)
    for _ in range(10):
        pool.hedges.earn()


async def test_a_late_answer_is_raced_by_another_node() -> None:
    patient = replace(QUICK, deadline=1000, try_timeout=300)
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, [100, 1], patient, Clock()) as pool:
        await pool.ask(GAS)
        practised(pool)
        nodes[0].mood = "hangs"
        async with asyncio.timeout(60):
            answer = await pool.ask(GAS)
        assert answer.node == f"http://127.0.0.1:{nodes[1].port}"
        assert pool.hedges.sent == 1


async def test_hedging_adds_at_most_a_tenth_to_the_load() -> None:
    patient = replace(QUICK, deadline=1000, try_timeout=300)
    async with fault_nodes("healthy", "healthy") as nodes, pool_over(nodes, options=patient, clock=Clock()) as pool:
        await pool.ask(GAS)
        practised(pool)
        for each in nodes:
            each.delay = 0.03  # later than every answer so far
        for _ in range(40):
            await pool.ask(GAS)
        assert 1 <= pool.hedges.sent <= (10 + 41) // 10
