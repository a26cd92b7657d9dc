"""Deliveries in the database: what is due, how a try went, who is next in line.

A line is one relayer's events to one receiver. Its first delivery is due; the others have no due time and
get one when they come first. So what is due is one look in an index, however long the lines are.

Where processes share the work, each claims what it tries (`claims.py`). What is claimed is free again when its
claim runs out; everything else is free when it is due. What is asked for below is what is free.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from relaydeck.store.database import Row, Transaction

ReadRows = Callable[[str, dict[str, Any]], list[Row]]
State = Literal["pending", "delivered", "dead"]
NOW = 0  # a due time that is always past, whatever the clock is set to


class Due(NamedTuple):
    """A delivery to try at `due_at`."""

    sequence: int
    due_at: int
    tries: int
    in_line: bool
    notification_id: str
    relayer_id: str | None


class AttemptRecord(NamedTuple):
    """One try: the status it was answered with, or else the word for what went wrong."""

    started_at: int
    duration: int
    status: int | None
    problem: str
    answer: str


class AttemptOutcome(NamedTuple):
    """What becomes of a delivery after a try."""

    state: State
    due_at: int | None
    in_line: bool


class Tried(NamedTuple):
    """A try to be written down."""

    due: Due
    attempt: AttemptRecord
    outcome: AttemptOutcome


def add(transaction: Transaction, sequence: int, notification_id: str, relayer_id: str | None) -> None:
    """An event that belongs to no relayer stands in no line."""
    values = {"notification": notification_id, "relayer": relayer_id}
    first = relayer_id is None or transaction.one(f"SELECT 1 {_LINE} LIMIT 1", values) is None
    transaction.execute(
        "INSERT INTO deliveries (seq, notification_id, relayer_id, state, in_line, tries, due_at, revision)"
        " VALUES (:seq, :notification, :relayer, 'pending', :in_line, 0, :due_at, :revision)",
        values
        | {
            "seq": sequence,
            "in_line": relayer_id is not None,
            "due_at": NOW if first else None,
            "revision": transaction.revision,
        },
    )


_LINE = "FROM deliveries WHERE notification_id = :notification AND relayer_id = :relayer AND in_line"


COLUMNS = "seq, due_at, tries, in_line, notification_id, relayer_id"
FREE = "coalesce(claimed_until, due_at)"


def next_free(read: ReadRows) -> int | None:
    """When the next delivery of all may be tried."""
    indexed = "due_at IS NOT NULL AND state <> 'dead'"  # the second goes without saying, but for the index
    rows = read(f"SELECT {FREE} FROM deliveries WHERE {indexed} ORDER BY 1 LIMIT 1", {})
    return rows[0][0] if rows else None


def receivers_free(read: ReadRows) -> list[tuple[str, int]]:
    """Every receiver that something is on its way to, and when the first of it may be tried."""
    rows = read(
        f"SELECT notification_id, min({FREE}) FROM deliveries WHERE due_at IS NOT NULL GROUP BY notification_id", {}
    )
    return [(row[0], row[1]) for row in rows]


def receivers_free_since(read: ReadRows, revision: int) -> list[tuple[str, int]]:
    """The same, of what was written after `revision`; a receiver may appear more than once."""
    # Without a condition on due_at: it would lead past the index by revision, through all that is pending.
    rows = read(
        f"SELECT notification_id, due_at, {FREE} FROM deliveries WHERE revision > :revision", {"revision": revision}
    )
    return [(row[0], row[2]) for row in rows if row[1] is not None]


def upcoming(read: ReadRows, notification_id: str, limit: int) -> list[Due]:
    """The next deliveries to one receiver, those free first first."""
    rows = read(
        f"SELECT {COLUMNS} FROM deliveries WHERE notification_id = :notification AND due_at IS NOT NULL"
        f" ORDER BY {FREE}, seq LIMIT :limit",
        {"notification": notification_id, "limit": limit},
    )
    return [Due(*row) for row in rows]


def settle(transaction: Transaction, tries: Sequence[Tried]) -> None:
    """Write down tries and what becomes of their deliveries; let the next of each line come forward."""
    transaction.insert(
        "attempts",
        ("delivery", *AttemptRecord._fields),
        [(tried.due.sequence, *tried.attempt) for tried in tries],
    )
    for due, attempt, outcome in tries:
        finished = None if outcome.state == "pending" else attempt.started_at + attempt.duration
        transaction.execute(
            "UPDATE deliveries SET state = :state, in_line = :in_line, tries = tries + 1, due_at = :due_at,"
            " finished_at = :finished, claimed_by = NULL, claimed_until = NULL, revision = :revision WHERE seq = :seq",
            {**outcome._asdict(), "finished": finished, "revision": transaction.revision, "seq": due.sequence},
        )
        if due.in_line and not outcome.in_line:
            _call_next(transaction, due)


def _call_next(transaction: Transaction, due: Due) -> None:
    transaction.execute(
        f"UPDATE deliveries SET due_at = :now, revision = :revision WHERE seq = (SELECT min(seq) {_LINE})",
        {
            "now": NOW,
            "revision": transaction.revision,
            "notification": due.notification_id,
            "relayer": due.relayer_id,
        },
    )
