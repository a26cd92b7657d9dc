"""Starts the delivery of events when there is something to deliver."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.background import LateService
from relaydeck.log import Log
from relaydeck.settings import Settings
from relaydeck.store.database import ReadRows, RowReader
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

if TYPE_CHECKING:
    from relaydeck.notifications.delivery import Delivery


class DeliveryService:
    """Follows the table of deliveries, as the read model follows its tables."""

    table = "deliveries"

    def __init__(
        self, settings: Settings, store: Store, writer: Writer, log: Log, count_try: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._store = store
        self._writer = writer
        self._log = log
        self._count_try = count_try
        self._late = LateService(partial(import_module, "relaydeck.notifications.delivery"), self._build)
        self.close = self._late.close  # before the writer stops: attempts under way are saved

    def _build(self) -> "Delivery":
        from relaydeck.notifications.delivery import Delivery, DeliveryOptions

        options = DeliveryOptions(
            allow=self._settings.webhook_allow,
            timeout_seconds=self._settings.webhook_timeout_seconds,
            retention_days=self._settings.event_retention_days,
            lease_seconds=self._settings.lease_seconds,
            clock_sql=self._store.database.clock_sql,
            with_audit_head=self._settings.event_audit_head == "on",
        )
        return Delivery(self._store, self._writer, self._log, options, count_try=self._count_try)

    def read_all(self, reader: RowReader) -> bool:
        """Whether anything is to be delivered: the delivery itself reads what."""
        return bool(reader.read("SELECT 1 FROM deliveries WHERE state = 'pending' LIMIT 1", {}))

    def replace(self, any_pending: bool) -> None:
        if any_pending:
            self.apply_changes(None)

    def fetch_changes(self, _read: ReadRows, _seen: int, *, removed: bool) -> None:
        return None  # the delivery itself reads what is due

    def apply_changes(self, _fetched: None) -> None:
        if self._late.service is not None:
            self._late.service.wake()
        else:
            self._late.start()
