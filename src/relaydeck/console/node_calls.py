"""What nodes answer now: those of networks, and URLs that somebody tests before they are stored.

Pages that are open at the same time share the calls to stored nodes.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from relaydeck.errors import Damaged, RecordNotFound
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.gas import find_ways
from relaydeck.networks import network_rows
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.evm.node import Fault, Node
from relaydeck.networks.evm.node_figures import read_faults
from relaydeck.networks.evm.node_health import Evidence, probe
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.networks.node_rule import node_guards
from relaydeck.settings.model import Settings
from relaydeck.store.database import Row
from relaydeck.store.open_store import Store
from relaydeck.timestamps import utc

_SHARED_SECONDS = 5.0
_MOST_NETWORKS = 100
_MOST_KEPT = 1000
_MOST_TESTS, _PERIOD_SECONDS = 30, 60.0
_TEST_SECONDS = 5.0  # to introduce itself, and as long to measure gas
_MOST_BYTES = 1 << 20
Answers = list[tuple[Evidence, Fault | None]]
_SELECT = f"SELECT {network_rows.COLUMNS} FROM networks"


class NodeAnswer(NamedTuple):
    network: str
    node: str  # scheme and host
    weight: int
    problem: str  # empty: there is none
    block: int | None
    blocks_behind: int | None  # the newest one of the network; None for a node with a problem
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


class NodeTest(NamedTuple):
    """What a URL answered before it is stored."""

    problem: str  # empty: there is none
    chain_id: int | None = None
    block: int | None = None
    mined_at: str | None = None  # UTC
    behind: int | None = None  # blocks behind the newest one of the stored nodes; None: not known
    milliseconds: int = 0
    ways: tuple[str, ...] = ()  # to measure gas


class NodeTests:
    """Tests URLs, so many a minute: a form must not become a scanner of networks."""

    def __init__(self, settings: Settings, now: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._now = now
        self._began: deque[float] = deque(maxlen=_MOST_TESTS)

    async def test(self, url: RpcUrl, chain_id: int | None) -> NodeTest:
        """`chain_id`: that of the network, if it is known. Connections pass the guard of nodes that are stored."""
        now = self._now()
        if len(self._began) == _MOST_TESTS and now - self._began[0] < _PERIOD_SECONDS:
            return NodeTest(f"was not called: {_MOST_TESTS} URLs were tested within a minute; try again in a moment")
        self._began.append(now)
        client = Client(_MOST_BYTES, node_guards(self._settings.rpc_guard, self._settings.rpc_allow))
        try:
            return await self._test(client, url, chain_id)
        finally:
            await client.close()

    async def _test(self, client: Client, url: RpcUrl, chain_id: int | None) -> NodeTest:
        found = await probe(client, Node(url, PoolOptions()), chain_id or 0, _TEST_SECONDS)
        if found.chain_id is None or found.header is None:
            return NodeTest(found.error)
        problem, ways = found.error if chain_id else "", tuple[str, ...]()
        try:
            async with asyncio.timeout(_TEST_SECONDS):
                ways = await find_ways(partial(client.ask, url), found.header)
        except TimeoutError:
            problem = problem or "timed out when it measured gas"
        except UrlFailed as failure:
            problem = problem or failure.reason
        mined_at, milliseconds = utc(found.header.timestamp), round(found.seconds * 1000)
        return NodeTest(problem, found.chain_id, found.block, mined_at, None, milliseconds, ways)


def _answer(network: str, url: RpcUrl, evidence: Evidence, newest: int, fault: Fault | None) -> NodeAnswer:
    behind = newest - evidence.block if evidence.ok and evidence.block is not None else None
    milliseconds = round(evidence.seconds * 1000)
    shown = (fault.reason, utc(fault.at)) if fault else (None, None)
    return NodeAnswer(network, url.shown, url.weight, evidence.error, evidence.block, behind, milliseconds, *shown)
