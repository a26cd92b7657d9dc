"""Applies a plan: every step in one transaction, or none."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from relaydeck.errors import NotPossible, StoreConflict
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.mistakes import MistakenFile
from relaydeck.provisioning.plan import Plan
from relaydeck.provisioning.plan_revision import require_same
from relaydeck.provisioning.prepared_plan import ContextOf, PreparedPlan, Progress
from relaydeck.signers.known_addresses import KeySource, KnownAddresses
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Database, ReadRows, Transaction
from relaydeck.store.open_store import Store

Result = TypeVar("Result")
_UNCHANGED = "Nothing was changed."
_NO_KEYS = KeySource()
_ATTEMPTS = 3  # to prepare a plan that is still valid when its transaction starts


class _Outdated(Exception):
    """Rolls back the transaction of a plan that is no longer valid."""


class _NotNeeded(Exception):
    """Rolls back what was written early of a plan: the work did not write the plan."""


class _Unchanged(Exception):
    """Ends an apply that has nothing to change."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan


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
        return self._plan_now("")

    def rehearse(self, expected: str = "") -> Plan:
        """The plan that `apply` would make. Locks and writes nothing, and raises what `apply` would raise."""
        return self._plan_now(_UNCHANGED, expected)

    def apply(self, *, now: int, actor: str = "apply", progress: Progress = iter, expected: str = "") -> Plan:
        """Plan and apply. Writes nothing if nothing differs. Raises MistakenFile or PlanChanged, with nothing changed.

        `expected` is the revision of a plan that was reviewed: another plan is not applied.
        """
        self._ask_keys()
        key = self._store.vault.plan_key

        def prepare(read: ReadRows) -> PreparedPlan:
            prepared = PreparedPlan(self._planner, self._plan(read, _UNCHANGED), read, self._store.vault, progress)
            if not prepared.plan.steps:
                require_same(prepared.plan, expected, read, key)
                raise _Unchanged(prepared.plan)
            return prepared

        def write(prepared: PreparedPlan, context: ChangeContext) -> Plan:
            require_same(prepared.plan, expected, context.transaction.all, key)
            prepared.write(context)
            return prepared.plan

        try:
            return apply_prepared(self._store.database, prepare, partial(self._context, actor, now), write)
        except _Unchanged as unchanged:
            return unchanged.plan

    def _context(self, actor: str, now: int, transaction: Transaction) -> ChangeContext:
        return ChangeContext(transaction, AuditLog(self._store.vault), actor, now)

    def _ask_keys(self) -> None:
        """Before any transaction, because a key system may take its time."""
        database = self._store.database
        with database.snapshot():
            questions = self._planner.questions(database.read, self._store.vault, self._keys.bound_types)
        self._addresses = self._keys.addresses(questions)

    def _plan_now(self, remedy: str, expected: str = "") -> Plan:
        self._ask_keys()
        with self._store.database.snapshot():
            plan = self._plan(self._store.database.read, remedy)
            require_same(plan, expected, self._store.database.read, self._store.vault.plan_key)
            return plan

    def _plan(self, read: ReadRows, remedy: str) -> Plan:
        plan = self._planner.plan(read, self._store.vault, self._addresses)
        if plan.mistakes:
            raise MistakenFile(self._file_name, plan.mistakes, remedy)
        return plan


def apply_prepared(
    database: Database,
    prepare: Callable[[ReadRows], PreparedPlan],
    context_of: ContextOf,
    write: Callable[[PreparedPlan, ChangeContext], Result],
) -> Result:
    """Prepare a plan and write it, again when others have changed a record of it meanwhile. Raises NotPossible."""
    for attempt in range(1, _ATTEMPTS + 1):
        with database.snapshot():
            prepared = prepare(database.read)
        prepared.removes_early = attempt < _ATTEMPTS
        try:
            with suppress(_Outdated, StoreConflict), prepared.transaction(database, context_of) as transaction:
                if not prepared.is_valid(transaction):
                    raise _Outdated
                result = write(prepared, context_of(transaction))
                if prepared.is_unfinished:
                    raise _NotNeeded
                return result
        except _NotNeeded:  # a repeated request, which gets its first answer
            with database.transaction() as transaction:
                return write(prepared, context_of(transaction))
    if prepared.is_large:
        raise NotPossible("others keep changing the same records: nothing was changed, try again")
    # Plan and prepare while the others wait.
    with database.transaction() as transaction:
        return write(prepare(transaction.all), context_of(transaction))
