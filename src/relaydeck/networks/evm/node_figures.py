"""Figures about the nodes of a process, for the metrics. Each worker writes its own to a file; a reader adds them up.

A host is shown without any part of a key. Where a single URL is meant, its digest stands for it.
"""

import hashlib
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from relaydeck.networks.evm.node import Fault, Node, State

Number = TypeVar("Number", int, float)
MOST_HOSTS = 100
_MOST_FAULTS = 1_000
_FRESH_SECONDS = 15.0  # a file that is older belongs to a worker that has ended


class HostFigures(msgspec.Struct):
    """Of all nodes on one host."""

    up: bool = False
    lag: int | None = None  # blocks, of the one furthest behind; None: none has been compared since it last answered
    seconds: float | None = None  # of an average answer, of the slowest; None: none ever answered
    errors: int = 0
    last_fault: Fault | None = None
    outvoted: int = 0  # times that most nodes answered differently

    def add(self, other: "HostFigures") -> None:
        self.up = self.up or other.up
        self.lag = _larger(self.lag, other.lag)
        self.seconds = _larger(self.seconds, other.seconds)
        self.errors += other.errors
        self.outvoted += other.outvoted
        self.last_fault = newer(self.last_fault, other.last_fault)


def newer(one: Fault | None, other: Fault | None) -> Fault | None:
    return max((each for each in (one, other) if each is not None), key=lambda each: each.at, default=None)


def _larger(one: Number | None, other: Number | None) -> Number | None:
    return max((each for each in (one, other) if each is not None), default=None)


class NodeFigures(msgspec.Struct):
    hosts: dict[str, HostFigures] = {}
    disagreements: int = 0
    disputes: dict[int, str] = {}  # by chain id: what the nodes answer that do not agree
    faults: dict[str, Fault] = {}  # the last one of a URL, by `fault_key`
    feed_changes: dict[str, str] = {}  # by address: what changed at a price feed

    def add(self, other: "NodeFigures") -> None:
        self.disagreements += other.disagreements
        self.disputes |= other.disputes
        self.feed_changes |= other.feed_changes
        for host, figures in other.hosts.items():
            self.add_host(host, figures)
        for key, fault in other.faults.items():
            if key in self.faults or len(self.faults) < _MOST_FAULTS:
                self.faults[key] = newer(self.faults.get(key), fault) or fault

    def add_host(self, host: str, figures: HostFigures) -> None:
        """Beyond the first hosts none are added: a label must not have as many values as there are relayers."""
        if host in self.hosts or len(self.hosts) < MOST_HOSTS:
            self.hosts.setdefault(host, HostFigures()).add(figures)


def fault_key(chain_id: int, url: str) -> str:
    """A URL may be used for several networks, and may be right for one of them only."""
    return hashlib.blake2b(f"{chain_id} {url}".encode(), digest_size=16).hexdigest()


def node_figures(nodes: Iterable[Node], chain_id: int, disagreements: int) -> NodeFigures:
    """Nodes that were never asked are left out."""
    found = NodeFigures(disagreements=disagreements)
    for node in nodes:
        if node.last_fault is not None:
            found.faults[fault_key(chain_id, node.url.url)] = node.last_fault
        if node.state is not State.NEW:
            figures = HostFigures(
                node.state is State.UP, node.lag, node.latency.slowest, node.errors, node.last_fault, node.outvoted
            )
            found.add_host(urlsplit(node.shown).netloc, figures)
    return found


_decode = msgspec.json.Decoder(NodeFigures).decode


def write_figures(folder: Path, figures: NodeFigures) -> None:
    """A disk that is full costs the figures, not the service."""
    path = folder / f"nodes-{os.getpid()}"
    fresh = path.with_suffix(".new")
    with suppress(OSError):
        fresh.write_bytes(msgspec.json.encode(figures))
        fresh.replace(path)


def read_figures(folder: Path) -> NodeFigures:
    found = NodeFigures(hosts={})
    for path in sorted(folder.glob("nodes-*")):
        with suppress(OSError, msgspec.MsgspecError):  # it may have been removed
            if path.suffix:
                continue
            if time.time() - path.stat().st_mtime > _FRESH_SECONDS:
                path.unlink()
                continue
            found.add(_decode(path.read_bytes()))
    return found


def read_faults(folder: Path) -> dict[str, Fault]:
    """What last went wrong with each URL, in any worker; by `fault_key`."""
    return read_figures(folder).faults
