"""Starts the monitor when there is a relayer to check."""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.background import LateService
from relaydeck.log import Log
from relaydeck.relayers.schedule import RelayerChanges, read_relayer_changes
from relaydeck.settings import Settings
from relaydeck.store.audit import AuditLog
from relaydeck.store.database import Reader
from relaydeck.store.follower import ReadRows
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

if TYPE_CHECKING:
    from relaydeck.relayers.monitor import Monitor
    from relaydeck.relayers.snapshots import GetPool


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
        self._late = LateService(partial(import_module, "relaydeck.relayers.monitor"), self._build)
        self.close = self._late.close  # before the writer stops: releasing the lease is a write

    def _build(self) -> "Monitor":
        from relaydeck.relayers.monitor import Monitor, MonitorOptions

        options = MonitorOptions(
            interval=self._settings.monitor_interval_seconds,
            rounds=self._settings.monitor_rounds,
            lease_seconds=self._settings.lease_seconds,
        )
        return Monitor(self._store, self._writer, self._audit, self._log, self._pool, options)

    def load(self, reader: Reader) -> None:
        if reader.read("SELECT 1 FROM relayers LIMIT 1", {}):
            self._start()

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> RelayerChanges:
        return read_relayer_changes(read, seen, removed=removed)

    def apply_changes(self, changes: RelayerChanges) -> None:
        if self._late.service is not None:
            self._late.service.apply_changes(changes)
        elif changes.written:
            self._start()

    def _start(self) -> None:
        if self._settings.monitor_interval_seconds > 0:
            self._late.start()
