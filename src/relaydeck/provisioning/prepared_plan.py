"""A plan with everything that can be done before its transaction, which then lasts as short as possible.

Every other write waits for the transaction. Others may write between the snapshot of the plan and the transaction; the
plan stays valid as long as they changed no record that it depends on, which the audit log shows.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby

from relaydeck.errors import ServerFailure
from relaydeck.provisioning.declared_records import IDENTITY, RESOURCES, Declared
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.plan import Change, Create, Plan, Remove, Step
from relaydeck.provisioning.plan_revision import RECORD_CHANGES
from relaydeck.provisioning.steps import take_step
from relaydeck.provisioning.stored import ORIGIN, Stored
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.relayer_batch import RelayerBatch
from relaydeck.store.audit import DeferredAuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Database, ReadRows, Transaction
from relaydeck.store.preparation import Preparation, Record
from relaydeck.store.removals import prune_removals
from relaydeck.store.vault import Vault

Progress = Callable[[list[Step]], Iterable[Step]]
ContextOf = Callable[[Transaction], ChangeContext]
LARGE = 2_000  # relayers, which a transaction writes in less than 0.3 seconds
_Write = Callable[[ChangeContext], None]


class PreparedPlan:
    def __init__(
        self, planner: FilePlanner, plan: Plan, read: ReadRows, vault: Vault, progress: Progress = iter
    ) -> None:
        """`read` runs inside the snapshot that the plan was made in."""
        self.plan = plan
        self._planner = planner
        self._preparation = Preparation(read, vault)
        self._depends_on = _records(planner.file.declared, plan)
        self._removed = {(step.resource[:-1], step.name) for step in plan.steps if isinstance(step, Remove)}
        self._applied = _applied(Stored(read, vault)) if planner.prune else set()
        # Pruning looks for relayers that refer to a record; a relayer without an id is found by its name.
        nameless = any(not each.name for each in planner.file.declared.of("relayers"))
        self._depends_on_all_relayers = planner.prune or nameless
        self._batches: list[RelayerBatch] = []
        self._writes = [
            write
            for is_relayer, steps in groupby(progress(plan.steps), key=lambda step: step.resource == "relayers")
            for write in (self._batch(steps) if is_relayer else _one_by_one(steps))
        ]
        self.removes_early = True  # relayers: whoever writes about one of them, its balance for example, waits then
        self._written_early: DeferredAuditLog | None = None
        self._early: Transaction | None = None  # the transaction of what was written early

    def _batch(self, steps: Iterable[Step]) -> list[_Write]:
        batch = RelayerBatch(self._preparation)
        for step in steps:
            _add(batch, step)
        self._batches.append(batch)
        return [batch.write]

    @property
    def _relayers(self) -> int:
        return sum(map(len, self._batches))

    @property
    def is_large(self) -> bool:
        return self._relayers >= LARGE

    @contextmanager
    def transaction(self, database: Database, context_of: ContextOf) -> Iterator[Transaction]:
        """The transaction for `write`. Of a large plan as little as possible is left to it. Raises StoreConflict.

        `context_of` returns the context of the changes.
        """
        if not self.is_large:
            with database.transaction() as transaction:
                yield transaction
            return
        with database.staging() as stage:
            for batch in self._batches:
                batch.stage(stage, rows_too=not database.remote)
            self._preparation.advance(database.read)
            with database.bulk_transaction(
                lambda early: self._write_early(context_of(early)), self._relayers
            ) as transaction:
                yield transaction

    def _write_early(self, context: ChangeContext) -> None:
        """Write everything up to the last relayer: the removal of records that relayers refer to stays for the end."""
        self._early, self._written_early = context.transaction, DeferredAuditLog(context.audit)
        for batch in self._batches:
            batch.removes_later = not self.removes_early
        early = context._replace(origin=ORIGIN, audit=self._written_early)
        last = max(at for at, write in enumerate(self._writes) if not isinstance(write, partial))
        for write in self._writes[: last + 1]:
            write(early)
        self._writes = self._writes[last + 1 :]

    def is_valid(self, transaction: Transaction) -> bool:
        """Whether planning again in this transaction would lead to the same plan, and its sealed values may be stored.

        Some plans that would be the same are not recognised: those are only made again.
        """
        entries = self._preparation.entries_since(transaction)
        if entries is None or not self._preparation.opens_in(transaction):
            return False
        # The audit log keeps the state of a removed record, too.
        changed = {record for record, change in entries if change in RECORD_CHANGES or record in self._removed}
        if not changed.isdisjoint(self._depends_on):
            return False
        if self._depends_on_all_relayers and any(resource == "relayer" for resource, _ in changed):
            return False
        return not self._planner.prune or _applied_among(transaction, changed) == self._applied & changed

    @property
    def is_unfinished(self) -> bool:
        """Whether a part was written early and the rest was not written: it must not be committed."""
        return self._written_early is not None

    def write(self, context: ChangeContext) -> None:
        """Take the steps, which pruning may undo."""
        context = context._replace(origin=ORIGIN)
        if self._written_early is not None:
            if context.transaction is not self._early:
                raise ServerFailure("the part of the plan that was written early is gone")
            self._written_early.flush(context.transaction, context.audit)
            self._written_early = None
            for batch in self._batches:
                batch.remove_rest(context)
        for write in self._writes:
            write(context)
        if self._removed:
            prune_removals(context.transaction)


def _add(batch: RelayerBatch, step: Step) -> None:
    match step:
        case Create(_, _, Relayer() as relayer):
            batch.create(relayer)
        case Change(_, _, Relayer() as relayer):
            batch.update(relayer)
        case Remove(_, name):
            batch.delete(name)


def _one_by_one(steps: Iterable[Step]) -> list[_Write]:
    return [partial(take_step, step) for step in steps]


def _records(declared: Declared, plan: Plan) -> set[Record]:
    """Every record that the plan changes, compares or refers to."""
    return {
        *((resource[:-1], name) for resource, places in declared.places.items() for name in places),
        *((each.resource[:-1], each.record) for each in declared.mentions),
        *((step.resource[:-1], step.name) for step in plan.steps),
    }


def _applied(stored: Stored) -> set[Record]:
    """The records that pruning may remove."""
    return {(resource[:-1], name) for resource in RESOURCES for name in stored.applied(resource)}


def _applied_among(transaction: Transaction, records: set[Record]) -> set[Record]:
    """Of these records, those that pruning may remove now. The rows that this transaction wrote early are others."""
    found = set()
    for resource in RESOURCES:
        identity = IDENTITY[resource]
        names = [name for each, name in records if each == resource[:-1]]
        rows = transaction.matching(resource, (identity, "origin"), identity, names) if names else []
        found |= {(resource[:-1], getattr(row, identity)) for row in rows if row.origin == ORIGIN}
    return found
