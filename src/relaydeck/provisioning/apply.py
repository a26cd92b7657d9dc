"""Applies a plan: every step in one transaction, or none."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.mistakes import MistakenFile
from relaydeck.provisioning.plan import Plan
from relaydeck.provisioning.plan_revision import require_same
from relaydeck.provisioning.prepared_plan import PreparedPlan, Progress
from relaydeck.signers.known_addresses import KeySource, KnownAddresses
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows
from relaydeck.store.open_store import Store

_UNCHANGED = "Nothing was changed."
_NO_KEYS = KeySource()
_ATTEMPTS = 3  # to prepare a plan that is still valid when its transaction starts


class _Outdated(Exception):
    """Rolls back the transaction of a plan that is no longer valid."""


class Provisioner:
    """Plans a file against a store, and applies it."""

    def __init__(self, store: Store, planner: FilePlanner, *, file_name: str, keys: KeySource = _NO_KEYS) -> None:
        self._store = store
        self._planner = planner
        self._file_name = file_name
        self._keys = keys
        self._addresses = KnownAddresses(keys.bound_types)

    def plan(self) -> Plan:
        """The plan for the store as it is now. Locks and writes nothing. Raises MistakenFile."""
        self._ask_keys()
        with self._store.database.snapshot():
            return self._plan(self._store.database.read, "")

    def apply(self, *, now: int, actor: str = "apply", progress: Progress = iter, expected: str = "") -> Plan:
        """Plan and apply. Writes nothing if nothing differs. Raises MistakenFile or PlanChanged, with nothing changed.

        `expected` is the revision of a plan that was reviewed: another plan is not applied.
        """
        self._ask_keys()
        database = self._store.database
        for _ in range(_ATTEMPTS):
            with database.snapshot():
                prepared = self._prepare(database.read, progress)
            if not prepared.plan.steps:
                require_same(prepared.plan, expected, database.read)
                return prepared.plan
            with suppress(_Outdated), self._change(actor, now) as context:
                if not prepared.is_valid(context.transaction):
                    raise _Outdated
                return _written(prepared, context, expected)
        # Others keep changing the same records: plan and prepare while they wait.
        with self._change(actor, now) as context:
            return _written(self._prepare(context.transaction.all, progress), context, expected)

    @contextmanager
    def _change(self, actor: str, now: int) -> Iterator[ChangeContext]:
        with self._store.database.transaction() as transaction:
            yield ChangeContext(transaction, AuditLog(self._store.vault), actor, now)

    def _prepare(self, read: ReadRows, progress: Progress) -> PreparedPlan:
        return PreparedPlan(self._planner, self._plan(read, _UNCHANGED), read, self._store.vault, progress)

    def _ask_keys(self) -> None:
        """Before any transaction, because a key system may take its time."""
        database = self._store.database
        with database.snapshot():
            questions = self._planner.questions(database.read, self._store.vault, self._keys.bound_types)
        self._addresses = self._keys.addresses(questions)

    def _plan(self, read: ReadRows, remedy: str) -> Plan:
        plan = self._planner.plan(read, self._store.vault, self._addresses)
        if plan.mistakes:
            raise MistakenFile(self._file_name, plan.mistakes, remedy)
        return plan


def _written(prepared: PreparedPlan, context: ChangeContext, expected: str) -> Plan:
    require_same(prepared.plan, expected, context.transaction.all)
    prepared.write(context)
    return prepared.plan
