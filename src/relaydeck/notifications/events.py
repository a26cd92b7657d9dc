"""Events: recorded in the transaction of the change they report, delivered to a receiver afterwards, kept for a time.

An event is its row. The body sent to a receiver is built from the row for every attempt, byte for byte the same, and
the list of events shows the same object.
"""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from relaydeck.errors import ServerFailure, StoreError
from relaydeck.identifiers import new_identifier
from relaydeck.log import Log
from relaydeck.notifications import delivery_queue
from relaydeck.notifications.model import EventBody, EventKind
from relaydeck.store.database import Database, ReadRows, Transaction
from relaydeck.store.rows import columns_of
from relaydeck.store.writer import Writer
from relaydeck.timestamps import utc

VERSION = 1  # of the payload: within a version fields may be added, never changed or removed


class Event(NamedTuple):
    """A row of `COLUMNS`."""

    sequence: int
    id: str
    kind: str
    relayer_id: str | None
    notification_id: str | None
    data: str
    created_at: int

    def shown(self) -> EventBody:
        """As a receiver gets it, and as the log shows it."""
        return EventBody(
            id=self.id,
            type=self.kind,
            timestamp=utc(self.created_at),
            sequence=self.sequence,
            version=VERSION,
            data=msgspec.Raw(self.data.encode()),
        )

    def body(self) -> bytes:
        return msgspec.json.encode(self.shown())


COLUMNS = columns_of(Event._fields, "e", sequence="e.seq")


def record(
    transaction: Transaction,
    kind: EventKind,
    data: dict[str, Any],
    *,
    notification_id: str | None,
    relayer_id: str | None = None,
    now: int,
) -> int:
    """Write an event, and its delivery when there is a receiver; return its sequence number.

    `data` is the payload's own part, ready to encode. Called in the transaction of the change that the event reports,
    so that neither is ever stored without the other. Events with the same `relayer_id` are delivered in order.
    """
    # The number is one more than the newest, which is never removed. Writers are serialised, so no other transaction
    # takes it. A sequence of the database would lose numbers on rollback, and receivers would see gaps. A database that
    # lost its last commits may have lost events that were delivered: their numbers, which this process knows, are not
    # used again.
    row = transaction.one(
        "INSERT INTO events (seq, id, kind, relayer_id, notification_id, data, created_at)"
        " VALUES ((SELECT CASE WHEN max(seq) > :known THEN max(seq) ELSE :known END + 1 FROM events),"
        " :id, :kind, :relayer, :notification, :data, :now)"
        " RETURNING seq",
        {
            "known": transaction.newest_event,
            "id": f"evt_{new_identifier()}",
            "kind": kind.value,
            "relayer": relayer_id,
            "notification": notification_id,
            "data": msgspec.json.encode(data).decode(),
            "now": now,
        },
    )
    assert row is not None
    sequence: int = row.seq
    transaction.newest_event = sequence
    if notification_id is not None:
        delivery_queue.add(transaction, sequence, notification_id, relayer_id)
    return sequence


def list_events(
    read: ReadRows,
    after: int = 0,
    limit: int = 100,
    condition: str = "1 = 1",
    values: Mapping[str, Any] = MappingProxyType({}),
    *,
    newest: bool = False,
) -> list[Event]:
    """Events `e` after sequence number `after` that meet an SQL condition, oldest first or newest first.

    Without a condition there is no gap back to `oldest_sequence`.
    """
    order = "DESC" if newest else "ASC"
    rows = read(
        f"SELECT {COLUMNS} FROM events e WHERE e.seq > :after AND {condition} ORDER BY e.seq {order} LIMIT :limit",
        {"after": after, "limit": limit, **values},
    )
    return [Event(*row) for row in rows]


def list_latest(read: ReadRows, *, limit: int, before: int | None = None, relayer_id: str | None = None) -> list[Event]:
    """The newest events first: those before a sequence number, and about one relayer, if given."""
    given = {"e.seq < :before": before, "e.relayer_id = :relayer": relayer_id}
    condition = " AND ".join(["1 = 1", *(each for each, value in given.items() if value)])
    return list_events(read, 0, limit, condition, {"before": before, "relayer": relayer_id}, newest=True)


def find_event(read: ReadRows, event_id: str) -> Event | None:
    rows = read(f"SELECT {COLUMNS} FROM events e WHERE e.id = :id", {"id": event_id})
    return Event(*rows[0]) if rows else None


def oldest_sequence(read: ReadRows) -> int | None:
    """Older events were removed after their retention time: a reader that is behind missed them. None: no event."""
    oldest: int | None = read("SELECT min(seq) AS oldest FROM events", {})[0].oldest
    return oldest


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


def has_expired(read: ReadRows, *, now: int, before: int) -> bool:
    """Whether there is anything to remove. Reading first means that an idle service writes nothing."""
    keys = f"SELECT 1 FROM notifications WHERE {_OLD_KEYS} LIMIT 1"
    return bool(read(_OLD_EVENTS, {"before": before, "batch": 1}) or read(keys, {"now": now}))


def remove_batch(transaction: Transaction, *, now: int, before: int) -> int:
    """Remove a batch of old events with their deliveries and attempts, and expired keys. Return how many events."""
    transaction.execute(
        f"UPDATE notifications SET sealed_previous_key = NULL, previous_key_until = NULL WHERE {_OLD_KEYS}",
        {"now": now},
    )
    old = {"before": before, "batch": BATCH_EVENTS}
    return transaction.execute(f"DELETE FROM events WHERE seq IN ({_OLD_EVENTS})", old).rowcount


async def remove_expired(database: Database, writer: Writer, retention_days: int, now: int) -> None:
    """One batch at a time, so that other writes are not held up. Raises StoreError, ServerFailure."""
    before = now - retention_days * 86_400
    while await database.run_in_reader(partial(has_expired, database.read, now=now, before=before)):
        await writer.write(partial(remove_batch, now=now, before=before))


async def remove_expired_each_hour(database: Database, writer: Writer, log: Log, retention_days: int) -> None:
    """Any process may do it."""
    while True:
        try:
            await remove_expired(database, writer, retention_days, int(time.time()))
        except (StoreError, ServerFailure) as failure:  # the next round tries again
            log.event("error", "old events cannot be removed", problem=str(failure))
        await asyncio.sleep(_PAUSE_SECONDS)


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
        record(transaction, _KIND, data, notification_id=receiver, now=now)
