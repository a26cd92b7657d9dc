"""Deliveries as an operator sees them: listed, shown with their attempts, counted, and sent again."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from relaydeck.notifications.outbox import COLUMNS, NOW, AttemptRecord, PendingDelivery, make_next_due
from relaydeck.store.database import ReadRows, Transaction
from relaydeck.store.rows import columns_of

COUNT_LIMIT = 10_000  # anyone may ask for the metrics: counting on takes as long as there are failed deliveries

_TABLES = "deliveries d JOIN events e ON e.seq = d.seq"
_RESET = (
    "UPDATE deliveries SET state = 'pending', in_line = false, tries = 0, due_at = :due, finished_at = NULL,"
    " revision = :revision"
)
_REPLAYABLE = (
    f"SELECT {COLUMNS} FROM deliveries"
    " WHERE (state <> 'pending' OR tries > 0) AND seq = (SELECT seq FROM events WHERE id = :id)"
)
_DEAD = "state = 'dead' AND notification_id IN (SELECT id FROM notifications)"
_COUNT = "SELECT count(*) AS total FROM (SELECT 1 FROM deliveries WHERE state = :state LIMIT :limit) AS counted"


class DeliveryRow(NamedTuple):
    """The delivery of an event to a receiver.

    `id` is the event's and the `webhook-id` of every attempt. `next_try_at` is 0 when the delivery is due at once, and
    None while it waits behind another one in its queue or is finished. `created_at` is in seconds, the other times
    are milliseconds.
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


_LAST_ATTEMPT = "FROM attempts WHERE delivery = d.seq ORDER BY seq DESC LIMIT 1"
_COLUMNS = columns_of(
    DeliveryRow._fields,
    "d",
    id="e.id",
    sequence="d.seq",
    kind="e.kind",
    next_try_at="d.due_at",
    created_at="e.created_at",
    last_problem=f"(SELECT problem {_LAST_ATTEMPT})",
    last_status=f"(SELECT status {_LAST_ATTEMPT})",
)
_ATTEMPT_COLUMNS = columns_of(AttemptRecord._fields, "a")


def list_deliveries(
    read: ReadRows,
    after: int = 0,
    limit: int = 100,
    condition: str = "1 = 1",
    values: Mapping[str, Any] = MappingProxyType({}),
    *,
    newest: bool = False,
) -> list[DeliveryRow]:
    """Deliveries `d` after sequence number `after` that meet an SQL condition, oldest first or newest first."""
    order = "DESC" if newest else "ASC"
    rows = read(
        f"SELECT {_COLUMNS} FROM {_TABLES} WHERE d.seq > :after AND {condition} ORDER BY d.seq {order} LIMIT :limit",
        {"after": after, "limit": limit, **values},
    )
    return [DeliveryRow(*row) for row in rows]


def list_latest(read: ReadRows, *, limit: int, before: int | None = None, **fields: str | None) -> list[DeliveryRow]:
    """The newest deliveries first: those before a sequence number, and with these values of their fields, if given."""
    given = {name: value for name, value in fields.items() if value is not None}
    conditions = ["1 = 1", *(["d.seq < :before"] if before else []), *(f"d.{name} = :{name}" for name in given)]
    return list_deliveries(read, 0, limit, " AND ".join(conditions), {"before": before, **given}, newest=True)


def find_delivery(read: ReadRows, delivery_id: str) -> DeliveryRow | None:
    rows = read(f"SELECT {_COLUMNS} FROM {_TABLES} WHERE e.id = :id", {"id": delivery_id})
    return DeliveryRow(*rows[0]) if rows else None


def list_attempts(read: ReadRows, delivery_id: str) -> list[AttemptRecord]:
    """Every attempt of a delivery, oldest first."""
    rows = read(
        f"SELECT {_ATTEMPT_COLUMNS} FROM attempts a"
        " JOIN events e ON e.seq = a.delivery WHERE e.id = :id ORDER BY a.seq",
        {"id": delivery_id},
    )
    return [AttemptRecord(*row) for row in rows]


def replay(transaction: Transaction, delivery_id: str) -> bool:
    """Send a delivery again, outside its queue, at once and with all its attempts.

    It is finished, or waits after a failure. Return False when there is no such delivery or it is already due.
    """
    found = transaction.all(_REPLAYABLE, {"id": delivery_id})
    if not found:
        return False
    values = {"due": NOW, "revision": transaction.revision, "seq": found[0].sequence}
    transaction.execute(f"{_RESET} WHERE seq = :seq", values)
    if found[0].in_order:
        make_next_due(transaction, PendingDelivery(*found[0]))
    return True


def replay_all_dead(transaction: Transaction) -> int:
    """Send every dead delivery again whose receiver still exists. Return how many there were."""
    changed = transaction.execute(f"{_RESET} WHERE {_DEAD}", {"due": NOW, "revision": transaction.revision})
    return changed.rowcount


def count_replayable(read: ReadRows) -> int:
    """How many deliveries `replay_all_dead` would send again, up to COUNT_LIMIT."""
    counted: int = read(
        f"SELECT count(*) AS total FROM (SELECT 1 FROM deliveries WHERE {_DEAD} LIMIT :limit) AS counted",
        {"limit": COUNT_LIMIT},
    )[0].total
    return counted


class DeliveryCounts(NamedTuple):
    recorded: int  # events, since the database was created
    pending: int
    dead: int
    oldest_pending: int | None  # when its event was recorded, in seconds


def count_deliveries(read: ReadRows) -> DeliveryCounts:
    """For metrics: each number costs a few steps in an index."""
    # Sequence numbers have no gaps, so the last one is the number of events, whatever was removed since.
    recorded: int | None = read("SELECT max(seq) AS newest FROM events", {})[0].newest
    pending, dead = (read(_COUNT, {"state": state, "limit": COUNT_LIMIT})[0].total for state in ("pending", "dead"))
    return DeliveryCounts(recorded or 0, pending, dead, _oldest_pending(read))


def _oldest_pending(read: ReadRows) -> int | None:
    rows = read(f"SELECT e.created_at FROM {_TABLES} WHERE d.state = 'pending' ORDER BY d.seq LIMIT 1", {})
    return rows[0].created_at if rows else None
