"""Deliveries as an operator sees them: listed, shown with their attempts, counted, and sent again.

Also the receivers that fail: they need attention before a delivery is given up.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from relaydeck.notifications.delivery_queue import (
    BRING_FORWARD,
    COLUMNS,
    FREE,
    NOW,
    SOON,
    PendingDelivery,
    make_next_due,
)
from relaydeck.store.database import ReadRows, Row, Transaction
from relaydeck.store.rows import in_list

COUNT_LIMIT = 10_000  # anyone may ask for the metrics: counting on takes as long as there are failed deliveries

_MOST_ATTEMPTS = 100  # shown of a delivery: to a receiver that fails there is one every minute
_TABLES = "deliveries d JOIN events e ON e.seq = d.seq"
_RESET = (
    "UPDATE deliveries SET state = 'pending', in_line = false, tries = 0, due_at = :due, scheduled_at = NULL,"
    " finished_at = NULL, revision = :revision"
)
_REPLAYABLE = (
    f"SELECT {COLUMNS} FROM deliveries"
    " WHERE (state <> 'pending' OR tries > 0) AND seq = (SELECT seq FROM events WHERE id = :id)"
)
_DEAD = "d.state = 'dead' AND d.notification_id IN (SELECT id FROM notifications)"
_NO_VALUES: Mapping[str, Any] = MappingProxyType({})


_FIRST_IN_QUEUE = (
    "SELECT id FROM events WHERE seq = (SELECT min(first.seq) FROM deliveries first WHERE"
    " first.notification_id = d.notification_id AND first.relayer_id = d.relayer_id AND first.in_line)"
)
_LAST_ATTEMPT = "FROM attempts WHERE delivery = d.seq ORDER BY seq DESC LIMIT 1"
# The fields of a delivery as operators see it, with times in milliseconds. One that is due at once is due since its
# event happened. `next_try_at` is null while it waits behind another one in its queue, `waits_for`, or is finished.
_COLUMNS = (
    "e.id, d.seq AS sequence, e.kind AS type, d.notification_id, d.relayer_id, d.state, d.tries,"
    f" CASE WHEN d.due_at IN ({NOW}, {SOON}) THEN e.created_at * 1000 ELSE d.due_at END AS next_try_at,"
    " d.finished_at, e.created_at * 1000 AS created_at,"
    f" CASE WHEN d.state = 'pending' AND d.due_at IS NULL THEN ({_FIRST_IN_QUEUE}) END AS waits_for,"
    f" (SELECT status {_LAST_ATTEMPT}) AS last_status, (SELECT nullif(problem, '') {_LAST_ATTEMPT}) AS last_problem"
)


def list_deliveries(
    read: ReadRows,
    after: int = 0,
    limit: int = 100,
    condition: str = "1 = 1",
    values: Mapping[str, Any] = MappingProxyType({}),
    *,
    newest: bool = False,
) -> list[Row]:
    """Deliveries `d` after sequence number `after` that meet an SQL condition, oldest first or newest first."""
    order = "DESC" if newest else "ASC"
    return read(
        f"SELECT {_COLUMNS} FROM {_TABLES} WHERE d.seq > :after AND {condition} ORDER BY d.seq {order} LIMIT :limit",
        {"after": after, "limit": limit, **values},
    )


def find_delivery(read: ReadRows, delivery_id: str) -> Row | None:
    return next(iter(read(f"SELECT {_COLUMNS} FROM {_TABLES} WHERE e.id = :id", {"id": delivery_id})), None)


def list_attempts(read: ReadRows, delivery_id: str) -> list[Row]:
    """The newest attempts of a delivery, oldest first, as operators see them, with times in milliseconds."""
    newest = read(
        "SELECT a.started_at AS at, a.duration AS duration_ms, a.status, nullif(a.problem, '') AS problem, a.answer"
        " FROM attempts a JOIN events e ON e.seq = a.delivery WHERE e.id = :id ORDER BY a.seq DESC LIMIT :most",
        {"id": delivery_id, "most": _MOST_ATTEMPTS},
    )
    return newest[::-1]


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


def send_waiting(transaction: Transaction, notification_id: str) -> int:
    """Attempt now what waits after a failed attempt, in the order of each relayer. Return how many there were.

    These attempts come before their time: one that fails does not count.
    """
    transaction.allow_long_statements()
    chosen = (
        "SELECT d.seq FROM deliveries d WHERE d.notification_id = :notification AND d.due_at IS NOT NULL"
        f" AND {FREE} > :due AND d.claimed_by IS NULL"
    )
    values = {"notification": notification_id, "due": SOON, "revision": transaction.revision}
    chosen, scoped = transaction.scoped(chosen, values)
    return transaction.execute(f"{BRING_FORWARD} WHERE seq IN ({chosen})", scoped).rowcount


def replay_all_dead(transaction: Transaction, where: str = "1 = 1", values: Mapping[str, Any] = _NO_VALUES) -> int:
    """Send every dead delivery again whose receiver still exists. Return how many there were.

    `where`: a condition about deliveries `d`, which refers to `values`.
    """
    transaction.allow_long_statements()
    chosen = f"SELECT d.seq FROM deliveries d WHERE {_DEAD} AND {where}"
    due = {**values, "due": NOW, "revision": transaction.revision}
    chosen, scoped = transaction.scoped(chosen, due)
    return transaction.execute(f"{_RESET} WHERE seq IN ({chosen})", scoped).rowcount


def count_replayable(read: ReadRows, where: str = "1 = 1", values: Mapping[str, Any] = _NO_VALUES) -> int:
    """How many deliveries `replay_all_dead` would send again, up to COUNT_LIMIT."""
    return _count(read, f"{_DEAD} AND {where}", values)


def _count(read: ReadRows, condition: str, values: Mapping[str, Any] = _NO_VALUES) -> int:
    some = f"SELECT 1 FROM deliveries d WHERE {condition} LIMIT {COUNT_LIMIT}"
    total: int = read(f"SELECT count(*) AS total FROM ({some}) AS counted", {**values})[0].total
    return total


class DeliveryCounts(NamedTuple):
    recorded: int  # events, since the database was created
    pending: int
    dead: int
    oldest_pending: int | None  # when its event was recorded, in seconds


def count_deliveries(read: ReadRows) -> DeliveryCounts:
    """For metrics: each number costs a few steps in an index."""
    # Sequence numbers have no gaps, so the last one is the number of events, whatever was removed since.
    recorded: int | None = read("SELECT max(seq) AS newest FROM events", {})[0].newest
    oldest = read(f"SELECT e.created_at FROM {_TABLES} WHERE d.state = 'pending' ORDER BY d.seq LIMIT 1", {})
    pending, dead = (_count(read, f"state = '{state}'") for state in ("pending", "dead"))
    return DeliveryCounts(recorded or 0, pending, dead, oldest[0].created_at if oldest else None)


# `ConnectionFailure.ADDRESS_REFUSED`: importing that would load the HTTP client for a command that only prints.
def error_of(status: int | None, problem: str | None) -> str:
    """The word for the problem, or else the status of the response."""
    return problem or f"status {status}"


# What the code of an attempt means, where the connection is not the cause.
_WORDS = {
    "address_refused": (
        "an address of the receiver is not public, and RELAYDECK_WEBHOOK_ALLOW of the service does not allow it"
    ),
    "bad_url": "the URL of the receiver cannot be used",
    "receiver_removed": "the notification was deleted",
    "key_unreadable": "the stored signing key or URL cannot be opened",
    "store_unreadable": "Relaydeck could not read the event: see its log",
    "internal_error": "Relaydeck itself failed: see its log",
}


def describe_error(status: int | None, problem: str | None) -> str:
    """The result of an attempt, in words."""
    from http.client import responses

    from relaydeck.outgoing.connections import ConnectionFailure

    if not problem:
        return f"HTTP {status} {responses.get(status or 0, '')}".rstrip()
    return _WORDS.get(problem) or f"the receiver {ConnectionFailure(problem).words}"


_MOST_COMPARED = 1000  # failed deliveries of a receiver, the next ones first
_FEW = 20  # receivers; of more, fewer deliveries each are counted and compared

# A delivery has a due time above 0 if, and only if, an attempt failed and another one follows. The condition on FREE
# finds it in the index by receiver, behind those that were never attempted.
_FAILED = f"notification_id = {{receiver}} AND due_at IS NOT NULL AND due_at > 0 AND {FREE} > 0"
# The last condition follows, but selects the index.
_ENDED = (
    "(SELECT max(finished_at) FROM deliveries"
    " WHERE notification_id = {receiver} AND state = '{state}' AND finished_at IS NOT NULL)"
)
_LAST_DELIVERED, _LAST_DEAD = (
    f"coalesce({_ENDED.format(receiver='n.id', state=state)}, 0)" for state in ("delivered", "dead")
)
_RECEIVERS = (
    f"SELECT n.id, {_LAST_DELIVERED} AS delivered FROM notifications n WHERE (EXISTS"
    f" (SELECT 1 FROM deliveries WHERE {_FAILED.format(receiver='n.id')})"
    f" OR {_LAST_DEAD} > {_LAST_DELIVERED}) AND {{among}} ORDER BY n.seq"
)
_FAILED_LAST = (
    f"(SELECT * FROM (SELECT seq FROM deliveries WHERE {_FAILED.format(receiver=':receiver')}"
    f" ORDER BY {FREE}, seq LIMIT :most) AS waiting UNION ALL SELECT * FROM (SELECT seq FROM deliveries"
    " WHERE notification_id = :receiver AND state = 'dead' AND finished_at IS NOT NULL"
    " ORDER BY finished_at DESC LIMIT 1) AS dead) AS failed"
)
_LATEST_ATTEMPT = (
    "SELECT (SELECT min((SELECT min(a.started_at) FROM attempts a WHERE a.delivery = failed.seq"
    f" AND a.started_at > :delivered)) FROM {_FAILED_LAST}) AS since, started_at, status, problem FROM attempts"
    f" WHERE seq = (SELECT max((SELECT max(a.seq) FROM attempts a WHERE a.delivery = failed.seq)) FROM {_FAILED_LAST})"
)
# Those in a queue, and those outside: each has an index by receiver.
_WAITING = (
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM deliveries"
    " WHERE notification_id = :receiver AND in_line LIMIT :limit) AS queued)"
    " + (SELECT count(*) FROM (SELECT 1 FROM deliveries"
    " WHERE notification_id = :receiver AND due_at IS NOT NULL AND NOT in_line LIMIT :limit) AS alone) AS total"
)


class FailingReceiver(NamedTuple):
    """A receiver that nothing has reached since an attempt failed.

    `waiting` counts its pending deliveries, up to a limit; with `more_wait`, there may be more. `since` is when the
    first attempt failed; what follows is about the latest. Only the next deliveries that failed are compared. Times
    are in milliseconds.
    """

    notification_id: str
    waiting: int
    since: int
    failed_at: int
    status: int | None
    problem: str
    more_wait: bool = False


def failing_receivers(read: ReadRows, most: int, among: Sequence[str] | None = None) -> list[FailingReceiver]:
    """The first `most` of all, or of those that are named.

    Each costs a bounded number of steps in an index, however many deliveries wait, and less if there are many.
    """
    listed, values = ("", dict[str, Any]()) if among is None else in_list(among or [""])
    rows = read(_RECEIVERS.format(among=f"n.id IN ({listed})" if listed else "1 = 1"), values)
    part = max(1, len(rows) // _FEW)
    counted, compared = max(1, COUNT_LIMIT // part), max(1, _MOST_COMPARED // part)
    found: list[FailingReceiver] = []
    for row in rows:
        if len(found) == most:
            break
        waiting = count_waiting(read, row.id, counted)
        asked = {"receiver": row.id, "most": compared, "delivered": row.delivered}
        found += [
            FailingReceiver(row.id, waiting, *attempt)._replace(more_wait=waiting == counted)
            for attempt in read(_LATEST_ATTEMPT, asked)
            if attempt.started_at > row.delivered
        ]
    return found


_HOUR, _DAY_HOURS = 3_600_000, 24
_MOST_OF_DAY = 2000  # deliveries of each state
_OF_STATE = "notification_id = :receiver AND state = '{}' AND finished_at >= :since ORDER BY finished_at DESC"
_RECENT = " UNION ALL ".join(
    f"SELECT * FROM (SELECT seq FROM deliveries WHERE {condition} LIMIT :most) AS {name}"
    for name, condition in {
        "delivered": _OF_STATE.format("delivered"),
        "dead": _OF_STATE.format("dead"),
        "waiting": f"{_FAILED.format(receiver=':receiver')} ORDER BY {FREE}, seq",
    }.items()
)
_ATTEMPTS = f"FROM ({_RECENT}) AS recent JOIN attempts a ON a.delivery = recent.seq WHERE a.started_at >= :since"
_SUCCEEDED = "a.status >= 200 AND a.status < 300"
_BY_HOUR = (
    f"SELECT a.started_at / {_HOUR} AS hour, sum(CASE WHEN {_SUCCEEDED} THEN 1 ELSE 0 END) AS arrived,"
    f" count(*) AS total {_ATTEMPTS} GROUP BY 1"
)
_LAST_FAILURE = (
    "SELECT a.started_at, a.status, a.problem, (SELECT id FROM events WHERE seq = a.delivery) AS event"
    f" {_ATTEMPTS} AND NOT coalesce({_SUCCEEDED}, false) ORDER BY a.seq DESC LIMIT 1"
)
_LAST_SUCCESS = (
    "SELECT finished_at, (SELECT id FROM events e WHERE e.seq = d.seq) AS event FROM deliveries d"
    " WHERE notification_id = :receiver AND state = 'delivered' AND finished_at IS NOT NULL"
    " ORDER BY finished_at DESC LIMIT 1"
)


class Hour(NamedTuple):
    """Attempts in an hour, which began at `start`, in seconds."""

    start: int
    arrived: int
    failed: int


class ReceiverHealth(NamedTuple):
    """Attempts in the last day, of the newest 2000 deliveries of each state. Each last one with the event it sent."""

    hours: list[Hour]
    failing: FailingReceiver | None
    waiting: int
    success: Row | None
    failure: Row | None


def read_health(read: ReadRows, notification_id: str, now: float) -> ReceiverHealth:
    last = int(now * 1000) // _HOUR
    first = last - _DAY_HOURS + 1
    values = {"receiver": notification_id, "since": first * _HOUR, "most": _MOST_OF_DAY}
    found = {row.hour: row for row in read(_BY_HOUR, values)}
    hours = [
        Hour(hour * _HOUR // 1000, found[hour].arrived, found[hour].total - found[hour].arrived)
        if hour in found
        else Hour(hour * _HOUR // 1000, 0, 0)
        for hour in range(first, last + 1)
    ]
    failing = failing_receivers(read, 1, [notification_id])
    success, failure = read(_LAST_SUCCESS, values), read(_LAST_FAILURE, values)
    return ReceiverHealth(
        hours,
        failing[0] if failing else None,
        count_waiting(read, notification_id),
        success[0] if success else None,
        failure[0] if failure else None,
    )


def count_waiting(read: ReadRows, notification_id: str, most: int = COUNT_LIMIT) -> int:
    """Pending deliveries to a receiver, up to `most`."""
    waiting: int = read(_WAITING, {"receiver": notification_id, "limit": most})[0].total
    return min(waiting, most)
