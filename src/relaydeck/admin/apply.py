"""`POST /admin/v1/apply` takes a whole apply document.

All changes of a document are made in one transaction, or none. Reading, planning and writing a large document takes
seconds, so all of it runs in a thread of its own and on connections of its own, never in the event loop, and other
requests, reads and changes, go on meanwhile. If another request changes a record of the plan, the document is planned
again.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from relaydeck.admin.apply_request import RequestedApply, expected_revision, read_apply
from relaydeck.admin.operation import Content, ContextOf, Operations, RepeatableChange, Request, encoded
from relaydeck.admin.plan_report import apply_report
from relaydeck.admin.store_thread import StoreThread
from relaydeck.bounded_toml import short_turns
from relaydeck.errors import MistakenDocument
from relaydeck.http.pipeline import Reply
from relaydeck.provisioning.apply import apply_prepared
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.plan_revision import require_same
from relaydeck.provisioning.prepared_plan import PreparedPlan
from relaydeck.provisioning.url_rules import UrlRules
from relaydeck.signers.key_access import KeyAccess
from relaydeck.signers.known_addresses import KnownAddresses, Questions, find_addresses
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows, Transaction
from relaydeck.store.open_store import Store


class ApplyOperation:
    def __init__(self, thread: StoreThread, access: KeyAccess, urls: UrlRules) -> None:
        """`thread` is one for applies alone."""
        self._thread = thread
        self._access = access
        self._urls = urls

    def operations(self) -> Operations:
        return {"apply": {"POST": self.apply}}

    async def apply(self, request: Request) -> Content | RepeatableChange:
        expected = expected_revision(request)
        asked, questions = await self._thread.run(lambda store: self._prepare(store, request))
        # Drivers are asked before the transaction, because a key system may take its time.
        addresses, planner = await find_addresses(self._access, questions), asked.planner
        if asked.plan_only:
            with _without_collections(request.is_large):
                return await self._thread.run(lambda store: _planned(store, planner, addresses, expected))
        applied = _Apply(planner, addresses, expected)

        async def transact(context_of: ContextOf, work: Callable[[ChangeContext], Reply]) -> Reply:
            def write(context: ChangeContext) -> Reply:
                reply = work(context)
                self._thread.require_answerable()
                return reply

            def run(store: Store) -> Reply:
                try:
                    return applied.run(store, context_of, write)
                finally:
                    planner.forget()

            return await self._thread.write(run)

        return RepeatableChange("apply", applied.change, transact)

    def _prepare(self, store: Store, request: Request) -> tuple[RequestedApply, Questions]:
        with short_turns(), _without_collections(request.is_large):
            asked = read_apply(request, self._urls)
        return asked, asked.planner.questions(store.database.read, store.vault, self._access.bound_types)


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


class _Apply:
    """One request. `change` makes the changes inside the work that `run` runs in the transaction."""

    def __init__(self, planner: FilePlanner, addresses: KnownAddresses, expected: str) -> None:
        self._planner = planner
        self._addresses = addresses
        self._expected = expected
        self._prepared: PreparedPlan | MistakenDocument

    def run(self, store: Store, context_of: ContextOf, work: Callable[[ChangeContext], Reply]) -> Reply:
        def prepare(read: ReadRows) -> PreparedPlan:
            plan = self._planner.sound_plan(read, store.vault, self._addresses)
            return PreparedPlan(self._planner, plan, read, store.vault)

        def write(prepared: PreparedPlan, context: ChangeContext) -> Reply:
            self._prepared = prepared
            return work(context)

        def context(transaction: Transaction) -> ChangeContext:
            return context_of(transaction, store.vault)

        try:
            return apply_prepared(store.database, prepare, context, write)
        except MistakenDocument as mistaken:
            self._prepared = mistaken
        # A request that is repeated gets its first answer instead.
        with store.database.transaction() as transaction:
            return work(context(transaction))

    def change(self, context: ChangeContext) -> Content:
        if isinstance(self._prepared, MistakenDocument):
            raise self._prepared
        require_same(self._prepared.plan, self._expected, context.transaction.all, context.vault.plan_key)
        self._prepared.write(context)
        return Content(encoded(apply_report(self._prepared.plan, applied=True)))


def _planned(store: Store, planner: FilePlanner, addresses: KnownAddresses, expected: str) -> Content:
    try:
        plan = planner.reviewed_plan(store.database.read, store.vault, addresses, expected)
    finally:
        planner.forget()
    return Content(encoded(apply_report(plan, applied=False)), etag=f'"{plan.revision}"')
