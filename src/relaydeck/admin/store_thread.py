"""What handlers use in a worker: threads with stores of their own, so that no search and no apply delays `/api/v1`."""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import TypeVar

from relaydeck.doctor import Finding
from relaydeck.doctor.all_checks import examine
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.errors import OperatorError, StoreTrouble
from relaydeck.fees.estimator import Estimator
from relaydeck.networks.node_rule import NodeRule
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.process.background import SideThreads
from relaydeck.provisioning.planner import UrlRules
from relaydeck.scope import Scope, Visible
from relaydeck.settings.model import Settings
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.store.open_store import Store, open_served_store

Result = TypeVar("Result")
_UNREACHABLE = "the database is unreachable"


class StoreThread:
    """The first use opens the store."""

    def __init__(self, settings: Settings, name: str = "admin-reads") -> None:
        self._settings = settings
        self._thread = SideThreads(1, name)
        self._store: Store | None = None
        self._suspended = False

    async def run(self, work: Callable[[Store], Result], visible: Visible | None = None) -> Result:
        """Run `work` on a snapshot that includes every acknowledged write. Raises StoreError."""
        return await self.write(partial(_in_snapshot, work, visible))

    async def write(self, work: Callable[[Store], Result]) -> Result:
        """Run `work`, which makes its own transaction and calls `require_answerable` before its commit."""
        if self._suspended:
            raise StoreTrouble(_UNREACHABLE)
        return await self._thread.run(partial(self._on_store, work))

    def require_answerable(self) -> None:
        """Right before a commit, in its thread. Raises StoreTrouble when `suspend` has failed the write.

        From here on `suspend` does not fail it: it is answered by what the commit does, in a bounded time.
        """
        if not self._thread.decide():
            raise StoreTrouble(_UNREACHABLE)

    def _on_store(self, work: Callable[[Store], Result]) -> Result:
        if self._store is None:
            try:
                self._store = open_served_store(self._settings)
            except OperatorError as error:
                raise StoreTrouble(error.problem) from None
        return work(self._store)

    def suspend(self) -> None:
        """Fail everything until `resume`: the database is unreachable."""
        self._suspended = True
        self._thread.give_up(StoreTrouble(_UNREACHABLE))
        if self._store is not None:
            self._store.database.suspend()

    def resume(self) -> None:
        self._suspended = False
        if self._store is not None:
            self._store.database.resume()

    def close(self) -> None:
        ended = self._thread.end()
        if self._store is not None:
            self._store.close() if ended else self._store.database.suspend()


def _in_snapshot(work: Callable[[Store], Result], visible: Visible | None, store: Store) -> Result:
    with store.database.snapshot(), store.database.within(visible):
        return work(store)


def urls_over_http(settings: Settings) -> UrlRules:
    nodes = NodeRule(settings.rpc_allowed_over_http)
    return UrlRules(nodes, marks_nodes=True, webhooks=WebhookRule(settings.webhook_allow))


class ServedServices:
    """`estimator` makes estimates and has their nodes, `keys` reaches those of signers."""

    local_actor = ""
    progress = staticmethod(iter)  # of an apply: nobody watches it
    scope: Scope | None = None  # of the credential that sends the request

    def __init__(self, settings: Settings, estimator: Estimator, keys: SignerKeys) -> None:
        self.settings = settings
        self.estimator = estimator
        self.keys = keys
        self.urls = urls_over_http(settings)
        self._reads = StoreThread(settings)
        self.applies = StoreThread(settings, "admin-applies")  # a large one takes a minute, and reads go on
        self.read = self._reads.run
        self.examination = SharedRun(partial(examine, settings), "doctor")

    def within(self, visible: Visible | None) -> "ServedServices":
        """The same for a credential that does not see everything."""
        if visible is None:
            return self
        scoped = copy(self)
        scoped.scope = visible if isinstance(visible, Scope) else visible.scope
        scoped.read = partial(self._reads.run, visible=visible)
        return scoped

    async def examine(self) -> list[Finding]:
        return await self.examination.result()

    def suspend(self) -> None:
        """Fail everything until `resume`: the database is unreachable."""
        self._reads.suspend()
        self.applies.suspend()

    def resume(self) -> None:
        self._reads.resume()
        self.applies.resume()

    def close(self) -> None:
        self.examination.close()
        self.applies.close()
        self._reads.close()
