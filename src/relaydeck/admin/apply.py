"""`POST /admin/v1/apply` takes a whole apply document.

All changes of a document are made in one transaction, or none. Reading, planning and writing a large document takes
seconds, so all of it runs in a thread of its own and on connections of its own, never in the event loop, and other
requests, reads and changes, go on meanwhile. If another request changes a record of the plan, the document is planned
again.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from relaydeck.admin.documents import refuse_deep, release
from relaydeck.admin.handling import Content, OwnTransaction, Request, Services, Work, encoded, handles
from relaydeck.admin.store_thread import ServedServices, StoreThread
from relaydeck.api.operations import APPLY, EXPORT
from relaydeck.api.records import ApplyReport, ApplyRequest, ExportedFile, PlannedField, PlannedStep
from relaydeck.bounded_toml import short_turns
from relaydeck.errors import BadRequest, Damaged, MistakenDocument, NotPossible, PlanChanged, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.provisioning.apply import Apply
from relaydeck.provisioning.export import export_pieces
from relaydeck.provisioning.file import read_parsed
from relaydeck.provisioning.plan import Plan, Step
from relaydeck.provisioning.plan_revision import is_revision
from relaydeck.provisioning.references import Reference
from relaydeck.secret import Secret
from relaydeck.signers.known_addresses import Questions, find_addresses
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store

_NOT_GIVEN = "has no value in the references of the request"


def apply_report(plan: Plan, *, applied: bool) -> ApplyReport:
    # The next plan generates other ids: before they are stored, a name says more.
    by_name = set() if applied else plan.generated_ids
    return ApplyReport(applied, plan.revision, tuple(_step(each, by_name) for each in plan.steps), tuple(plan.notes))


def _step(step: Step, by_name: set[str]) -> PlannedStep:
    name = step.title if step.name in by_name else step.name
    title = "" if step.action == "create" else step.title
    return PlannedStep(step.action, step.resource[:-1], name, tuple(PlannedField(*each) for each in step.fields), title)


@handles(EXPORT)
async def export(services: Services, request: Request) -> Content:
    return await services.read(lambda store: _exported(store, **request.query))


def _exported(store: Store, resource: str = "", record: str = "") -> Content:
    try:
        return Content(encoded(ExportedFile("".join(export_pieces(store, resource, record)))))
    except Damaged as damage:
        raise NotPossible(f"{damage}; the export would not be complete") from None


def _expected_revision(request: Request) -> str:
    """Of the plan to apply; empty: any plan. Raises BadRequest."""
    expected = (request.if_match or "").strip().strip('"')
    if expected and not is_revision(expected):
        raise BadRequest("If-Match must be the revision of a plan")
    return expected


def _references(asked: ApplyRequest) -> dict[Reference, Secret | str]:
    found: dict[Reference, Secret | str] = {}
    for each in asked.references:
        if (each.value is msgspec.UNSET) == (each.missing is msgspec.UNSET):
            raise BadRequest("each of references must have either value or missing")
        found[Reference(each.kind, each.name)] = each.missing if each.value is msgspec.UNSET else each.value  # type: ignore[assignment]
    return found


@handles(APPLY)
async def apply(services: ServedServices, request: Request) -> Content | OwnTransaction:
    expected, thread = _expected_revision(request), services.applies
    prepare = partial(_prepare, request=request, services=services, expected=expected)
    asked, plan_only, questions = await thread.run(prepare, services.scope)
    # Drivers are asked before the transaction, because a key system may take its time.
    if request.addresses is None:
        request.addresses = await find_addresses(services.keys, questions, locally=bool(services.local_actor))
    asked.addresses = request.addresses
    if plan_only:
        with _without_collections(request.is_large):
            return await thread.run(lambda _store: _planned(asked), services.scope)
    applied = _RequestedChange(thread, asked)
    if not request.has_stored_answer:
        applied.unchanged = applied.content
    return OwnTransaction(applied.change, applied.transact)


def _prepare(store: Store, request: Request, services: ServedServices, expected: str) -> tuple[Apply, bool, Questions]:
    """Takes seconds for a large document. Raises BadRequest."""
    with short_turns(), _without_collections(request.is_large):
        asked = request.decode_apply()
        refuse_deep(asked.document)
        references = _references(asked)
        file = read_parsed(asked.document, lambda each: references.get(each, _NOT_GIVEN))
        release(asked.document)
    prepared = Apply(store, file, asked.prune, services.urls, services.scope, expected, services.progress)
    return prepared, asked.plan_only, prepared.questions(services.keys.bound_types)


@contextmanager
def _without_collections(is_large: bool) -> Iterator[None]:
    """A collection looks at every object of a large document, and stops all other threads meanwhile."""
    if not is_large:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # what is left of the document is freed without a collection
        gc.enable()


class _RequestedChange:
    """One request. `AdminApi.run` calls `transact`, which calls its work in the transaction of the apply.

    The work calls `change`, unless the request is a repeated one: that gets its first answer, whatever the document
    would do now. So a refusal of the document is raised by `change` too.
    """

    def __init__(self, thread: StoreThread, asked: Apply) -> None:
        self._thread = thread
        self._apply = asked
        self.unchanged: Callable[[], Any] | None = None  # what answers in place of a transaction without changes
        self._refusal: RequestError | None = None

    async def transact(self, work: Work) -> Reply:
        return await self._thread.write(lambda store: self._run(store, work))

    def _run(self, store: Store, work: Work) -> Reply:
        def in_transaction(transaction: Transaction) -> Reply:
            reply = work(transaction, store.vault)
            self._thread.require_answerable()
            return reply

        try:
            with store.database.within(self._apply.scope):
                reply: Reply = self._apply.run(in_transaction, self.unchanged)
                return reply
        except (MistakenDocument, PlanChanged) as refusal:
            self._refusal = refusal
            with store.database.transaction() as transaction:
                return in_transaction(transaction)
        finally:
            self._refusal = None  # its traceback refers to this object: a cycle would stay, with its secrets
            self._apply.forget()

    def change(self, context: ChangeContext) -> Content:
        if self._refusal is not None:
            raise self._refusal
        self._apply.write(context)
        return self.content()

    def content(self) -> Content:
        plan = self._apply.plan
        return Content(encoded(apply_report(plan, applied=True)), changed=bool(plan.steps))


def _planned(asked: Apply) -> Content:
    try:
        plan = asked.make_plan()
    finally:
        asked.forget()
    return Content(encoded(apply_report(plan, applied=False)), etag=f'"{plan.revision}"')
