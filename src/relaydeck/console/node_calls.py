"""What the nodes of networks answer now. Pages that are open at the same time share the calls."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from relaydeck.errors import Damaged, RecordNotFound
from relaydeck.fees.estimator import Estimator
from relaydeck.networks import network_rows
from relaydeck.networks.evm.node import Fault
from relaydeck.networks.evm.node_figures import read_faults
from relaydeck.networks.evm.node_health import Evidence
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.store.database import Row
from relaydeck.store.open_store import Store
from relaydeck.timestamps import utc

_SHARED_SECONDS = 5.0
_MOST_NETWORKS = 100
_MOST_KEPT = 1000
Answers = list[tuple[Evidence, Fault | None]]
_SELECT = f"SELECT {network_rows.COLUMNS} FROM networks"


class NodeAnswer(NamedTuple):
    network: str
    node: str  # scheme and host
    weight: int
    problem: str  # empty: there is none
    block: int | None
    behind: int | None  # blocks behind the newest one of the network; None for a node with a problem
    milliseconds: int
    last_fault: str | None = None  # in any worker; it may be over
    last_fault_at: str | None = None  # UTC


def read_networks(store: Store) -> list[Network]:
    """The first networks, without the URLs that do not open."""
    rows = store.database.read(f"{_SELECT} ORDER BY seq LIMIT :most", {"most": _MOST_NETWORKS})
    return [_network(row, store) for row in rows]


def read_network(store: Store, name: str) -> Network:
    """Raises RecordNotFound."""
    rows = store.database.read(f"{_SELECT} WHERE name = :name", {"name": name})
    if not rows:
        raise RecordNotFound("network")
    return _network(rows[0], store)


def _network(row: Row, store: Store) -> Network:
    try:
        return network_rows.from_row(row, store.vault)
    except Damaged:  # the page of the network shows it
        return network_rows.without_urls(row)


class NodeCalls:
    def __init__(self, estimator: Estimator, run_folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._estimator = estimator
        self._run_folder = run_folder
        self._now = now
        self._calls: dict[tuple[tuple[RpcUrl, ...], int], tuple[float, asyncio.Task[Answers]]] = {}

    async def call_all(self, networks: list[Network]) -> list[NodeAnswer]:
        """What each node answers; those with a problem first."""
        answers = await asyncio.gather(*(self.call(each) for each in networks))
        return sorted((each for some in answers for each in some), key=lambda each: not each.problem)

    async def call(self, network: Network) -> list[NodeAnswer]:
        answers = await asyncio.shield(self._shared(network))
        # A node with a problem may be on another chain: neither do its blocks count, nor is it behind.
        newest = max((each.block or 0 for each, _ in answers if each.ok), default=0)
        pairs = zip(network.rpc_urls, answers, strict=True)
        return [_answer(network.name, url, each, newest, fault) for url, (each, fault) in pairs]

    def _shared(self, network: Network) -> "asyncio.Task[Answers]":
        """The calls of the last seconds, or new ones."""
        key, now = (network.rpc_urls, network.chain_id), self._now()
        began, task = self._calls.get(key, (0.0, None))
        if task is None or (task.done() and now - began >= _SHARED_SECONDS):
            if len(self._calls) >= _MOST_KEPT:
                self._calls.clear()
            task = asyncio.create_task(self._probe(network))
            self._calls[key] = (now, task)
        return task

    async def _probe(self, network: Network) -> Answers:
        pool = await self._estimator.pool(network.rpc_urls, network)
        evidence = await pool.probe_each()
        faults = pool.last_faults(await asyncio.to_thread(read_faults, self._run_folder))
        return list(zip(evidence, faults, strict=True))


def _answer(network: str, url: RpcUrl, evidence: Evidence, newest: int, fault: Fault | None) -> NodeAnswer:
    behind = newest - evidence.block if evidence.ok and evidence.block is not None else None
    milliseconds = round(evidence.seconds * 1000)
    shown = (fault.reason, utc(fault.at)) if fault else (None, None)
    return NodeAnswer(network, url.shown, url.weight, evidence.error, evidence.block, behind, milliseconds, *shown)
