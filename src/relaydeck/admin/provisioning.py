"""`POST /admin/v1/apply` takes a whole apply document; `GET /admin/v1/export` returns one.

All changes of a document are made in one transaction, or none. Reading and planning a large document takes seconds, so
it runs in the thread of reads and in that of the writer, never in the event loop.
"""

from typing import NamedTuple

import msgspec

from relaydeck.admin.bodies import ApplyRequest, ExportedFile
from relaydeck.admin.plan_report import apply_report
from relaydeck.admin.read_pool import ReadPool
from relaydeck.admin.responses import ChangeRunner, Content, if_match_of, refuse_deep, reply
from relaydeck.admin.routes import Methods
from relaydeck.errors import BadRequest, Damaged, MistakenDocument, NotPossible
from relaydeck.http.decoding import body_decoder
from relaydeck.http.pipeline import Call, Reply
from relaydeck.provisioning.export import export_pieces
from relaydeck.provisioning.file import read_parsed
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.plan import Plan
from relaydeck.provisioning.plan_revision import is_revision, require_same
from relaydeck.provisioning.references import GivenReferences, Reference
from relaydeck.provisioning.steps import take_steps
from relaydeck.secret import Secret
from relaydeck.signers.key_access import KeyAccess
from relaydeck.signers.known_addresses import KnownAddresses, Questions, find_addresses
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows
from relaydeck.store.open_store import Store
from relaydeck.store.vault import Vault

_decode = body_decoder(ApplyRequest)


class _Prepared(NamedTuple):
    planner: FilePlanner
    plan_only: bool
    questions: Questions


class ProvisioningOperations:
    def __init__(self, read_pool: ReadPool, changes: ChangeRunner, access: KeyAccess) -> None:
        self._read_pool = read_pool
        self._changes = changes
        self._access = access

    def routes(self) -> dict[str, Methods]:
        return {"apply": {"POST": self.apply}, "export": {"GET": self.export}}

    async def apply(self, call: Call) -> Reply:
        expected = _expected_revision(call)
        prepared = await self._read_pool.run(lambda store: self._prepare(store, call))
        addresses = await find_addresses(self._access, prepared.questions)
        planner = prepared.planner
        if prepared.plan_only:
            return await self._read_pool.run(lambda store: _planned(store, planner, addresses, expected))

        def work(context: ChangeContext) -> Content:
            read = context.transaction.all
            plan = _checked_plan(planner, read, context.vault, addresses)
            require_same(plan, expected, read)
            take_steps(plan, context)
            return Content(apply_report(plan, applied=True))

        return await self._changes.run_once(call, "apply", work)

    def _prepare(self, store: Store, call: Call) -> _Prepared:
        asked: ApplyRequest = _decode(call.headers, call.body)
        refuse_deep(asked.document)
        planner = FilePlanner(read_parsed(asked.document, GivenReferences(_references(asked))), asked.prune)
        questions = planner.questions(store.database.read, store.vault, self._access.bound_types)
        return _Prepared(planner, asked.plan_only, questions)

    async def export(self, call: Call) -> Reply:
        return await self._read_pool.run(_exported)


def _expected_revision(call: Call) -> str:
    """Of the plan to apply; empty: any plan. Raises BadRequest."""
    expected = (if_match_of(call) or "").strip().strip('"')
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


def _checked_plan(planner: FilePlanner, read: ReadRows, vault: Vault, addresses: KnownAddresses) -> Plan:
    plan = planner.plan(read, vault, addresses)
    if plan.mistakes:
        raise MistakenDocument([each._asdict() for each in plan.mistakes])
    return plan


def _planned(store: Store, planner: FilePlanner, addresses: KnownAddresses, expected: str) -> Reply:
    plan = _checked_plan(planner, store.database.read, store.vault, addresses)
    require_same(plan, expected, store.database.read)
    return reply(Content(apply_report(plan, applied=False), etag=f'"{plan.revision}"'))


def _exported(store: Store) -> Reply:
    try:
        return reply(Content(ExportedFile("".join(export_pieces(store)))))
    except Damaged as damage:
        raise NotPossible(f"{damage}; the export would not be complete") from None
