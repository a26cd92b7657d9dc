"""What is kept only for a time: finished events, and signing keys that were replaced."""

from relaydeck.notifications.outbox import ReadRows
from relaydeck.store.database import Transaction

BATCH_EVENTS = 500

# Events go from the oldest on, never past one that is still on its way, and never the newest: so what is
# left has no gaps, and its oldest number tells a reader what it missed.
_OLD_EVENTS = (
    "WITH first AS (SELECT seq, created_at FROM events ORDER BY seq LIMIT :batch), limits AS ("
    " SELECT max(seq) AS seq FROM events"
    " UNION ALL SELECT min(seq) FROM deliveries WHERE state = 'pending'"
    " UNION ALL SELECT min(seq) FROM first WHERE created_at >= :before)"
    " SELECT seq FROM first WHERE seq < (SELECT min(seq) FROM limits)"
)
_OLD_KEYS = "previous_key_until <= :now"


def is_due(read: ReadRows, *, now: int, retention_seconds: int) -> bool:
    """Whether there is anything to remove: a look, so that an idle service writes nothing."""
    if read(_OLD_EVENTS, {"before": now - retention_seconds, "batch": 1}):
        return True
    return bool(read(f"SELECT 1 FROM notifications WHERE {_OLD_KEYS} LIMIT 1", {"now": now}))


def clean(transaction: Transaction, *, now: int, retention_seconds: int, batch: int = BATCH_EVENTS) -> int:
    """Remove a batch of old events with all that belongs to them; how many. Erase keys whose day is over."""
    transaction.execute(
        f"UPDATE notifications SET sealed_previous_key = NULL, previous_key_until = NULL WHERE {_OLD_KEYS}",
        {"now": now},
    )
    removed = transaction.execute(
        f"DELETE FROM events WHERE seq IN ({_OLD_EVENTS})",
        {"before": now - retention_seconds, "batch": batch},
    )
    return removed.rowcount
