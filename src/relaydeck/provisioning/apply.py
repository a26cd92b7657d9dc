"""Applies a plan: every step in one transaction, or none."""

from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.mistakes import MistakenFile
from relaydeck.provisioning.plan import Plan
from relaydeck.provisioning.plan_revision import require_same
from relaydeck.provisioning.steps import Progress, take_steps
from relaydeck.signers.known_addresses import KeySource, KnownAddresses
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.open_store import Store

_UNCHANGED = "Nothing was changed."
_NO_KEYS = KeySource()


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
        return self._plan_and_revision("")[0]

    def apply(self, *, now: int, actor: str = "apply", progress: Progress = iter, expected: str = "") -> Plan:
        """Plan and apply. Writes nothing if nothing differs. Raises MistakenFile or PlanChanged, with nothing changed.

        `expected` is the revision of a plan that was reviewed: another plan is not applied.
        """
        plan, seen = self._plan_and_revision(_UNCHANGED)
        if not plan.steps:
            require_same(plan, expected, self._store.database.read)
            return plan
        with self._store.database.transaction() as transaction:
            if transaction.revision != seen + 1:
                # Another process has written since: plan again.
                plan = self._planner.plan(transaction.all, self._store.vault, self._addresses)
                self._require_no_mistakes(plan, _UNCHANGED)
            require_same(plan, expected, transaction.all)
            take_steps(plan, ChangeContext(transaction, AuditLog(self._store.vault), actor, now), progress)
        return plan

    def _ask_keys(self) -> None:
        """Before any transaction, because a key system may take its time."""
        database = self._store.database
        with database.snapshot():
            questions = self._planner.questions(database.read, self._store.vault, self._keys.bound_types)
        self._addresses = self._keys.addresses(questions)

    def _plan_and_revision(self, remedy: str) -> tuple[Plan, int]:
        self._ask_keys()
        database = self._store.database
        with database.snapshot():
            revision: int = database.read("SELECT revision FROM clock")[0].revision
            plan = self._planner.plan(database.read, self._store.vault, self._addresses)
        self._require_no_mistakes(plan, remedy)
        return plan, revision

    def _require_no_mistakes(self, plan: Plan, remedy: str) -> None:
        if plan.mistakes:
            raise MistakenFile(self._file_name, plan.mistakes, remedy)
