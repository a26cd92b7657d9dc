"""What is kept for a limited time: finished events, and signing keys that were replaced."""

from collections.abc import Callable
from functools import partial

from relaydeck.store.database import Database, ReadRows, Transaction
from relaydeck.store.writer import Writer

BATCH_EVENTS = 500
_PAUSE_SECONDS = 3600.0  # between removals

# Events are removed from the oldest on, never past one with a pending delivery, and never the newest. The rest has no
# gaps, so a reader knows from its oldest number what it missed.
_OLD_EVENTS = (
    "WITH first AS (SELECT seq, created_at FROM events ORDER BY seq LIMIT :batch), limits AS ("
    " SELECT max(seq) AS seq FROM events"
    " UNION ALL SELECT min(seq) FROM deliveries WHERE state = 'pending'"
    " UNION ALL SELECT min(seq) FROM first WHERE created_at >= :before)"
    " SELECT seq FROM first WHERE seq < (SELECT min(seq) FROM limits)"
)
_OLD_KEYS = "previous_key_until <= :now"


def has_expired(read: ReadRows, *, now: int, retention_seconds: int) -> bool:
    """Whether there is anything to remove. Reading first means that an idle service writes nothing."""
    if read(_OLD_EVENTS, {"before": now - retention_seconds, "batch": 1}):
        return True
    return bool(read(f"SELECT 1 FROM notifications WHERE {_OLD_KEYS} LIMIT 1", {"now": now}))


def remove_expired(transaction: Transaction, *, now: int, retention_seconds: int, batch: int = BATCH_EVENTS) -> int:
    """Remove a batch of old events with their deliveries and attempts, and expired keys. Return how many events."""
    transaction.execute(
        f"UPDATE notifications SET sealed_previous_key = NULL, previous_key_until = NULL WHERE {_OLD_KEYS}",
        {"now": now},
    )
    removed = transaction.execute(
        f"DELETE FROM events WHERE seq IN ({_OLD_EVENTS})",
        {"before": now - retention_seconds, "batch": batch},
    )
    return removed.rowcount


class Retention:
    """Removes what has expired, once an hour. Any process may do it."""

    def __init__(
        self,
        database: Database,
        writer: Writer,
        retention_days: int,
        *,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._database, self._writer = database, writer
        self._seconds = retention_days * 86_400
        self._now, self._monotonic = now, monotonic
        self._next = monotonic()

    def until_next(self) -> float:
        """The seconds until the next removal."""
        return self._next - self._monotonic()

    async def has_expired(self) -> bool:
        """Whether there is something to remove now."""
        if self._monotonic() < self._next:
            return False
        found = await self._database.run_in_reader(partial(has_expired, self._database.read, **self._limits()))
        if not found:
            self._next = self._monotonic() + _PAUSE_SECONDS
        return found

    async def remove_batch(self) -> None:
        """One batch at a time, so that other writes are not held up."""
        limits = self._limits()

        def write(transaction: Transaction) -> int:
            return remove_expired(transaction, **limits)

        if await self._writer.write(write) < BATCH_EVENTS:
            self._next = self._monotonic() + _PAUSE_SECONDS

    def _limits(self) -> dict[str, int]:
        return {"now": int(self._now()), "retention_seconds": self._seconds}
