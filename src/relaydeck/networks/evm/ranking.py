"""Which of several usable nodes is asked: by weight, less for nodes that are slow or fail."""

from collections.abc import Sequence

from relaydeck.networks.evm.landmark import NEWEST_BLOCK
from relaydeck.networks.evm.node import Node

_SCALE = 1000  # shares are integers: the choice is exact
_SIMILAR = 0.025  # seconds; nodes of one data centre and a busy machine differ by as much


def choose(nodes: Sequence[Node], method: str = "") -> Node:
    """Smooth weighted round robin: converges to the shares without bursts. Spare URLs take turns."""
    if len(nodes) == 1:
        return nodes[0]
    total = 0
    for node, share in zip(nodes, shares(nodes, method), strict=True):
        node.credit += share
        total += share
    chosen = max(nodes, key=lambda node: node.credit)
    chosen.credit -= total
    return chosen


def shares(nodes: Sequence[Node], method: str) -> list[int]:
    """The weights, each reduced by the square of how much slower than the fastest, and how unreliable, a node is.

    A node that is at most twice as slow as the fastest keeps its whole weight.
    """
    latencies = [node.pace.latency(method, NEWEST_BLOCK.method) or 0.0 for node in nodes]
    fastest = min(latencies)
    similar = max(2 * fastest, fastest + _SIMILAR)
    return [_share(node, similar, latency) for node, latency in zip(nodes, latencies, strict=True)]


def _share(node: Node, similar: float, latency: float) -> int:
    share = float(_SCALE * (node.weight or 1))
    if latency > similar:
        share *= (similar / latency) ** 2
    if node.pace.error_rate:
        share *= (1 - node.pace.error_rate) ** 2
    return max(1, round(share))
