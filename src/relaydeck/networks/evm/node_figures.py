"""What a process knows about the hosts of its nodes, for the metrics. A host is shown without any part of a key."""

from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from relaydeck.networks.evm.node import Fault, Node, State

Number = TypeVar("Number", int, float)
MOST_HOSTS = 100


class HostFigures(msgspec.Struct):
    """Of all nodes on one host."""

    up: bool = False
    lag: int | None = None  # blocks, of the one furthest behind; None: none has been compared since it last answered
    seconds: float | None = None  # of an average answer, of the slowest; None: none ever answered
    errors: int = 0
    last_fault: Fault | None = None

    def add(self, other: "HostFigures") -> None:
        self.up = self.up or other.up
        self.lag = _larger(self.lag, other.lag)
        self.seconds = _larger(self.seconds, other.seconds)
        self.errors += other.errors
        faults = [each for each in (self.last_fault, other.last_fault) if each]
        self.last_fault = max(faults, key=lambda each: each.at, default=None)


def _larger(one: Number | None, other: Number | None) -> Number | None:
    return max((each for each in (one, other) if each is not None), default=None)


class NodeFigures(msgspec.Struct):
    hosts: dict[str, HostFigures] = {}
    disagreements: int = 0
    disputes: dict[int, str] = {}  # by chain id: what the nodes of a network with a quorum answer that do not agree

    def add(self, other: "NodeFigures") -> None:
        self.disagreements += other.disagreements
        self.disputes |= other.disputes
        for host, figures in other.hosts.items():
            self.add_host(host, figures)

    def add_host(self, host: str, figures: HostFigures) -> None:
        """Beyond the first hosts none are added: a label must not have as many values as there are relayers."""
        if host in self.hosts or len(self.hosts) < MOST_HOSTS:
            self.hosts.setdefault(host, HostFigures()).add(figures)


def node_figures(nodes: Iterable[Node], disagreements: int) -> NodeFigures:
    """Nodes that were never asked are left out."""
    found = NodeFigures(disagreements=disagreements)
    for node in nodes:
        if node.state is not State.NEW:
            figures = HostFigures(node.state is State.UP, node.lag, node.pace.slowest, node.errors, node.last_fault)
            found.add_host(urlsplit(node.shown).netloc, figures)
    return found
