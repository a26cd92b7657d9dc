"""Applies a plan: every step in one transaction, or none."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from relaydeck.errors import PlanChanged
from relaydeck.provisioning.file import ReadFile
from relaydeck.provisioning.mistakes import MistakenFile
from relaydeck.provisioning.plan import Plan, Step
from relaydeck.provisioning.plan_revision import changes_since, differs, plan_revision
from relaydeck.provisioning.planner import key_questions, make_plan
from relaydeck.provisioning.steps import take_step
from relaydeck.provisioning.stored import ORIGIN, Stored
from relaydeck.signers.key_answers import Answers, Questions
from relaydeck.signers.known_addresses import KnownAddresses
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows
from relaydeck.store.open_store import Store
from relaydeck.store.vault import Vault

Progress = Callable[[list[Step]], Iterable[Step]]
_UNCHANGED = "Nothing was changed."
_MOST_LISTED = 50


class KeySource(NamedTuple):
    """The signer types that have a driver, and how to ask the drivers for addresses."""

    bound_types: frozenset[str] = frozenset()
    ask: Callable[[Questions], Answers] = lambda questions: {}


_NO_KEYS = KeySource()


class FilePlanner(NamedTuple):
    """Plans a file, inside one snapshot or one transaction."""

    file: ReadFile
    prune: bool

    def questions(self, read: ReadRows, vault: Vault, bound_types: frozenset[str]) -> Questions:
        """What drivers have to be asked before `plan`."""
        return key_questions(self.file.declared, Stored(read, vault), bound_types)

    def plan(self, read: ReadRows, vault: Vault, addresses: KnownAddresses) -> Plan:
        """With every mistake of the file."""
        plan = make_plan(self.file.declared, Stored(read, vault), addresses, prune=self.prune)
        plan.mistakes = self.file.mistakes + plan.mistakes
        plan.revision = plan_revision(plan, read)
        return plan


def require_same(plan: Plan, expected: str, read: ReadRows) -> None:
    """Raises PlanChanged when this is not the plan with the expected revision. Empty: any plan will do."""
    if not expected:
        return
    changes = changes_since(expected, read)
    if differs(plan, expected, changes):
        raise PlanChanged([each._asdict() for each in changes[:_MOST_LISTED]])


def take_steps(plan: Plan, context: ChangeContext, progress: Progress = iter) -> None:
    for step in progress(plan.steps):
        take_step(step, context)


class Provisioner:
    """Plans a file against a store, and applies it."""

    def __init__(
        self, store: Store, file: ReadFile, *, file_name: str, prune: bool, keys: KeySource = _NO_KEYS
    ) -> None:
        self._store = store
        self._planner = FilePlanner(file, prune)
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
                plan = self._checked_plan(transaction.all, _UNCHANGED)
            require_same(plan, expected, transaction.all)
            take_steps(plan, ChangeContext(transaction, AuditLog(self._store.vault), actor, now, ORIGIN), progress)
        return plan

    def _ask_keys(self) -> None:
        """Before any transaction, because a key system may take its time."""
        database = self._store.database
        with database.snapshot():
            questions = self._planner.questions(database.read, self._store.vault, self._keys.bound_types)
        self._addresses = KnownAddresses(self._keys.bound_types, self._keys.ask(questions))

    def _plan_and_revision(self, remedy: str) -> tuple[Plan, int]:
        self._ask_keys()
        database = self._store.database
        with database.snapshot():
            revision: int = database.read("SELECT revision FROM clock")[0].revision
            return self._checked_plan(database.read, remedy), revision

    def _checked_plan(self, read: ReadRows, remedy: str) -> Plan:
        plan = self._planner.plan(read, self._store.vault, self._addresses)
        if plan.mistakes:
            raise MistakenFile(self._file_name, plan.mistakes, remedy)
        return plan
