"""Applies a file: every change of its plan in one transaction, or none.

Every other write waits for that transaction. So what takes long happens before it: an apply plans, encodes and seals in
a snapshot, and puts the rows into temporary tables, which belong to the connection. With the lock it looks whether
somebody has changed a record of the plan since the snapshot, and writes from these tables.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from time import time
from typing import Any, TypeVar

from relaydeck.errors import MistakenDocument, NotPossible
from relaydeck.notifications import delivery_queue, notification_changes
from relaydeck.provisioning.declared_records import RESOURCES, TABLES, Declared, Resource
from relaydeck.provisioning.mistakes import MOST_MISTAKES
from relaydeck.provisioning.plan import Plan, Step
from relaydeck.provisioning.plan_revision import RECORD_CHANGES, plan_revision, require_same
from relaydeck.provisioning.planner import NO_RULES, UrlRules, key_questions, make_plan
from relaydeck.provisioning.stored import ORIGIN, Stored
from relaydeck.relayers.relayer_changes import set_paused
from relaydeck.scope import Scope
from relaydeck.signers import signer_changes
from relaydeck.signers.known_addresses import KnownAddresses, Questions
from relaydeck.store.changes import ChangeContext, Preparation, Record, RowChange, RowChanges
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.rows import Stage

Progress = Callable[[list[Step]], Iterable[Step]]
Result = TypeVar("Result")
_ATTEMPTS = 5  # to prepare a plan that is still valid when its transaction begins


# What prepares the change of a step of these kinds; that of the others is the same for every table of records.
_PREPARE: dict[tuple[Resource, str], Callable[[Preparation, Any], RowChange]] = {
    ("signers", "create"): signer_changes.prepare_creation,
    ("signers", "change"): signer_changes.prepare_update,
    ("signers", "remove"): signer_changes.prepare_deletion,
    ("notifications", "create"): notification_changes.prepare_creation,
    ("notifications", "change"): notification_changes.prepare_update,
    ("notifications", "remove"): notification_changes.prepare_deletion,
}


def take_step(step: Step, context: ChangeContext) -> None:
    """Create, change or remove a record inside a transaction. Raises StillInUse."""
    context.write(prepare_step(step, context.preparation))
    _complete(step, context)


def _complete(step: Step, context: ChangeContext) -> None:
    """Do what follows from a step, once its row is written."""
    if step.action == "remove" and step.resource == "notifications":
        delivery_queue.end_deliveries(context.transaction, step.name)
    if step.is_paused:
        set_paused(context, step.name, paused=True)


def prepare_step(step: Step, preparation: Preparation) -> RowChange:
    """Read, encode and seal what a step writes."""
    if prepare := _PREPARE.get((step.resource, step.action)):
        return prepare(preparation, step.subject)
    table = TABLES[step.resource]
    if step.action == "create":
        return preparation.create_record(table, step.subject)
    if step.action == "change":
        return preparation.update_record(table, step.subject)
    return preparation.delete_record(table, step.name)


class Outdated(Exception):
    """Rolls back the transaction of a plan that is no longer valid."""


@dataclass(eq=False, repr=False)
class Apply:
    """One apply of a file, step by step. `run` takes the steps in their order; `make_plan` alone shows the plan."""

    store: Store
    file: Declared
    prune: bool
    urls: UrlRules = NO_RULES
    scope: Scope | None = None  # of the credential whose file it is, in which every read is made
    expected: str = ""  # the revision of a plan that was reviewed: another plan is not applied
    progress: Progress = iter
    addresses: KnownAddresses = field(default_factory=KnownAddresses)  # the answers to `questions`
    plan: Plan = field(init=False)
    _preparation: Preparation = field(init=False)
    _changes: RowChanges = field(init=False)

    def questions(self, bound_types: frozenset[str]) -> Questions:
        """What drivers have to be asked before `make_plan`. Inside a snapshot."""
        return key_questions(self.file, Stored(self.store.database.read, self.store.vault), bound_types)

    def make_plan(self) -> Plan:
        """Inside a snapshot. Raises MistakenDocument, or PlanChanged when another plan is expected."""
        read, vault = self.store.database.read, self.store.vault
        stored = Stored(read, vault)
        plan = make_plan(self.file, stored, self.addresses, prune=self.prune, urls=self.urls, scope=self.scope)
        if mistakes := self.file.mistakes + plan.mistakes:
            raise MistakenDocument([each._asdict() for each in mistakes[: MOST_MISTAKES + 1]])
        plan.revision = plan_revision(plan, read, vault.plan_key, prune=self.prune)
        require_same(plan, self.expected, read, vault.plan_key)
        return plan

    def forget(self) -> None:
        """Free the records one by one: to free many at once would stop all other threads."""
        for kept in (self.file.records, self.file.mentions):
            while kept:
                kept.pop()

    def run(
        self, in_transaction: Callable[[Transaction], Result], unchanged: Callable[[], Result] | None = None
    ) -> Result:
        """Return what `in_transaction` returns, which calls `write`; what `unchanged` returns if nothing differs.

        Raises what `make_plan` raises, or NotPossible when others keep changing records of the plan.
        """
        for _ in range(_ATTEMPTS):
            with self.store.database.snapshot():
                self.prepare()
            if unchanged is not None and not self.plan.steps:
                return unchanged()
            with suppress(Outdated), self.store.database.staging() as stage:
                self.stage(stage)
                with self.store.database.transaction() as transaction:
                    self.require_valid(transaction)
                    return in_transaction(transaction)
        raise NotPossible("others keep changing the same records: nothing was changed, try again")

    def prepare(self) -> None:
        """Plan, encode and seal, inside one snapshot."""
        self.plan = self.make_plan()
        self._preparation = Preparation.in_snapshot(self.store.database.read, self.store.vault, int(time()))
        self._changes = RowChanges(RESOURCES)
        for step in self.progress(self.plan.steps):
            self._changes.add(prepare_step(step, self._preparation))

    def stage(self, stage: Stage) -> None:
        """Put the rows into temporary tables."""
        self._changes.stage(stage)

    def require_valid(self, transaction: Transaction) -> None:
        """Raises Outdated unless planning again in this transaction would lead to the same plan.

        Some plans that would be the same are not recognised: those are only made again.
        """
        entries = self._preparation.entries_since(transaction)
        if entries is None:
            raise Outdated
        removed = {_record(step) for step in self.plan.steps if step.action == "remove"}
        # The audit log keeps the state of a removed record, too.
        changed = {record for record, change in entries if change in RECORD_CHANGES or record in removed}
        if not changed.isdisjoint(self._depends_on()):
            raise Outdated
        if self._depends_on_all_relayers and any(resource == "relayer" for resource, _ in changed):
            raise Outdated
        if self.prune and changed and self._has_more_to_prune(transaction):
            raise Outdated

    def _depends_on(self) -> set[Record]:
        """Every record that the plan changes, compares or refers to: with pruning, every one that an apply created."""
        return {
            *((resource[:-1], name) for resource, places in self.file.places.items() for name in places),
            *((each.resource[:-1], each.record) for each in self.file.mentions),
            *map(_record, self.plan.steps),
        }

    @property
    def _depends_on_all_relayers(self) -> bool:
        """Pruning looks for relayers that refer to a record; a relayer without an id is found by its name."""
        return self.prune or any(not each.name for each in self.file.of("relayers"))

    def _has_more_to_prune(self, transaction: Transaction) -> bool:
        """Whether another apply has created records since the snapshot."""
        newest = {"origin": ORIGIN, "revision": self._preparation.revision}
        queries = (f"SELECT 1 FROM {each} WHERE revision > :revision AND origin = :origin" for each in RESOURCES)
        return any(transaction.one(f"{sql} LIMIT 1", newest) for sql in queries)

    def write(self, context: ChangeContext) -> None:
        """Write from the temporary tables, inside the transaction."""
        if context.guard is not None:
            context.guard.revision = self.plan.revision
        self._changes.write(context._replace(origin=ORIGIN))
        for step in self.plan.steps:
            _complete(step, context)


def _record(step: Step) -> Record:
    return step.resource[:-1], step.name
