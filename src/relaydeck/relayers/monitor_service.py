"""Starts the monitor when there is a relayer to check."""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.log import Log
from relaydeck.settings import Settings
from relaydeck.store.audit import AuditLog
from relaydeck.store.open_store import Store
from relaydeck.store.rounds_service import RoundsService
from relaydeck.store.writer import Writer

if TYPE_CHECKING:
    from relaydeck.relayers.monitor import Monitor
    from relaydeck.relayers.snapshots import GetPool


class MonitorService(RoundsService):
    def __init__(
        self, settings: Settings, store: Store, writer: Writer, audit: AuditLog, log: Log, pool: "GetPool"
    ) -> None:
        super().__init__(
            "relayers", settings.monitor_interval_seconds, partial(import_module, "relaydeck.relayers.monitor")
        )
        self._settings = settings
        self._parts = store, writer, audit, log, pool

    def build(self) -> "Monitor":
        from relaydeck.relayers.monitor import Monitor, MonitorOptions

        options = MonitorOptions(
            interval=self._settings.monitor_interval_seconds,
            rounds=self._settings.monitor_rounds,
            lease_seconds=self._settings.lease_seconds,
        )
        return Monitor(*self._parts, options)
