"""Events: recorded in the transaction of the change they report, delivered to a receiver afterwards.

An event is its row. The body sent to a receiver is built from the row for every attempt, byte for byte the same, and
the list of events shows the same object.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from relaydeck.identifiers import new_identifier
from relaydeck.notifications import outbox
from relaydeck.notifications.kinds import EventKind
from relaydeck.notifications.model import EventBody
from relaydeck.store.database import ReadRows, Transaction
from relaydeck.store.rows import columns_of
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
        outbox.add(transaction, sequence, notification_id, relayer_id)
    return sequence


def end_deliveries(transaction: Transaction, notification_id: str) -> None:
    """Attempt at once what waits for a receiver that is deleted: the attempt fails, and ends the delivery."""
    outbox.make_all_due(transaction, notification_id)


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
