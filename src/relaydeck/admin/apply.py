"""`POST /admin/v1/apply` takes a whole apply document.

All changes of a document are made in one transaction, or none. Reading and planning a large document takes seconds, so
it runs in the thread of reads and in that of the writer, never in the event loop.
"""

from relaydeck.admin.apply_request import RequestedApply, expected_revision, read_apply
from relaydeck.admin.operation import Content, Operations, RepeatableChange, Request, encoded
from relaydeck.admin.plan_report import apply_report
from relaydeck.admin.read_pool import ReadPool
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.steps import take_steps
from relaydeck.signers.key_access import KeyAccess
from relaydeck.signers.known_addresses import KnownAddresses, Questions, find_addresses
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.open_store import Store


class ApplyOperation:
    def __init__(self, read_pool: ReadPool, access: KeyAccess) -> None:
        self._read_pool = read_pool
        self._access = access

    def operations(self) -> Operations:
        return {"apply": {"POST": self.apply}}

    async def apply(self, request: Request) -> Content | RepeatableChange:
        expected = expected_revision(request)
        asked, questions = await self._read_pool.run(lambda store: self._prepare(store, request))
        # Drivers are asked before the transaction, because a key system may take its time.
        addresses, planner = await find_addresses(self._access, questions), asked.planner
        if asked.plan_only:
            return await self._read_pool.run(lambda store: _planned(store, planner, addresses, expected))

        def work(context: ChangeContext) -> Content:
            plan = planner.reviewed_plan(context.transaction.all, context.vault, addresses, expected)
            take_steps(plan, context)
            return Content(apply_report(plan, applied=True))

        return RepeatableChange("apply", work)

    def _prepare(self, store: Store, request: Request) -> tuple[RequestedApply, Questions]:
        asked = read_apply(request)
        return asked, asked.planner.questions(store.database.read, store.vault, self._access.bound_types)


def _planned(store: Store, planner: FilePlanner, addresses: KnownAddresses, expected: str) -> Content:
    plan = planner.reviewed_plan(store.database.read, store.vault, addresses, expected)
    return Content(encoded(apply_report(plan, applied=False)), etag=f'"{plan.revision}"')
