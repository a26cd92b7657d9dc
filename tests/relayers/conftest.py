"""A home with relayers, nodes on loopback, a clock that only tests move, and processes that watch."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from relaydeck.log import Log
from relaydeck.networks.model import RpcUrl
from relaydeck.notifications import events
from relaydeck.relayers import relayer_changes, relayer_rows, snapshots
from relaydeck.relayers.model import Policies, Relayer
from relaydeck.relayers.monitor import Monitor, MonitorOptions
from relaydeck.relayers.snapshots import Incident
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer
from tests.notifications.conftest import Clock
from tests.support.fault_node import FaultNode
from tests.support.places import ENGINES
from tests.support.seeding import fill, open_home, relayer
from tests.support.stored_rows import create_row

INTERVAL = 60.0
ETHER = 10**18


class Watching:
    """What tests say about relayers and their nodes reads as what happens to them."""

    def __init__(self, store: Store, writer: Writer, clock: Clock) -> None:
        self.store, self.writer, self.clock = store, writer, clock
        self.audit = AuditLog(store.vault)
        self.options = FeeOptions(deadline=3, try_timeout=0.5)
        self.nodes: list[FaultNode] = []
        self.monitors: list[Monitor] = []
        self.estimators: list[Estimator] = []

    async def node(self, mood: str = "healthy", balance: int = ETHER) -> FaultNode:
        node = FaultNode(mood)
        node.answers = {"eth_getTransactionCount": "0x7", "eth_getBalance": hex(balance)}
        await node.start()
        self.nodes.append(node)
        if mood == "dead":
            await node.stop()
        return node

    def add(self, name: str, *urls: "FaultNode | str", min_balance: int = 0, **given: Any) -> None:
        """A relayer with URLs of its own."""
        custom = tuple(RpcUrl(url if isinstance(url, str) else url.url) for url in urls)
        self.add_all([relayer(name, custom_rpc_urls=custom, policies=Policies(min_balance=min_balance), **given)])

    def add_all(self, relayers: Iterable[Relayer]) -> None:
        with self.store.database.transaction() as transaction:
            for each in relayers:
                create_row(relayer_rows.TABLE, transaction, self.store.vault, each)
        for monitor in self.monitors:
            self.follow(monitor)

    def follow(self, monitor: Monitor, *, removed: bool = False) -> None:
        """Tell a process of all changes so far, as the followers of the database do."""
        monitor.update_schedule(monitor.fetch_changes(self.store.database.read, 0, removed=removed))

    def process(self, **given: Any) -> Monitor:
        """What one more process would run."""
        estimator = Estimator(self.options, monotonic=self.clock)
        self.estimators.append(estimator)
        options = MonitorOptions(interval=INTERVAL, record_seconds=0)._replace(**given)
        monitor = Monitor(
            self.store,
            self.writer,
            self.audit,
            Log(as_json=True, level="error"),
            estimator.pool,
            options,
            now=self.clock,
            monotonic=self.clock,
        )
        self.monitors.append(monitor)
        self.follow(monitor)
        return monitor

    async def rounds(self, monitor: Monitor, count: int = 1) -> None:
        """Every relayer is looked at that many times, the lease renewed on the way."""
        await monitor.turn()
        for _ in range(count * 6):
            self.clock.pass_(INTERVAL / 6)
            await monitor.turn()
            await monitor.checks.join()
            await monitor.recorder.join()

    def relayer(self, name: str) -> Relayer:
        (row,) = self.store.database.read(f"SELECT {relayer_rows.COLUMNS} FROM relayers WHERE id = :id", {"id": name})
        return relayer_rows.from_row(row, self.store.vault)

    def incident(self, name: str) -> Incident:
        found = snapshots.find(self.store.database.read, self.store.vault, name)
        assert found is not None
        return found.incident

    def reported(self) -> list[tuple[str, str | None]]:
        """Every event, as its kind and its relayer."""
        return [(event.kind, event.relayer_id) for event in events.list_events(self.store.database.read)]

    def audited(self) -> list[tuple[str, str, str]]:
        rows = self.store.database.read("SELECT actor, action, record FROM audit ORDER BY seq")
        return [(row.actor, row.action, row.record) for row in rows]

    def pause(self, name: str, *, paused: bool) -> None:
        with self.store.database.transaction() as transaction:
            relayer_changes.set_paused(
                ChangeContext(transaction, self.audit, "test", int(self.clock())), name, paused=paused
            )

    async def stop(self) -> None:
        for monitor in self.monitors:
            await monitor.close()
        for estimator in self.estimators:
            await estimator.close()
        for node in self.nodes:
            await node.stop()


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, home: Path, lend: Callable[[Path, str], Path]) -> Iterator[Store]:
    fill(lend(home, request.param))
    store = open_home(home)
    yield store
    store.close()


@pytest.fixture
async def scene(store: Store) -> AsyncIterator[Watching]:
    writer = Writer(store.database)
    scene = Watching(store, writer, Clock())
    yield scene
    await scene.stop()
    await writer.stop()
