"""Starts the monitor when there is a relayer to look at: until then not even its code is loaded."""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.log import Log
from relaydeck.relayers.arrivals import Arrivals, read_arrivals
from relaydeck.settings import Settings
from relaydeck.store.audit import AuditLog
from relaydeck.store.database import Reader
from relaydeck.store.follower import ReadRows
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

if TYPE_CHECKING:
    from relaydeck.relayers.monitor import GetPool, Monitor


class MonitorService:
    """Follows the table of relayers, as the read model does."""

    table = "relayers"

    def __init__(
        self, settings: Settings, store: Store, writer: Writer, audit: AuditLog, log: Log, pool: "GetPool"
    ) -> None:
        self._settings = settings
        self._store = store
        self._writer = writer
        self._audit = audit
        self._log = log
        self._pool = pool
        self._monitor: Monitor | None = None
        self._running: asyncio.Task[None] | None = None

    def load(self, reader: Reader) -> None:
        if reader.read("SELECT 1 FROM relayers LIMIT 1", {}):
            self._start()

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> Arrivals:
        return read_arrivals(read, seen, removed=removed)

    def apply_changes(self, arrivals: Arrivals) -> None:
        if self._monitor is not None:
            self._monitor.follow(arrivals)
        elif arrivals.came:
            self._start()

    def _start(self) -> None:
        if self._running is None and self._settings.monitor_interval_seconds > 0:
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        # In a thread: the event loop has requests to serve. What asks nodes is loaded by the first look.
        module = await asyncio.to_thread(import_module, "relaydeck.relayers.monitor")
        options = module.MonitorOptions(
            interval=self._settings.monitor_interval_seconds,
            rounds=self._settings.monitor_rounds,
            lease_seconds=self._settings.lease_seconds,
        )
        monitor: Monitor = module.Monitor(self._store, self._writer, self._audit, self._log, self._pool, options)
        self._monitor = monitor
        await monitor.run()

    async def close(self) -> None:
        """Let another process take over at once. Before the writer stops: that is written down."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if self._monitor is not None:
            await self._monitor.close()
