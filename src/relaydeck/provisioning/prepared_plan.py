"""A plan with everything that can be done before its transaction, which then lasts as short as possible.

Every other write waits for the transaction. Others may write between the snapshot of the plan and the transaction; the
plan stays valid as long as they changed no record that it depends on, which the audit log shows.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby

from relaydeck.provisioning.declared_records import RESOURCES, Declared
from relaydeck.provisioning.file_planner import FilePlanner
from relaydeck.provisioning.plan import Change, Create, Plan, Remove, Step
from relaydeck.provisioning.plan_revision import RECORD_CHANGES
from relaydeck.provisioning.steps import take_step
from relaydeck.provisioning.stored import ORIGIN, Stored
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.relayer_batch import RelayerBatch
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows, Transaction
from relaydeck.store.preparation import Preparation, Record
from relaydeck.store.vault import Vault

Progress = Callable[[list[Step]], Iterable[Step]]
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
        self._applied = _applied(read, vault) if planner.prune else []
        self._writes = [
            write
            for is_relayer, steps in groupby(progress(plan.steps), key=lambda step: step.resource == "relayers")
            for write in (self._batch(steps) if is_relayer else _one_by_one(steps))
        ]

    def _batch(self, steps: Iterable[Step]) -> list[_Write]:
        batch = RelayerBatch(self._preparation)
        for step in steps:
            _add(batch, step)
        return [batch.write]

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
        return not (changed and self._planner.prune) or self._applied == _applied(
            transaction.all, self._preparation.vault
        )

    @property
    def _depends_on_all_relayers(self) -> bool:
        """Pruning looks for relayers that refer to a record; a relayer without an id is found by its name."""
        return self._planner.prune or any(not each.name for each in self._planner.file.declared.of("relayers"))

    def write(self, context: ChangeContext) -> None:
        """Take the steps, which pruning may undo."""
        context = context._replace(origin=ORIGIN)
        for write in self._writes:
            write(context)


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


def _applied(read: ReadRows, vault: Vault) -> list[Sequence[str]]:
    """The records that pruning may remove."""
    stored = Stored(read, vault)
    return [stored.applied(resource) for resource in RESOURCES]
