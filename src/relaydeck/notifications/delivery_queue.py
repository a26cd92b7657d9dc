"""Deliveries in the database: which are due, how an attempt ended, which one is next in its queue.

A queue holds one relayer's events to one receiver, in order. Only the first delivery of a queue has a due time; the
others get one when they become first. Finding what is due is therefore one index lookup, however long the queues are.

Where processes share the work, each claims the deliveries it attempts (`claims.py`). A claimed delivery is free again
when its claim expires; any other is free when it is due. The queries below look for free deliveries.
"""

import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from relaydeck.outgoing.http_client import requested_delay
from relaydeck.store.database import ReadRows, Transaction
from relaydeck.store.rows import columns_of

State = Literal["pending", "delivered", "dead"]
NOW = 0  # a due time that is always in the past, whatever the clock is set to
SOON = 1  # the same, for a delivery of which an attempt has failed


class PendingDelivery(NamedTuple):
    """A delivery to attempt at `due_at`, which is before `scheduled_at` to probe the receiver. A row of `COLUMNS`."""

    sequence: int
    due_at: int
    scheduled_at: int | None
    tries: int
    in_order: bool
    notification_id: str
    relayer_id: str | None
    event_id: str


class AttemptRecord(NamedTuple):
    """One attempt: the status of the response, or else the word for the problem. Times are milliseconds."""

    started_at: int
    duration: int
    status: int | None
    problem: str
    answer: str


class AttemptOutcome(NamedTuple):
    """What happens to a delivery after an attempt, and when a waiting one is tried to probe the receiver."""

    state: State
    due_at: int | None
    in_order: bool
    is_probe: bool = False
    probe_at: int | None = None  # None: nothing is probed


class ReceiverResponse(NamedTuple):
    """A receiver's response: its status, or else the word for the problem."""

    status: int | None = None
    problem: str = ""
    text: str = ""
    retry_after: str = ""
    final: bool = False  # no later attempt can succeed

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class FinishedAttempt(NamedTuple):
    """An attempt to be saved."""

    delivery: PendingDelivery
    attempt: AttemptRecord
    outcome: AttemptOutcome


def add(transaction: Transaction, sequence: int, notification_id: str, relayer_id: str | None) -> None:
    """Add a delivery. An event without a relayer belongs to no queue and is due at once."""
    values = {"notification": notification_id, "relayer": relayer_id}
    first = relayer_id is None or transaction.one(f"SELECT 1 {_QUEUE} LIMIT 1", values) is None
    transaction.execute(
        "INSERT INTO deliveries (seq, notification_id, relayer_id, state, in_line, tries, due_at, revision)"
        " VALUES (:seq, :notification, :relayer, 'pending', :in_order, 0, :due_at, :revision)",
        values
        | {
            "seq": sequence,
            "in_order": relayer_id is not None,
            "due_at": NOW if first else None,
            "revision": transaction.revision,
        },
    )


_QUEUE = "FROM deliveries WHERE notification_id = :notification AND relayer_id = :relayer AND in_line"


COLUMNS = columns_of(
    PendingDelivery._fields,
    sequence="seq",
    in_order="in_line",
    event_id="(SELECT id FROM events WHERE events.seq = deliveries.seq)",
)
FREE = "coalesce(claimed_until, due_at)"


class DatabaseClock:
    """The clock of the database, for times that several machines compare: their own clocks may differ.

    The database is read now and then; in between, the monotonic clock of this process continues its time.
    """

    def __init__(
        self, sql: str, now: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`sql` reads the clock, in milliseconds. Empty: the database is on this machine, and the clock is `now`."""
        self.column = f"{sql or 'NULL'} AS moment"  # to be selected with a query, for `set`
        self._now = now
        self._monotonic = monotonic
        self._ahead: float | None = None  # of the monotonic clock

    def set(self, moment: int | None) -> None:
        if moment is not None:
            self._ahead = moment / 1000 - self._monotonic()

    def __call__(self) -> float:
        """Now, in seconds."""
        return self._now() if self._ahead is None else self._ahead + self._monotonic()


def next_attempt_at(read: ReadRows, clock: DatabaseClock) -> int | None:
    """When the next of all deliveries may be attempted. Also sets the clock."""
    indexed = "due_at IS NOT NULL AND state <> 'dead'"  # the second condition follows, but selects the index
    first = f"SELECT {FREE} FROM deliveries WHERE {indexed} ORDER BY 1 LIMIT 1"
    (row,) = read(f"SELECT ({first}) AS due, {clock.column}", {})
    clock.set(row.moment)
    due: int | None = row.due
    return due


def receivers_with_deliveries(read: ReadRows, seen: int | None) -> tuple[int, list[tuple[str, int]]]:
    """Every receiver with pending deliveries, or with those written after the revision `seen`, and when one is free.

    A receiver may appear more than once. Returned with the revision from before the query: what is written during it is
    found again the next time.
    """
    revision: int = read("SELECT revision FROM clock", {})[0].revision
    if seen is None:
        where = "WHERE due_at IS NOT NULL GROUP BY notification_id"
        rows = read(f"SELECT notification_id, min({FREE}) AS free FROM deliveries {where}", {})
    else:
        # Without a condition on due_at: it would bypass the index by revision and scan every pending delivery.
        where = "WHERE revision > :seen"
        rows = read(f"SELECT notification_id, {FREE} AS free FROM deliveries {where}", {"seen": seen})
    return revision, [(row.notification_id, row.free) for row in rows if row.free is not None]


def next_deliveries(read: ReadRows, notification_id: str, limit: int) -> list[PendingDelivery]:
    """The next deliveries to one receiver, in the order in which they become free."""
    rows = read(
        f"SELECT {COLUMNS} FROM deliveries WHERE notification_id = :notification AND due_at IS NOT NULL"
        f" ORDER BY {FREE}, seq LIMIT :limit",
        {"notification": notification_id, "limit": limit},
    )
    return [PendingDelivery(*row) for row in rows]


def save_attempts(transaction: Transaction, attempts: Sequence[FinishedAttempt]) -> None:
    """Save attempts and the new state of their deliveries, and make the next delivery of each queue due.

    A delivery that was replayed during its attempt stays as it is, due at once, unless this attempt delivered it. One
    whose receiver was deleted during its attempt is due at once, too: the next attempt finds that out and ends it.
    """
    transaction.insert(
        "attempts",
        ("delivery", *AttemptRecord._fields),
        [(finished.delivery.sequence, *finished.attempt) for finished in attempts],
    )
    for delivery, attempt, outcome in attempts:
        finished_at = None if outcome.state == "pending" else attempt.started_at + attempt.duration
        values = outcome._asdict() | {
            "finished": finished_at,
            "revision": transaction.revision,
            "seq": delivery.sequence,
            "tries": delivery.tries,
            "counted": int(outcome.state != "pending" or not outcome.is_probe),
        }
        if outcome.state == "pending" and not transaction.one(_RECEIVER, {"id": delivery.notification_id}):
            values["due_at"] = NOW
        if transaction.execute(f"{_SAVE} AND tries = :tries", values).rowcount:
            if delivery.in_order and not outcome.in_order:
                make_next_due(transaction, delivery)
        else:  # replayed, which left the queue and starts to count anew
            transaction.execute(_SAVE if outcome.state == "delivered" else _RELEASE, values)
        if outcome.probe_at is not None:
            _probe(transaction, delivery, outcome, outcome.probe_at)


def _probe(transaction: Transaction, delivery: PendingDelivery, outcome: AttemptOutcome, probe_at: int) -> None:
    """Bring a waiting delivery forward. After a probe it is the one scheduled next, and after the last one the first.

    A receiver that accepted another event within the last minute rejects this one: it is not probed with it again.
    """
    values = {
        "notification": delivery.notification_id,
        "seq": delivery.sequence,
        "since": probe_at - 2 * 1000 * PROBE_SECONDS,
    }
    after = (delivery.scheduled_at or -1) if outcome.is_probe else -1
    found = transaction.one(_NEXT, values | {"after": after})
    if found is None and outcome.state != "delivered" and not transaction.one(_ACCEPTED, values):
        found = transaction.one(_NEXT, values | {"after": -1})
    if found is not None and found.claimed_by is None and found.due_at > probe_at:
        due = {"due": probe_at, "seq": found.seq, "revision": transaction.revision}
        transaction.execute(f"{BRING_FORWARD} WHERE seq = :seq", due)


PROBE_SECONDS = 60
_NEXT = (
    "SELECT seq, due_at, claimed_by FROM deliveries WHERE notification_id = :notification AND due_at IS NOT NULL"
    f" AND {FREE} >= :after AND ({FREE} > :after OR seq > :seq) ORDER BY {FREE}, seq LIMIT 1"
)
_ACCEPTED = (
    "SELECT 1 FROM deliveries WHERE notification_id = :notification AND state = 'delivered' AND finished_at > :since"
    " LIMIT 1"
)
BRING_FORWARD = (
    "UPDATE deliveries SET scheduled_at = CASE WHEN scheduled_at > due_at THEN scheduled_at ELSE due_at END,"
    " due_at = :due, revision = :revision"
)

_RECEIVER = "SELECT 1 AS found FROM notifications WHERE id = :id"
_SAVE = (
    "UPDATE deliveries SET state = :state, in_line = :in_order, tries = tries + :counted, due_at = :due_at,"
    " scheduled_at = NULL, finished_at = :finished, claimed_by = NULL, claimed_until = NULL, revision = :revision"
    " WHERE seq = :seq"
)
_RELEASE = "UPDATE deliveries SET claimed_by = NULL, claimed_until = NULL, revision = :revision WHERE seq = :seq"


def end_deliveries(transaction: Transaction, notification_id: str) -> None:
    """Attempt at once what waits for a receiver that is deleted: the attempt fails, and ends the delivery."""
    transaction.allow_long_statements()
    transaction.execute(
        "UPDATE deliveries SET due_at = :now, revision = :revision"
        " WHERE notification_id = :notification AND due_at IS NOT NULL",
        {"now": NOW, "revision": transaction.revision, "notification": notification_id},
    )


def make_next_due(transaction: Transaction, delivery: PendingDelivery) -> None:
    transaction.execute(
        f"UPDATE deliveries SET due_at = :now, revision = :revision WHERE seq = (SELECT min(seq) {_QUEUE})",
        {
            "now": NOW,
            "revision": transaction.revision,
            "notification": delivery.notification_id,
            "relayer": delivery.relayer_id,
        },
    )


# -- What follows from an attempt --

_MINUTE, _HOUR = 60, 3600
# Seconds after each failure, the schedule that Standard Webhooks suggests: ten attempts in 75.6 hours.
DELAYS = (5, 5 * _MINUTE, 30 * _MINUTE, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 14 * _HOUR, 20 * _HOUR, 24 * _HOUR)
MAX_ATTEMPTS = len(DELAYS) + 1
ATTEMPTS_IN_ORDER = 3  # after these, a failing delivery no longer holds up the events that follow it
JITTER = 0.1
MAX_RETRY_AFTER = 24 * _HOUR
_GONE = 410


def decide(
    response: ReceiverResponse,
    *,
    tries: int,
    in_order: bool,
    now: float,
    random: Callable[[], float],
    scheduled_at: int | None = None,
) -> AttemptOutcome:
    """`tries` includes this attempt. `now` is in seconds. Before `scheduled_at`, in milliseconds, it is a probe."""
    moment = int(now * 1000)
    is_probe = scheduled_at is not None and scheduled_at > moment
    if response.delivered:
        return AttemptOutcome("delivered", None, False, is_probe, moment if is_probe else None)
    if response.final or response.status == _GONE:
        return AttemptOutcome("dead", None, False)
    asked = min(requested_delay(response.retry_after, now) or 0.0, MAX_RETRY_AFTER)
    probe_at = int((now + max(PROBE_SECONDS, asked)) * 1000)
    if scheduled_at is not None and is_probe:
        return AttemptOutcome("pending", max(scheduled_at, int((now + asked) * 1000)), in_order, is_probe, probe_at)
    if tries >= MAX_ATTEMPTS:
        return AttemptOutcome("dead", None, False, is_probe, probe_at)
    delay = max(DELAYS[tries - 1] * (1 - JITTER + 2 * JITTER * random()), asked)
    due_at = int((now + delay) * 1000)
    return AttemptOutcome("pending", due_at, in_order and tries < ATTEMPTS_IN_ORDER, is_probe, probe_at)
