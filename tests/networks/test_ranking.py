"""Slow, failing and outvoted nodes get smaller shares."""

import pytest

from relaydeck.networks.evm.calls import choose, shares
from relaydeck.networks.evm.node import Latency, Node
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.model import RpcUrl


def node(weight: int, seconds: float = 0.0, errors: int = 0) -> Node:
    made = Node(RpcUrl("http://node.example", weight), PoolOptions())
    if seconds:
        made.latency.add("eth_call", seconds)
    for _ in range(errors):
        made.latency.add_error()
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
    pace = Latency()
    pace.add_error()
    for _ in range(30):
        pace.add("eth_call", 0.01)
    assert pace.error_rate == 0.0
