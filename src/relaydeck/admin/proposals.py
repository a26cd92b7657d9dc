"""Changes that need approval: what is protected, and the proposals that changes of protected records become.

A proposal is a request that waits. Whatever operation changes a protected record, the change is tried in a step of its
transaction; when the guard has seen a protected record, the step is rolled back, and the request is stored in its
place: sealed, with its author, and pinned to the plan or the record that it found. An approval runs the same request
again, in the transaction that closes the proposal, so that it is applied once or not at all. What it makes must be what
the proposal shows: between the two, somebody may replace a signer that the request names.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import zip_longest
from typing import Any

import msgspec

from relaydeck.admin.handling import (
    HANDLERS,
    Change,
    Content,
    OwnTransaction,
    Request,
    Services,
    changes,
    handles,
)
from relaydeck.admin.store_thread import urls_over_http
from relaydeck.admin.views import COLLECTIONS, find, read_record
from relaydeck.api.operation import Operation
from relaydeck.api.operations import (
    APPROVE_PROPOSAL,
    BY_NAME,
    CREATE_PROTECTION,
    DELETE_PROTECTION,
    FORCE_PROPOSAL,
    GET_PROPOSAL,
    REJECT_PROPOSAL,
    WITHDRAW_PROPOSAL,
)
from relaydeck.api.records import PlannedField, PlannedStep, ProposalDecision, ProtectionRequest
from relaydeck.credentials.tokens import is_author, may_approve
from relaydeck.errors import (
    BadRequest,
    Damaged,
    Forbidden,
    NotPossible,
    OutOfDate,
    PlanChanged,
    RecordExists,
    RecordNotFound,
)
from relaydeck.http.pipeline import Call
from relaydeck.http.request import path_identifier, query_parameters
from relaydeck.identifiers import new_identifier
from relaydeck.notifications import events
from relaydeck.notifications.model import EventKind
from relaydeck.provisioning.plan_revision import MOST_LISTED, changes_since, is_same_plan
from relaydeck.scope import Scope
from relaydeck.store.changes import REFERRING_COLUMNS, ChangeContext, Record, remove_row
from relaydeck.store.database import ReadRows, Row, Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.protection import Guard
from relaydeck.store.scoped import EVERYTHING
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault

OPEN_SECONDS = 7 * 86_400  # until a proposal expires
_KEPT_SECONDS = 90 * 86_400  # one that is closed; the audit log keeps what it did
_MOST_OPEN, _MOST_OPEN_OF_ONE, _MOST_PROTECTIONS = 100, 20, 100  # so that no author keeps all others out
_MOST_STEPS, _MOST_BYTES, _LONGEST_REASON = 1000, 1_048_576, 500
_BY_ANOTHER = "a change that needs approval cannot be approved by its author, nor by a token that the author made"
_ACTIONS = {"created": "create", "updated": "change", "deleted": "remove"}
# After these changes a name still means the same record: nothing but the labels of a signer ever changes.
_KEEP_MEANING = ("signer.updated", "network.updated")
_STATES = {
    EventKind.CHANGE_APPLIED: "applied",
    EventKind.CHANGE_FORCED: "forced",
    EventKind.CHANGE_REJECTED: "rejected",
    EventKind.CHANGE_WITHDRAWN: "withdrawn",
}


class _Waiting(msgspec.Struct, frozen=True):
    """The request of a proposal, as it is sealed. What it says about its author counts, not what the row shows."""

    operation: str
    argument: str
    body: bytes
    if_match: str
    author: str
    scope: Scope | None  # of the author
    newest: int  # the end of the audit log then

    def __repr__(self) -> str:
        """Without the body, which may contain secrets."""
        return f"<{self.operation} by {self.author}>"


class _HeldUp(Exception):
    """Rolls back the step in which a change was tried."""


# -- what is protected ----------------------------------------------------------------------------


@changes(CREATE_PROTECTION)
def create_protection(context: ChangeContext, _request: Request, new: ProtectionRequest) -> Content:
    if new.scope is not None and new.scope.problem:
        raise BadRequest(f"scope {new.scope.problem}")
    found = context.transaction.all("SELECT name FROM protections")
    if new.name in [row.name for row in found]:
        raise RecordExists("protection")
    if len(found) >= _MOST_PROTECTIONS:
        raise NotPossible(f"there are {_MOST_PROTECTIONS} protections: end one first")
    facts = msgspec.to_builtins(new)
    scope = None if new.scope is None else _json(new.scope)
    made = {"made_by": context.actor, "created_at": context.now}
    values = {"name": new.name, "kinds": _json(new.kinds), "scope": scope, "note": new.note, **made}
    values |= {"closed": new.closed, "revision": context.transaction.revision}
    _tell_every_process(context.transaction, closed=new.closed)
    context.transaction.insert("protections", tuple(values), [tuple(values.values())])
    context.performed("protection.created", facts.pop("name"), facts)
    return read_record(context, "protections", new.name)


@changes(DELETE_PROTECTION)
def delete_protection(context: ChangeContext, request: Request, _body: None) -> Content:
    before = read_record(context, "protections", request.identifier).data
    if context.guard is not None:
        context.guard.covering.add(before["name"])  # otherwise one owner could end it, and then change the records
    named = {"name": before["name"]}
    (row,) = context.transaction.all("SELECT seq FROM protections WHERE name = :name", named)
    _tell_every_process(context.transaction, closed=before["closed"])
    remove_row(context.transaction, "protections", row.seq)
    facts = {name: before[name] for name in ("kinds", "scope", "note", "closed")}
    context.changed("protection.deleted", before["name"], facts, {})
    return Content(None)


def _tell_every_process(transaction: Transaction, *, closed: bool) -> None:
    """What applications see has changed as if their tokens had."""
    transaction.changes_tokens = transaction.changes_tokens or closed


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# -- how a change becomes a proposal --------------------------------------------------------------


def make_or_propose(context: ChangeContext, operation: Operation, call: Call, change: Change) -> Content:
    """Make the change; if it concerns a protected record, store it as a proposal, and change nothing else."""
    if not operation.may_need_two:
        return change(context)
    reason, guard = _reason_of(call), Guard(context.transaction.all)
    if not guard.protections:
        return change(context)
    newest, entries = context.transaction.chain_end[0], list[Row]()
    try:
        with context.transaction.step():
            content = change(context._replace(guard=guard))
            if guard.covering:
                entries = _entries_since(context.transaction, newest)
                raise _HeldUp
            return content
    except _HeldUp:
        return _propose(context, operation, call, reason, guard, entries)


def _reason_of(call: Call) -> str:
    reason = dict(query_parameters(call.query)).get("reason", "")
    if len(reason) > _LONGEST_REASON:
        raise BadRequest(f"reason must have at most {_LONGEST_REASON} characters")
    return reason


def _entries_since(transaction: Transaction, seq: int) -> list[Row]:
    return transaction.all(
        f"{EVERYTHING}SELECT action, record, before_change, after_change FROM audit WHERE seq > :seq ORDER BY seq"
        f" LIMIT {_MOST_STEPS + 1}",
        {"seq": seq},
    )


def _propose(
    context: ChangeContext, operation: Operation, call: Call, reason: str, guard: Guard, entries: list[Row]
) -> Content:
    transaction, now = context.transaction, context.now
    pinned = f'"{guard.revision}"' if guard.revision else _etag(context, operation, call)
    scope = None if transaction.statements is None else transaction.statements.scope
    newest = transaction.chain_end[0]
    waiting = _Waiting(operation.name, call.argument, call.body, pinned, context.actor, scope, newest)
    steps = [_step(each) for each in entries[:_MOST_STEPS]]
    values: dict[str, Any] = {
        "state": "open",
        "operation": operation.name,
        "plan": _json(steps),
        "protections": _json(sorted(guard.covering)),
        "author": context.actor,
        "reason": reason,
    }
    with transaction.within(None):
        same = _find_same(context, values, waiting, guard.revision, steps)
    if same:
        return _shown(read_record(context, "proposals", same), scope)._replace(proposed=True)
    _require_room(transaction, call, entries, context)
    proposal = new_identifier()
    sealed = context.vault.seal(msgspec.msgpack.encode(waiting), _place(proposal), transaction)
    values |= {
        "id": proposal,
        "revision": pinned,
        "created_at": now,
        "expires_at": now + OPEN_SECONDS,
        "sealed_request": sealed,
        "decision": "",
    }
    transaction.insert("proposals", tuple(values), [tuple(values.values())])
    _record(context, EventKind.CHANGE_PROPOSED, proposal, values, reason)
    return _shown(read_record(context, "proposals", proposal), scope)._replace(proposed=True)


def _find_same(
    context: ChangeContext, values: Mapping[str, Any], waiting: _Waiting, revision: str, steps: Sequence[PlannedStep]
) -> str:
    """An open proposal of the author that would do the same, for a pipeline that runs again; empty: there is none.

    `revision`: of the plan, if the change is one; its position in the audit log is another one each time.
    """
    read, alike = context.transaction.all, " AND ".join(f"{name} = :{name}" for name in values)
    changed, used = {(each.kind, each.name) for each in steps}, _referred_to(steps)
    sql = f"SELECT id, sealed_request FROM proposals WHERE {alike} AND expires_at > :now"
    for row in read(sql, {**values, "now": context.now}):
        with suppress(Damaged):
            before = msgspec.msgpack.decode(context.vault.open(row.sealed_request, _place(row.id)), type=_Waiting)
            if _replaced(context.transaction, before, used):
                continue
            if revision and not is_same_plan(revision, changed, before.if_match.strip('"'), read):
                continue
            pin = waiting.if_match if revision else before.if_match
            if msgspec.structs.replace(before, newest=waiting.newest, if_match=pin) == waiting:
                identifier: str = row.id
                return identifier
    return ""


def _require_room(transaction: Transaction, call: Call, entries: list[Row], context: ChangeContext) -> None:
    if len(entries) > _MOST_STEPS or len(call.body) > _MOST_BYTES:
        raise NotPossible(
            "the change needs approval, because records of it are protected, and is too large for a proposal: split it"
            f" into documents of at most {_MOST_STEPS} steps and {_MOST_BYTES} bytes"
        )
    forget_expired(transaction, context.now)
    open_now = "SELECT author FROM proposals WHERE state = 'open' AND expires_at > :now"
    authors = [row.author for row in transaction.all(open_now, {"now": context.now})]
    if authors.count(context.actor) >= _MOST_OPEN_OF_ONE:
        raise NotPossible(f"{_MOST_OPEN_OF_ONE} of your changes wait for an approval already: withdraw some first")
    if len(authors) >= _MOST_OPEN:
        raise NotPossible(f"{_MOST_OPEN} changes wait for an approval already: approve or reject some first")


def forget_expired(transaction: Transaction, now: int) -> None:
    """Erase the requests of expired proposals, and remove old ones."""
    expired = "UPDATE proposals SET sealed_request = NULL WHERE sealed_request IS NOT NULL AND expires_at <= :now"
    if transaction.execute(expired, {"now": now}).rowcount:
        transaction.erases_secrets = True
    transaction.execute("DELETE FROM proposals WHERE expires_at <= :old", {"old": now - _KEPT_SECONDS})


def _etag(context: ChangeContext, operation: Operation, call: Call) -> str:
    """Of the record as it is now; empty: there is none yet, or it cannot change."""
    if not operation.conditional:
        return ""
    return read_record(context, operation.path.split("/")[0], path_identifier(call.argument)).etag


def _step(entry: Row) -> PlannedStep:
    kind, _, done = entry.action.partition(".")
    before, after = (msgspec.json.decode(each or "{}") for each in (entry.before_change, entry.after_change))
    names = dict.fromkeys([*before, *after])
    # As in the plan of an apply file: a value that is removed does not look like one that is set.
    nothing = "unset" if before and after else ""
    fields = tuple(PlannedField(name, _text(before, name) or nothing, _text(after, name) or nothing) for name in names)
    return PlannedStep(_ACTIONS.get(done, "change"), kind, entry.record, fields)  # type: ignore[arg-type]


def _text(facts: Mapping[str, Any], name: str) -> str:
    value = facts.get(name)
    return "" if value is None else value if isinstance(value, str) else _json(value)


def _place(proposal: str) -> Place:
    return Place("proposals", proposal, "request")


def _record(context: ChangeContext, kind: EventKind, proposal: str, values: Mapping[str, Any], reason: str) -> None:
    """In the audit log, and as an event for the receivers that belong to what is protected."""
    facts = {"operation": values["operation"], "author": values["author"], "reason": reason}
    context.performed(kind.value, proposal, facts)
    names = msgspec.json.decode(values["protections"])
    receivers = dict.fromkeys(
        row.id
        for each in Guard(context.transaction.all).protections
        if each.name in names
        for row in _receivers(context.transaction, each.scope)
    )
    data = {"details": {"proposal_id": proposal, **facts, "actor": context.actor}}
    for receiver in receivers or [None]:
        events.record(context.transaction, kind, data, notification_id=receiver, now=context.now)


def _receivers(transaction: Transaction, scope: Scope | None) -> list[Row]:
    with transaction.within(scope):
        most = {"most": events.MOST_RECEIVERS}
        return transaction.all("SELECT id FROM notifications ORDER BY seq LIMIT :most", most)


# -- how a proposal is decided --------------------------------------------------------------------


@changes(REJECT_PROPOSAL)
def reject_proposal(context: ChangeContext, request: Request, asked: ProposalDecision) -> Content:
    _close(context, request.identifier, EventKind.CHANGE_REJECTED, asked.reason)
    return read_record(context, "proposals", request.identifier)


@handles(GET_PROPOSAL)
async def get_proposal(services: Services, request: Request) -> Content:
    return await services.read(lambda store: _find_own(store.database.read, store.vault, request))


@changes(WITHDRAW_PROPOSAL)
def withdraw_proposal(context: ChangeContext, request: Request, _body: None) -> Content:
    read, sender = context.transaction.all, request.sender
    found = _find_own(read, context.vault, request)
    if not is_author(read, context.actor, None if sender is None else sender.scope, found.data["author"]):
        raise Forbidden("only its author can withdraw a proposal")
    _close(context, request.identifier, EventKind.CHANGE_WITHDRAWN, "")
    return _find_own(read, context.vault, request)


def _find_own(read: ReadRows, vault: Vault, request: Request) -> Content:
    """The proposal. Raises RecordNotFound, also for a sender with a scope who is not its author."""
    found, sender = find(read, vault, COLLECTIONS["proposals"], request.identifier), request.sender
    if sender is None or sender.visible is None or is_author(read, sender.actor, sender.scope, found.data["author"]):
        return _shown(found, None if sender is None else sender.scope)
    raise RecordNotFound("proposal")


def _shown(proposal: Content, scope: Scope | None) -> Content:
    """Names of protections tell a credential with a scope about what others have."""
    return proposal if scope is None else proposal._replace(data=proposal.data | {"protections": []})


@handles(APPROVE_PROPOSAL)
async def approve_proposal(services: Services, request: Request) -> Change | OwnTransaction:
    return await _run_again(services, request.identifier, EventKind.CHANGE_APPLIED, "")


@handles(FORCE_PROPOSAL)
async def force_proposal(services: Services, request: Request) -> Change | OwnTransaction:
    asked: ProposalDecision = request.decode(ProposalDecision)
    return await _run_again(services, request.identifier, EventKind.CHANGE_FORCED, asked.reason)


async def _run_again(services: Services, proposal: str, kind: EventKind, reason: str) -> Change | OwnTransaction:
    waiting = await services.read(partial(_find_waiting, proposal=proposal))
    operation = BY_NAME[waiting.operation]
    headers = {b"content-type": b"application/json"}
    if waiting.if_match:
        headers[b"if-match"] = waiting.if_match.encode()
    call = Call(waiting.argument, headers, waiting.body, b"", None)
    outcome = await HANDLERS[operation.name](_for_author(services, waiting), Request(call, operation))
    assert not isinstance(outcome, Content)
    held_up = outcome.change if isinstance(outcome, OwnTransaction) else outcome

    def change(context: ChangeContext) -> Content:
        if kind is EventKind.CHANGE_APPLIED and not may_approve(context.transaction.all, context.actor, waiting.author):
            raise Forbidden(_BY_ANOTHER)
        _close(context, proposal, kind, reason)
        (row,) = context.transaction.all("SELECT plan FROM proposals WHERE id = :id", {"id": proposal})
        shown = msgspec.json.decode(row.plan, type=tuple[PlannedStep, ...])
        with context.transaction.within(waiting.scope):
            _make(context._replace(actor=waiting.author, guard=None), waiting, held_up, shown)
        return read_record(context, "proposals", proposal)

    return OwnTransaction(change, outcome.transact) if isinstance(outcome, OwnTransaction) else change


def _find_waiting(store: Store, proposal: str) -> _Waiting:
    shown = find(store.database.read, store.vault, COLLECTIONS["proposals"], proposal).data
    row = store.database.read("SELECT sealed_request FROM proposals WHERE id = :id", {"id": proposal})[0]
    if row.sealed_request is None:
        raise NotPossible(f"the proposal is {shown['state']}")
    try:
        return msgspec.msgpack.decode(store.vault.open(row.sealed_request, _place(proposal)), type=_Waiting)
    except Damaged as damage:
        raise NotPossible(str(damage)) from None


def _for_author(services: Services, waiting: _Waiting) -> Services:
    """An approval on the machine gives a remote author no more than an approval over HTTP."""
    author = copy(services)
    author.scope = waiting.scope
    if services.local_actor and not waiting.author.startswith("cli:"):
        author.local_actor, author.urls = "", urls_over_http(services.settings)
    return author


def _make(context: ChangeContext, waiting: _Waiting, held_up: Change, shown: Sequence[PlannedStep]) -> None:
    """Raises PlanChanged, which says what has changed."""
    transaction = context.transaction
    newest = transaction.chain_end[0]
    if replaced := _replaced(transaction, waiting, _referred_to(shown)):
        raise _plan_changed(replaced)
    try:
        held_up(context)
    except PlanChanged:
        raise
    except OutOfDate:
        record = BY_NAME[waiting.operation].path.split("/")[0][:-1], path_identifier(waiting.argument)
        raise _plan_changed(_changed_since(transaction, waiting, {record}), record) from None
    made = [_step(each) for each in _entries_since(transaction, newest)]
    others = [each or before for each, before in zip_longest(made, shown) if not _is_shown(each, before)]
    if others:
        raise _plan_changed([], *((each.kind, each.name) for each in others))


def _referred_to(steps: Sequence[PlannedStep]) -> set[Record]:
    """The records that relayers are to use: an approval is given for those that exist when the change is proposed."""
    kinds = {column: kind for kind, column in REFERRING_COLUMNS.items()}
    return {(kinds[each.name], each.after) for step in steps for each in step.fields if each.name in kinds}


def _replaced(transaction: Transaction, waiting: _Waiting, used: set[Record]) -> list[dict[str, str]]:
    """The changes since, after which a name that the proposal refers to may mean another record."""
    since = _changed_since(transaction, waiting, used)
    return [each for each in since if each["action"] not in _KEEP_MEANING]


def _changed_since(transaction: Transaction, waiting: _Waiting, records: set[Record]) -> list[dict[str, str]]:
    if not records:
        return []
    with transaction.within(None):
        since = changes_since(f"{waiting.newest}-", transaction.all)
    return [each for each in since if (each["action"].partition(".")[0], each["record"]) in records]


def _plan_changed(changes: list[dict[str, str]], *records: Record) -> PlanChanged:
    found = records or {(each["action"].partition(".")[0], each["record"]): None for each in changes}
    return PlanChanged(changes[:MOST_LISTED], [{"kind": kind, "name": name} for kind, name in found])


def _is_shown(made: PlannedStep | None, shown: PlannedStep | None) -> bool:
    """Whether it is the step that the proposal shows. Its row may be of another version, which knows fewer fields."""
    if made is None or shown is None or (made.action, made.kind) != (shown.action, shown.kind):
        return False
    now, before = (
        {each.name: [text if text != "unset" else "" for text in (each.before, each.after)] for each in step.fields}
        for step in (made, shown)
    )
    if made.action == "change":
        return now == before and made.name == shown.name
    # One that is created without an id gets another one than the proposal shows.
    return before.items() <= now.items() and (made.action == "create" or made.name == shown.name)


def _close(context: ChangeContext, proposal: str, kind: EventKind, reason: str) -> None:
    """Raises RecordNotFound; NotPossible unless the proposal is open."""
    read_record(context, "proposals", proposal)
    row = context.transaction.all(
        "SELECT state, expires_at, operation, author, protections FROM proposals WHERE id = :id", {"id": proposal}
    )[0]
    if row.state != "open" or row.expires_at <= context.now:
        raise NotPossible(f"the proposal is {'expired' if row.state == 'open' else row.state}")
    context.transaction.erases_secrets = True
    context.transaction.execute(
        "UPDATE proposals SET state = :state, sealed_request = NULL, decided_by = :actor, decided_at = :now,"
        " decision = :reason WHERE id = :id",
        {"state": _STATES[kind], "actor": context.actor, "now": context.now, "reason": reason, "id": proposal},
    )
    _record(context, kind, proposal, row._asdict(), reason)
