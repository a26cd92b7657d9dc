"""What is kept for a limited time: finished events, and signing keys that were replaced."""

from relaydeck.store.database import ReadRows, Transaction

BATCH_EVENTS = 500

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
