"""Reports to every receiver that the database continues another history."""

from functools import partial

from relaydeck.errors import ServerFailure
from relaydeck.log import Log
from relaydeck.notifications import events
from relaydeck.notifications.kinds import EventKind
from relaydeck.store.database import Transaction
from relaydeck.store.writer import Writer

MOST_RECEIVERS = 1000  # the oldest ones: the transaction must stay short
_KIND = EventKind.DATABASE_CHANGED


async def report_database_change(writer: Writer, log: Log, problem: str, known: int, now: int) -> None:
    """`known` is the newest event of the history before."""
    try:
        await writer.write(partial(record_database_change, problem=problem, known=known, now=now))
    except ServerFailure as failure:
        log.event("error", "the change of the database cannot be recorded as an event", problem=failure.reason)


def record_database_change(transaction: Transaction, *, problem: str, known: int, now: int) -> None:
    """Once for all processes: the first of them records it, with a number after every event that it knows."""
    if transaction.one(
        "SELECT 1 FROM events WHERE kind = :kind AND seq > :known LIMIT 1", {"kind": _KIND, "known": known}
    ):
        return
    transaction.newest_event = max(transaction.newest_event, known)
    rows = transaction.all("SELECT id FROM notifications ORDER BY seq LIMIT :most", {"most": MOST_RECEIVERS})
    data = {"details": {"problem": problem}}
    for receiver in [row.id for row in rows] or [None]:
        events.record(transaction, _KIND, data, notification_id=receiver, now=now)
