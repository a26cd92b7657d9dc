"""What a process knows about the hosts of its nodes, for the metrics. A host is shown without any part of a key."""

from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from relaydeck.networks.evm.node import Fault, Node, State

MOST_HOSTS = 100


class HostFigures(msgspec.Struct):
    """Of all nodes on one host."""

    up: bool = False
    lag: int = 0  # blocks, of the one furthest behind
    seconds: float = 0.0  # of an average answer, of the slowest
    errors: int = 0
    last_fault: Fault | None = None

    def add(self, other: "HostFigures") -> None:
        self.up = self.up or other.up
        self.lag = max(self.lag, other.lag)
        self.seconds = max(self.seconds, other.seconds)
        self.errors += other.errors
        faults = [each for each in (self.last_fault, other.last_fault) if each]
        self.last_fault = max(faults, key=lambda each: each.at, default=None)


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
            figures = HostFigures(node.state is State.UP, node.lag, node.pace.usual, node.errors, node.last_fault)
            found.add_host(urlsplit(node.shown).netloc, figures)
    return found
