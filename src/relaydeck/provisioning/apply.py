"""Applies a plan: every step in one transaction, or none."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from relaydeck.provisioning.file import ReadFile
from relaydeck.provisioning.mistakes import MistakenFile
from relaydeck.provisioning.plan import Plan, Step
from relaydeck.provisioning.planner import key_questions, make_plan
from relaydeck.provisioning.steps import take_step
from relaydeck.provisioning.stored import ORIGIN, ReadRows, Stored
from relaydeck.signers.key_answers import Answers, Questions
from relaydeck.signers.known_addresses import KnownAddresses
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.open_store import Store

Progress = Callable[[list[Step]], Iterable[Step]]
_UNCHANGED = "Nothing was changed."


class KeySource(NamedTuple):
    """The signer types that have a driver, and how to ask the drivers for addresses."""

    bound_types: frozenset[str] = frozenset()
    ask: Callable[[Questions], Answers] = lambda questions: {}


_NO_KEYS = KeySource()


class Provisioner:
    """Plans a file against a store, and applies it."""

    def __init__(
        self, store: Store, file: ReadFile, *, file_name: str, prune: bool, keys: KeySource = _NO_KEYS
    ) -> None:
        self._store = store
        self._file = file
        self._file_name = file_name
        self._prune = prune
        self._keys = keys
        self._addresses = KnownAddresses(keys.bound_types)

    def plan(self) -> Plan:
        """The plan for the store as it is now. Locks and writes nothing. Raises MistakenFile."""
        return self._plan_and_revision("")[0]

    def apply(self, *, now: int, actor: str = "apply", progress: Progress = iter) -> Plan:
        """Plan and apply. Writes nothing if nothing differs. Raises MistakenFile, with nothing changed."""
        plan, seen = self._plan_and_revision(_UNCHANGED)
        if not plan.steps:
            return plan
        with self._store.database.transaction() as transaction:
            if transaction.revision != seen + 1:
                # Another process has written since: plan again.
                plan = self._checked_plan(transaction.all, _UNCHANGED)
            context = ChangeContext(transaction, AuditLog(self._store.vault), actor, now, ORIGIN)
            for step in progress(plan.steps):
                take_step(step, context)
        return plan

    def _ask_keys(self) -> None:
        """Before any transaction, because a key system may take its time."""
        database = self._store.database
        with database.snapshot():
            stored = Stored(database.read, self._store.vault)
            questions = key_questions(self._file.declared, stored, self._keys.bound_types)
        self._addresses = KnownAddresses(self._keys.bound_types, self._keys.ask(questions))

    def _plan_and_revision(self, remedy: str) -> tuple[Plan, int]:
        self._ask_keys()
        database = self._store.database
        with database.snapshot():
            revision: int = database.read("SELECT revision FROM clock")[0].revision
            return self._checked_plan(database.read, remedy), revision

    def _checked_plan(self, read: ReadRows, remedy: str) -> Plan:
        stored = Stored(read, self._store.vault)
        plan = make_plan(self._file.declared, stored, self._addresses, prune=self._prune)
        if mistakes := self._file.mistakes + plan.mistakes:
            raise MistakenFile(self._file_name, mistakes, remedy)
        return plan
