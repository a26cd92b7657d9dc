"""Deliveries in the database: what is due, how a try went, who is next in line.

A line is one relayer's events to one receiver. Its first delivery is due; the others have no due time and
get one when they come first. So what is due is one look in an index, however long the lines are.
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


class Attempt(NamedTuple):
    """One try: the status it was answered with, or else the word for what went wrong."""

    started_at: int
    duration: int
    status: int | None
    problem: str
    answer: str


class Outcome(NamedTuple):
    """What becomes of a delivery after a try."""

    state: State
    due_at: int | None
    in_line: bool


class Tried(NamedTuple):
    """A try to be written down."""

    due: Due
    attempt: Attempt
    outcome: Outcome


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


def next_due(read: ReadRows) -> int | None:
    """When the next delivery of all is due."""
    due: int | None = read("SELECT min(due_at) FROM deliveries WHERE due_at IS NOT NULL", {})[0][0]
    return due


def receivers_due(read: ReadRows) -> list[tuple[str, int]]:
    """Every receiver that something is on its way to, and when the first of it is due."""
    rows = read(
        "SELECT notification_id, min(due_at) FROM deliveries WHERE due_at IS NOT NULL GROUP BY notification_id", {}
    )
    return [(row[0], row[1]) for row in rows]


def receivers_due_since(read: ReadRows, revision: int) -> list[tuple[str, int]]:
    """The same, of what became due after `revision`; a receiver may appear more than once."""
    # Without a condition on due_at: it would lead past the index by revision, through all that is pending.
    rows = read("SELECT notification_id, due_at FROM deliveries WHERE revision > :revision", {"revision": revision})
    return [(row[0], row[1]) for row in rows if row[1] is not None]


def upcoming(read: ReadRows, notification_id: str, limit: int) -> list[Due]:
    """The next deliveries to one receiver, those due first first."""
    rows = read(
        "SELECT seq, due_at, tries, in_line, notification_id, relayer_id FROM deliveries"
        " WHERE notification_id = :notification AND due_at IS NOT NULL ORDER BY due_at, seq LIMIT :limit",
        {"notification": notification_id, "limit": limit},
    )
    return [Due(*row) for row in rows]


def settle(transaction: Transaction, tries: Sequence[Tried]) -> None:
    """Write down tries and what becomes of their deliveries; let the next of each line come forward."""
    transaction.insert(
        "attempts",
        ("delivery", *Attempt._fields),
        [(tried.due.sequence, *tried.attempt) for tried in tries],
    )
    for due, attempt, outcome in tries:
        finished = None if outcome.state == "pending" else attempt.started_at + attempt.duration
        transaction.execute(
            "UPDATE deliveries SET state = :state, in_line = :in_line, tries = tries + 1, due_at = :due_at,"
            " finished_at = :finished, revision = :revision WHERE seq = :seq",
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
