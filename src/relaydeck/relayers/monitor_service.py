"""Starts the monitor when there is a relayer to check."""

from collections.abc import Callable
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
    from relaydeck.relayers.monitor import Monitor, RoundReport
    from relaydeck.relayers.snapshots import GetPool

_RECORD_SECONDS = 10.0


class MonitorService(RoundsService):
    def __init__(
        self,
        settings: Settings,
        store: Store,
        writer: Writer,
        audit: AuditLog,
        log: Log,
        pool: "GetPool",
        count_check: Callable[[str], None],
        report_round: "Callable[[RoundReport], None]",
    ) -> None:
        """`count_check` and `report_round` are those of `MonitorGauges`."""
        super().__init__(
            "relayers", settings.monitor_interval_seconds, partial(import_module, "relaydeck.relayers.monitor")
        )
        self._settings = settings
        self._parts = store, writer, audit, log, pool
        self._gauges = count_check, report_round

    def build(self) -> "Monitor":
        from relaydeck.relayers.balance_rows import Retention
        from relaydeck.relayers.monitor import Monitor, MonitorGauges, MonitorOptions

        settings = self._settings
        options = MonitorOptions(
            interval=settings.monitor_interval_seconds,
            rounds=settings.monitor_rounds,
            lease_seconds=settings.lease_seconds,
            retention=Retention(
                settings.balance_minute_days, settings.balance_ten_minute_days, settings.balance_hour_days
            ),
            record_seconds=min(_RECORD_SECONDS, settings.monitor_interval_seconds / 2),
            warn_hours=settings.runway_warn_hours,
        )
        return Monitor(*self._parts, options, MonitorGauges(*self._gauges))
