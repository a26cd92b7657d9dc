"""Receivers with deliveries that wait after a failed attempt: they need attention before a delivery is given up."""

from typing import NamedTuple

from relaydeck.notifications.outbox import FREE
from relaydeck.store.database import ReadRows

COUNT_LIMIT = 10_000
_MOST_COMPARED = 1000  # failed deliveries of a receiver, the next ones first

# A delivery has a due time above 0 if, and only if, an attempt failed and another one follows. The condition on FREE
# finds it in the index by receiver, behind those that were never attempted.
_FAILED = f"notification_id = {{receiver}} AND due_at IS NOT NULL AND due_at > 0 AND {FREE} > 0"
_RECEIVERS = (
    "SELECT n.id FROM notifications n WHERE EXISTS"
    f" (SELECT 1 FROM deliveries WHERE {_FAILED.format(receiver='n.id')}) ORDER BY n.seq LIMIT :most"
)
_LATEST_ATTEMPT = (
    "SELECT started_at, status, problem FROM attempts WHERE seq ="
    " (SELECT max((SELECT max(a.seq) FROM attempts a WHERE a.delivery = failed.seq)) FROM"
    f" (SELECT seq FROM deliveries WHERE {_FAILED.format(receiver=':receiver')} ORDER BY {FREE}, seq LIMIT :most)"
    " AS failed)"
)
# Those in a queue, and those outside: each has an index by receiver.
_WAITING = (
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM deliveries"
    " WHERE notification_id = :receiver AND in_line LIMIT :limit) AS queued)"
    " + (SELECT count(*) FROM (SELECT 1 FROM deliveries"
    " WHERE notification_id = :receiver AND due_at IS NOT NULL AND NOT in_line LIMIT :limit) AS alone) AS total"
)


class FailingReceiver(NamedTuple):
    """`waiting` counts its pending deliveries, up to COUNT_LIMIT; the rest is about a failed attempt of one of them.

    It is the latest one, unless more than 1000 deliveries failed. `failed_at` is in milliseconds.
    """

    notification_id: str
    waiting: int
    failed_at: int
    status: int | None
    problem: str


def failing_receivers(read: ReadRows, most: int) -> list[FailingReceiver]:
    """The first `most` of them. Each costs a bounded number of steps in an index, however many deliveries wait."""
    found: list[FailingReceiver] = []
    for row in read(_RECEIVERS, {"most": most}):
        waiting: int = read(_WAITING, {"receiver": row.id, "limit": COUNT_LIMIT})[0].total
        found += [
            FailingReceiver(row.id, min(waiting, COUNT_LIMIT), *attempt)
            for attempt in read(_LATEST_ATTEMPT, {"receiver": row.id, "most": _MOST_COMPARED})
        ]
    return found
