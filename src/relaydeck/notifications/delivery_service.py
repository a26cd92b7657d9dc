"""Opens the delivery of events when there is something to deliver: until then not even its code is loaded."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.log import Log
from relaydeck.settings import Settings
from relaydeck.store.database import Reader
from relaydeck.store.follower import ReadRows
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

if TYPE_CHECKING:
    from relaydeck.notifications.delivery import Delivery


class DeliveryService:
    """Follows the table of deliveries, as the read model follows its own."""

    table = "deliveries"

    def __init__(
        self, settings: Settings, store: Store, writer: Writer, log: Log, count_try: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._store = store
        self._writer = writer
        self._log = log
        self._count_try = count_try
        self._delivery: Delivery | None = None
        self._running: asyncio.Task[None] | None = None

    def load(self, reader: Reader) -> None:
        if reader.read("SELECT 1 FROM deliveries WHERE state = 'pending' LIMIT 1", {}):
            self.apply_changes(None)

    def fetch_changes(self, _read: ReadRows, _seen: int, *, removed: bool) -> None:
        return None  # delivery itself reads what is due

    def apply_changes(self, _gathered: None) -> None:
        if self._delivery is not None:
            self._delivery.wake()
        elif self._running is None:
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        # In a thread: it brings an HTTP client along, and the event loop has requests to serve.
        module = await asyncio.to_thread(import_module, "relaydeck.notifications.delivery")
        options = module.DeliveryOptions(
            allow=self._settings.webhook_allow,
            timeout_seconds=self._settings.webhook_timeout_seconds,
            retention_days=self._settings.event_retention_days,
            lease_seconds=self._settings.lease_seconds,
        )
        delivery: Delivery = module.Delivery(self._store, self._writer, self._log, options, count_try=self._count_try)
        self._delivery = delivery
        await delivery.run()

    async def close(self) -> None:
        """Let tries under way end, within bounds. Before the writer stops: they are written down."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if self._delivery is not None:
            await self._delivery.close()
