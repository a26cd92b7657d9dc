"""Compares the newest blocks of the nodes of a pool, and marks the nodes that are behind, stand still or contradict."""

from collections.abc import Sequence
from statistics import median_low

from relaydeck.networks.evm.landmark import Landmark
from relaydeck.networks.evm.node import Node

_STILL_ROUNDS = 2  # in which other nodes were ahead and this one did not move


def compare_heads(nodes: Sequence[Node], max_lag: int) -> Landmark | None:
    """`nodes` have just been read, at the same moment. Return the newest block that they agree on."""
    if not nodes:
        return None
    best = _best_head(nodes, max_lag)
    for node in nodes:
        _mark_distance(node, best, max_lag)
    near = [node for node in nodes if not node.stale]
    return _agreed(_without_contradictions(near))


def _best_head(nodes: Sequence[Node], max_lag: int) -> int:
    """The highest. One that is far ahead of all others is not believed, unless there are two and nothing disproves it.

    A block with a hash that does not fit is disproved by one with a hash that does.
    """
    first, *others = sorted(nodes, key=lambda node: node.head, reverse=True)
    if not others or first.head - others[0].head <= max_lag:
        return first.head
    if len(others) > 1 or (_is_genuine(others[0]) and not _is_genuine(first)):
        return others[0].head
    return first.head


def _is_genuine(node: Node) -> bool:
    return node.landmark is not None and node.landmark.is_genuine


def _mark_distance(node: Node, best: int, max_lag: int) -> None:
    node.lag = lag = max(0, best - node.head)
    node.still_rounds = node.still_rounds + 1 if lag and not node.moved else 0
    node.stale = ""
    if lag > max_lag:
        node.stale = f"is {lag} blocks behind"
    elif node.still_rounds >= _STILL_ROUNDS:
        node.stale = f"stands still at block {node.head}"
    elif node.head - best > max_lag:
        node.stale = f"reports block {node.head}, which no other node has reached"


def _without_contradictions(nodes: list[Node]) -> list[Node]:
    """Those with a hash that fits their block, if any has; of those the majority, or else the newest; or none."""
    if not _contradicting(nodes):
        return nodes
    genuine = [node for node in nodes if _is_genuine(node)]
    if genuine:
        _mark(nodes, genuine, "sends a block that does not fit its hash")
    believed = _largest_group(genuine or nodes)
    if not believed and genuine:  # two blocks that both existed: the newer one is the better answer
        newest = max(genuine, key=lambda node: node.head)
        believed = [node for node in genuine if not _apart(node, newest)]
    if believed:
        _mark(genuine or nodes, believed, "contradicts the other nodes about the newest block")
    return believed


def _largest_group(nodes: list[Node]) -> list[Node]:
    """The nodes that more than half agree with; empty when there are none."""
    largest = max(([other for other in nodes if not _apart(node, other)] for node in nodes), key=len)
    return largest if 2 * len(largest) > len(nodes) else []


def _contradicting(nodes: list[Node]) -> bool:
    return any(_apart(node, other) for node in nodes for other in nodes)


def _apart(node: Node, other: Node) -> bool:
    return node.landmark is not None and other.landmark is not None and node.landmark.contradicts(other.landmark)


def _mark(nodes: list[Node], believed: list[Node], why: str) -> None:
    for node in nodes:
        if node not in believed:
            node.stale = why


def _agreed(nodes: list[Node]) -> Landmark | None:
    marks = [node.landmark for node in nodes if node.landmark is not None]
    if not marks:
        return None
    number = max(mark.number for mark in marks)
    newest = [mark for mark in marks if mark.number == number]  # the base fee of an older block is another one
    base_fees = [mark.base_fee for mark in newest if mark.base_fee is not None]
    limits = [mark.gas_limit for mark in marks if mark.gas_limit is not None]
    return Landmark(number, median_low(base_fees) if base_fees else None, median_low(limits) if limits else None)
