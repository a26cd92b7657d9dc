"""What is wrong now, by cause: of relayers, signers and receivers; and who takes care of it, for a while.

A problem is not stored. Its identifier is a hash of what it is about and of its cause, so that an acknowledgement
holds while these are the same, and a new cause needs a new one.
"""

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from relaydeck.admin.handling import Content, Request, Services, changes, handles
from relaydeck.api import operations
from relaydeck.api.list_filters import ALARMED, PROBLEMS
from relaydeck.api.records import Acknowledgement, AcknowledgementRequest, AffectedRecord, FleetProblem, ProblemState
from relaydeck.errors import BadRequest, RecordNotFound
from relaydeck.notifications.delivery_queries import FailingReceiver, describe_error, failing_receivers
from relaydeck.quantities import parse_span, span_problem
from relaydeck.relayers import snapshots
from relaydeck.relayers.model import DisabledReason, Policies
from relaydeck.relayers.snapshots import Incident
from relaydeck.scope import Scope, Visible
from relaydeck.signers.check import MISMATCH, stored_check
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import ReadRows, Row
from relaydeck.store.rows import in_list, upsert_into
from relaydeck.timestamps import parse_utc, utc

_MOST_READ = 1000  # relayers, signers, and receivers
_MOST_NAMED = 3
_LONGEST_SECONDS = 366 * 86_400
_ORDER = get_args(ProblemState)  # the worst first
_JOINED = (
    f"relayers r LEFT JOIN {snapshots.INCIDENTS} i ON i.relayer_id = r.id"
    f" LEFT JOIN {snapshots.RUNWAYS} w ON w.relayer_seq = r.seq"
)
# Of a paused relayer only that it is disabled: its nodes and its balance are not checked. SQLite reads the few rows on
# the left of a CROSS JOIN first. Each kind is read until there are enough of it.
_SINCE = "coalesce(i.failing_since, i.low_since, w.low_since, 0)"
_IN_TROUBLE = (
    f"SELECT r.seq FROM {snapshots.INCIDENTS} i CROSS JOIN relayers r WHERE r.id = i.relayer_id AND NOT r.paused"
)
_KINDS = (
    f"SELECT r.seq FROM relayers r WHERE r.{PROBLEMS['disabled']} ORDER BY r.seq + 0",  # an expression: sorted
    f"{_IN_TROUBLE} AND i.failed_rounds > 0 AND NOT r.system_disabled",
    f"{_IN_TROUBLE} AND i.low_since IS NOT NULL",
    f"SELECT r.seq FROM {snapshots.RUNWAYS} w CROSS JOIN relayers r WHERE r.seq = w.relayer_seq"
    " AND w.low_since IS NOT NULL AND NOT r.paused ORDER BY w.low_since",
)
_PLACED = " UNION ALL ".join(
    f"SELECT seq, row_number() OVER () AS place FROM ({kind} LIMIT :most) AS kind{number}"
    for number, kind in enumerate(_KINDS)
)
# The first of each kind, then the second of each: however many there are of one kind, the others are included.
_CHOSEN = f"SELECT seq FROM ({_PLACED}) AS placed GROUP BY seq ORDER BY min(place), seq LIMIT :most"
_TROUBLED = (
    "SELECT r.id, r.name, r.network, r.address, r.paused, r.system_disabled, r.disabled_reason, r.policies,"
    f" n.native_symbol, {snapshots.INCIDENT_COLUMNS}, w.minimum_at, w.low_since AS runway_low_since,"
    " CASE WHEN r.system_disabled THEN (SELECT max(moment) FROM audit"
    " WHERE record = r.id AND action = 'relayer.disabled') END AS disabled_at,"
    " (SELECT b.balance FROM balances b WHERE b.relayer_seq = r.seq ORDER BY since DESC LIMIT 1) AS last_balance"
    f" FROM {_JOINED} JOIN networks n ON n.name = r.network WHERE r.seq IN ({{}}) ORDER BY {_SINCE}, r.seq"
)
_SIGNERS = f"SELECT signer_id, alarm, result FROM signer_checks WHERE {ALARMED} LIMIT :most"


class CurrentProblems(NamedTuple):
    found: list[FleetProblem]
    notes: tuple[str, ...]  # what is left out


def read_problems(read: ReadRows, now: float, visible: Visible | None) -> CurrentProblems:
    """The worst first, and what affects most records before the rest. What is acknowledged comes last.

    `visible`: to whom `read` is limited. What somebody acknowledges within it stays open for everybody else.
    """
    rows = read("SELECT * FROM acknowledgements WHERE until > :now", {"now": int(now)})
    known = {row.problem: _acknowledgement(row) for row in rows}
    chosen, signers = read(_CHOSEN, {"most": _MOST_READ + 1}), read(_SIGNERS, {"most": _MOST_READ + 1})
    signers.sort(key=lambda row: row.signer_id)  # not by the database, which would read all of them first
    receivers = failing_receivers(read, _MOST_READ + 1)
    found = [
        *_grouped(each for row in _troubled(read, chosen[:_MOST_READ]) for each in _of_relayer(row)),
        *_grouped(map(_of_signer, signers[:_MOST_READ])),
        *_grouped(map(_of_receiver, receivers[:_MOST_READ])),
    ]
    problems = [msgspec.structs.replace(each, acknowledgement=known.get(_place(each.id, visible))) for each in found]
    problems.sort(key=lambda each: (each.acknowledgement is not None, _ORDER.index(each.state), -each.total))
    read_rows = {"relayers": len(chosen), "signers": len(signers), "receivers": len(receivers)}
    cut = (kind for kind, total in read_rows.items() if total > _MOST_READ)
    return CurrentProblems(
        problems, tuple(f"only the first {_MOST_READ:,} {kind} with a problem are included" for kind in cut)
    )


def _troubled(read: ReadRows, chosen: Sequence[Row]) -> list[Row]:
    if not chosen:
        return []
    listed, values = in_list([row.seq for row in chosen])
    return read(_TROUBLED.format(listed), values)


def _place(problem: str, visible: Visible | None) -> str:
    """Under which an acknowledgement is stored."""
    return problem if visible is None else f"{problem} {hashlib.sha256(visible.key).hexdigest()}"


def _acknowledgement(row: Row) -> Acknowledgement:
    return Acknowledgement(note=row.note, until=utc(row.until), by=row.acknowledged_by, at=utc(row.acknowledged_at))


def _identity(*parts: str) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]


class _Trouble(NamedTuple):
    """Of one record. Those with the same state, and about the same, are one problem."""

    state: ProblemState
    kind: Literal["relayer", "signer", "notification"]
    about: tuple[str, ...]
    record: AffectedRecord
    cause: str
    since: int | None
    network: str | None = None
    native_symbol: str | None = None
    among_several: str = ""  # its cause, if it is named for several that have another one each
    rank: int = 0  # the lowest is named first
    waiting: tuple[int, bool] = (0, False)  # deliveries, and whether there may be more


def _grouped(troubles: Iterable[_Trouble]) -> Iterator[FleetProblem]:
    groups: dict[str, list[_Trouble]] = defaultdict(list)
    for each in troubles:
        groups[_identity(each.state, *each.about)].append(each)
    for identity, found in groups.items():
        found.sort(key=lambda each: each.rank)
        first = found[0]
        yield FleetProblem(
            id=identity,
            state=first.state,
            kind=first.kind,
            network=first.network,
            native_symbol=first.native_symbol,
            cause=_cause_of(found),
            since=utc(min((each.since for each in found if each.since is not None), default=None)),
            total=len(found),
            records=tuple(each.record for each in found[:_MOST_NAMED]),
        )


def _cause_of(found: list[_Trouble]) -> str:
    first = found[0]
    if first.state == "receiver_failing":
        waiting, is_bound = sum(each.waiting[0] for each in found), any(each.waiting[1] for each in found)
        waits = f" {'At least ' if is_bound else ''}{waiting:,} wait{'s' if waiting == 1 else ''}." if waiting else ""
        return f"{first.cause}{waits}"
    return first.among_several if len(found) > 1 and first.among_several else first.cause


def _of_relayer(row: Row) -> Iterator[_Trouble]:
    incident, record = snapshots.incident_from_row(row), AffectedRecord(row.id, row.name)

    def trouble(state: ProblemState, cause: str, since: int | None, *about: str, **lowest: Any) -> _Trouble:
        place = (row.network, row.native_symbol)
        return _Trouble(state, "relayer", (row.network, *about), record, cause, since, *place, **lowest)

    if row.system_disabled:
        cause = _cause(incident, row)
        yield trouble("disabled", cause, row.disabled_at or incident.failing_since, cause)
    elif incident.failed_rounds:
        yield trouble("failing", cause := _cause(incident, row), incident.failing_since, cause)
    if row.paused:
        return
    minimum = msgspec.json.decode(row.policies, type=Policies).min_balance
    balance = int(incident.balance or 0) if row.last_balance is None else int(row.last_balance)
    if incident.low_since is not None:
        several = f"The lowest balance is {balance} Wei, of relayer {row.id!r}; its minimum is {minimum} Wei."
        cause = f"The balance is {balance} Wei, and its minimum is {minimum} Wei."
        yield trouble("low_balance", cause, incident.low_since, among_several=several, rank=balance)
    if row.runway_low_since is not None:
        expected = f" at {utc(row.minimum_at)}" if row.minimum_at else " soon"
        several = f"Relayer {row.id!r} is expected to reach its minimum of {minimum} Wei first,{expected}."
        cause = f"The balance is expected to reach its minimum of {minimum} Wei{expected}."
        if row.last_balance is not None and balance <= minimum:
            several = f"Relayer {row.id!r} has reached its minimum of {minimum} Wei first."
            cause = f"The balance has reached its minimum of {minimum} Wei."
        first = row.minimum_at or 0
        yield trouble("low_runway", cause, row.runway_low_since, among_several=several, rank=first)


def _cause(incident: Incident, row: Row) -> str:
    if incident.evidence:
        nodes = "; ".join(f"{each.node} {each.problem}" for each in incident.evidence)
        return f"No node returned the nonce: {nodes}."
    return msgspec.json.decode(row.disabled_reason, type=DisabledReason).details if row.disabled_reason else "not known"


def _of_signer(row: Row) -> _Trouble:
    check = stored_check(row.result)
    state: ProblemState = "signer_mismatch" if row.alarm == MISMATCH else "signer_unreachable"
    cause, record = f"{check.explanation} ({check.outcome})", AffectedRecord(check.signer_id, check.signer_id)
    return _Trouble(state, "signer", (cause,), record, cause, check.failing_since)


def _of_receiver(failing: FailingReceiver) -> _Trouble:
    record = AffectedRecord(failing.notification_id, failing.notification_id)
    error = describe_error(failing.status, failing.problem)
    cause, since = f"Nothing has arrived since an attempt failed: {error}.", failing.since // 1000
    waiting = (failing.waiting, failing.more_wait)
    return _Trouble("receiver_failing", "notification", (error,), record, cause, since, waiting=waiting)


@handles(operations.LIST_PROBLEMS)
async def list_problems(services: Services, request: Request) -> Content:
    visible = None if request.sender is None else request.sender.visible
    found: CurrentProblems = await services.read(lambda store: read_problems(store.database.read, time.time(), visible))
    return Content(found.found, notes=found.notes)


@changes(operations.ACKNOWLEDGE_PROBLEM)
def acknowledge(context: ChangeContext, request: Request, body: AcknowledgementRequest) -> Content:
    found, until = _find(context, request.identifier), _until(body.until, context.now)
    values = {
        "problem": _place(found.id, _scope(context)),
        "note": body.note,
        "acknowledged_by": context.actor,
        "acknowledged_at": context.now,
        "until": until,
    }
    context.transaction.execute("DELETE FROM acknowledgements WHERE until <= :now", {"now": context.now})
    context.transaction.execute(upsert_into("acknowledgements", "problem", values), values)
    facts = {"note": body.note, "until": utc(until), "state": found.state, "cause": found.cause}
    context.performed("problem.acknowledged", found.records[0].id, facts)
    known = Acknowledgement(note=body.note, until=utc(until), by=context.actor, at=utc(context.now))
    return Content(msgspec.structs.replace(found, acknowledgement=known))


@changes(operations.REOPEN_PROBLEM)
def reopen(context: ChangeContext, request: Request, _body: None) -> Content:
    found = _find(context, request.identifier)
    changed = found.acknowledgement is not None
    if changed:
        context.transaction.execute(
            "DELETE FROM acknowledgements WHERE problem = :id", {"id": _place(found.id, _scope(context))}
        )
        context.performed("problem.reopened", found.records[0].id, {"state": found.state, "cause": found.cause})
    return Content(msgspec.structs.replace(found, acknowledgement=None), changed=changed)


def _scope(context: ChangeContext) -> Scope | None:
    statements = context.transaction.statements
    return None if statements is None else statements.scope


def _find(context: ChangeContext, name: str) -> FleetProblem:
    """Raises RecordNotFound for one that is over."""
    problems = read_problems(context.transaction.all, context.now, _scope(context)).found
    found = next((each for each in problems if each.id == name), None)
    if found is None:
        raise RecordNotFound("problem")
    return found


def _until(text: str, now: int) -> int:
    """Raises BadRequest."""
    until = parse_utc(text) if span_problem(text) else now + parse_span(text)
    if until is None or not now < until <= now + _LONGEST_SECONDS:
        raise BadRequest("until must be a moment within a year, such as 2026-03-01T18:00:00Z, or a span such as 4h")
    return until
