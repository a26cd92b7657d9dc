"""`POST /admin/v1/apply` takes a whole apply document.

All changes of a document are made in one transaction, or none. Reading and planning a large document takes seconds, so
it runs in the thread of reads, never in the event loop, and not in the transaction, for which other writes wait. Only
if another request has changed a record of the plan since, the transaction plans again.
"""

from relaydeck.admin.apply_request import RequestedApply, expected_revision, read_apply
from relaydeck.admin.operation import Content, Operations, RepeatableChange, Request, encoded
from relaydeck.admin.plan_report import apply_report
from relaydeck.admin.read_pool import ReadPool
from relaydeck.errors import MistakenDocument
from relaydeck.networks.node_rule import NodeRule
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.plan_revision import require_same
from relaydeck.provisioning.prepared_plan import PreparedPlan
from relaydeck.signers.key_access import KeyAccess
from relaydeck.signers.known_addresses import KnownAddresses, Questions, find_addresses
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows
from relaydeck.store.open_store import Store
from relaydeck.store.vault import Vault


class ApplyOperation:
    def __init__(self, read_pool: ReadPool, access: KeyAccess, nodes: NodeRule) -> None:
        self._read_pool = read_pool
        self._access = access
        self._nodes = nodes

    def operations(self) -> Operations:
        return {"apply": {"POST": self.apply}}

    async def apply(self, request: Request) -> Content | RepeatableChange:
        expected = expected_revision(request)
        asked, questions = await self._read_pool.run(lambda store: self._prepare(store, request))
        # Drivers are asked before the transaction, because a key system may take its time.
        addresses, planner = await find_addresses(self._access, questions), asked.planner
        if asked.plan_only:
            return await self._read_pool.run(lambda store: _planned(store, planner, addresses, expected))
        prepared = await self._read_pool.run(lambda store: _prepared_early(store, planner, addresses))

        def work(context: ChangeContext) -> Content:
            if isinstance(prepared, MistakenDocument):
                raise prepared  # here, because a request that is repeated gets its first answer instead
            current = prepared
            if not prepared.is_valid(context.transaction):
                current = _prepared(context.transaction.all, context.vault, planner, addresses)
            require_same(current.plan, expected, context.transaction.all)
            current.write(context)
            return Content(apply_report(current.plan, applied=True))

        return RepeatableChange("apply", work)

    def _prepare(self, store: Store, request: Request) -> tuple[RequestedApply, Questions]:
        asked = read_apply(request, self._nodes)
        return asked, asked.planner.questions(store.database.read, store.vault, self._access.bound_types)


def _prepared_early(store: Store, planner: FilePlanner, addresses: KnownAddresses) -> PreparedPlan | MistakenDocument:
    try:
        return _prepared(store.database.read, store.vault, planner, addresses)
    except MistakenDocument as mistaken:
        return mistaken


def _prepared(read: ReadRows, vault: Vault, planner: FilePlanner, addresses: KnownAddresses) -> PreparedPlan:
    """In a snapshot, or in the transaction. Raises MistakenDocument."""
    return PreparedPlan(planner, planner.sound_plan(read, vault, addresses), read, vault)


def _planned(store: Store, planner: FilePlanner, addresses: KnownAddresses, expected: str) -> Content:
    plan = planner.reviewed_plan(store.database.read, store.vault, addresses, expected)
    return Content(encoded(apply_report(plan, applied=False)), etag=f'"{plan.revision}"')
