"""Deliveries as an operator sees them: listed, looked into, and sent again."""

from typing import NamedTuple

from relaydeck.notifications.outbox import NOW, AttemptRecord, ReadRows
from relaydeck.store.database import Transaction

_COLUMNS = (
    "e.id, d.seq, e.kind, d.notification_id, d.relayer_id, d.state, d.tries, d.due_at, d.finished_at, e.created_at,"
    " (SELECT problem FROM attempts WHERE delivery = d.seq ORDER BY seq DESC LIMIT 1),"
    " (SELECT status FROM attempts WHERE delivery = d.seq ORDER BY seq DESC LIMIT 1)"
)
_TABLES = "deliveries d JOIN events e ON e.seq = d.seq"
_AGAIN = "UPDATE deliveries SET state = 'pending', tries = 0, due_at = :due, finished_at = NULL, revision = :revision"


class DeliveryRow(NamedTuple):
    """An event on its way to a receiver, or arrived, or dead.

    `id` is the event's and the `webhook-id` of every try. `next_try_at` is 0 when it is due at once, and none
    while it waits behind another in its line or is finished. Times with `_at` but the last are milliseconds.
    """

    id: str
    sequence: int
    kind: str
    notification_id: str
    relayer_id: str | None
    state: str
    tries: int
    next_try_at: int | None
    finished_at: int | None
    created_at: int
    last_problem: str | None
    last_status: int | None


def list_deliveries(
    read: ReadRows,
    after: int = 0,
    limit: int = 100,
    *,
    state: str | None = None,
    notification_id: str | None = None,
    relayer_id: str | None = None,
) -> list[DeliveryRow]:
    """In the order of their events, those after sequence number `after`."""
    given = {"state": state, "notification_id": notification_id, "relayer_id": relayer_id}
    filters = {name: value for name, value in given.items() if value is not None}
    where = "".join(f" AND d.{name} = :{name}" for name in filters)
    rows = read(
        f"SELECT {_COLUMNS} FROM {_TABLES} WHERE d.seq > :after{where} ORDER BY d.seq LIMIT :limit",
        {"after": after, "limit": limit, **filters},
    )
    return [DeliveryRow(*row) for row in rows]


def find_delivery(read: ReadRows, delivery_id: str) -> DeliveryRow | None:
    rows = read(f"SELECT {_COLUMNS} FROM {_TABLES} WHERE e.id = :id", {"id": delivery_id})
    return DeliveryRow(*rows[0]) if rows else None


def attempts_of(read: ReadRows, delivery_id: str) -> list[AttemptRecord]:
    """Every try of a delivery, oldest first."""
    rows = read(
        "SELECT a.started_at, a.duration, a.status, a.problem, a.answer FROM attempts a"
        " JOIN events e ON e.seq = a.delivery WHERE e.id = :id ORDER BY a.seq",
        {"id": delivery_id},
    )
    return [AttemptRecord(*row) for row in rows]


def replay(transaction: Transaction, delivery_id: str, now: int) -> bool:
    """Send a finished delivery again, alone and at once, with all its tries. False: none such is finished."""
    changed = transaction.execute(
        f"{_AGAIN} WHERE state <> 'pending' AND seq = (SELECT seq FROM events WHERE id = :id)",
        {"due": NOW, "revision": transaction.revision, "id": delivery_id},
    )
    return changed.rowcount == 1


def replay_all_dead(transaction: Transaction, now: int) -> int:
    """Send every dead delivery again; how many there were."""
    changed = transaction.execute(f"{_AGAIN} WHERE state = 'dead'", {"due": NOW, "revision": transaction.revision})
    return changed.rowcount
