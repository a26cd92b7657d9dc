"""Makes a plan so: every step in one transaction, or none."""

from collections.abc import Callable, Iterable

from relaydeck.networks import records as network_records
from relaydeck.networks.model import Network
from relaydeck.notifications import records as notification_records
from relaydeck.provisioning.mistakes import MistakenFile
from relaydeck.provisioning.plan import Change, Create, KeyedNotification, Plan, Record, Remove, Step
from relaydeck.provisioning.planner import make_plan
from relaydeck.provisioning.read_file import Read
from relaydeck.provisioning.stored import IDENTITY, ORIGIN, ReadRows, Stored
from relaydeck.relayers import records as relayer_records
from relaydeck.signers import records as signer_records
from relaydeck.signers.records import NewSigner
from relaydeck.store.database import Transaction
from relaydeck.store.home import Store
from relaydeck.store.vault import Vault

Progress = Callable[[list[Step]], Iterable[Step]]


class Provisioner:
    """One file, ready to be planned against a store or made so in it."""

    def __init__(self, store: Store, file: Read, *, file_name: str, prune: bool) -> None:
        self._store = store
        self._file = file
        self._file_name = file_name
        self._prune = prune

    def plan(self) -> Plan:
        """The plan as of one moment; nothing is locked or written. Raises MistakenFile."""
        return self._plan_and_revision()[0]

    def make_so(self, *, now: int, progress: Progress = iter) -> Plan:
        """Plan and do. Raises MistakenFile, having changed nothing. No difference: no write at all."""
        plan, seen = self._plan_and_revision()
        if not plan.steps:
            return plan
        with self._store.database.transaction() as transaction:
            if transaction.revision != seen + 1:
                # Somebody wrote since: what was planned may be wrong now.
                plan = self._checked_plan(transaction.all)
            for step in progress(plan.steps):
                _take(step, transaction, self._store.vault, now)
        return plan

    def _plan_and_revision(self) -> tuple[Plan, int]:
        database = self._store.database
        database.reader.execute("BEGIN")
        try:
            revision: int = database.read("SELECT revision FROM clock")[0][0]
            return self._checked_plan(database.read), revision
        finally:
            database.reader.execute("COMMIT")

    def _checked_plan(self, read: ReadRows) -> Plan:
        plan = make_plan(self._file.declared, Stored(read, self._store.vault), prune=self._prune)
        if mistakes := self._file.mistakes + plan.mistakes:
            raise MistakenFile(self._file_name, mistakes)
        return plan


def _take(step: Step, transaction: Transaction, vault: Vault, now: int) -> None:
    match step:
        case Create(record=record):
            _create(record, transaction, vault, now)
        case Change(record=record):
            _change(record, transaction, vault)
        case Remove():
            _remove(step, transaction)


def _create(record: Record, transaction: Transaction, vault: Vault, now: int) -> None:
    match record:
        case Network():
            network_records.create(transaction, vault, record, origin=ORIGIN, now=now)
        case NewSigner():
            signer_records.create(transaction, vault, record, origin=ORIGIN, now=now)
        case KeyedNotification(notification, key):
            notification_records.create(transaction, vault, notification, key, origin=ORIGIN, now=now)
        case _:
            relayer_records.create(transaction, vault, record, origin=ORIGIN, now=now)


def _change(record: Record, transaction: Transaction, vault: Vault) -> None:
    match record:
        case Network():
            network_records.update(transaction, vault, record)
        case NewSigner():
            raise AssertionError("a signer is never changed in place")
        case KeyedNotification(notification, key):
            change = notification_records.NotificationChange(notification.type, notification.url, key)
            notification_records.update(transaction, vault, notification.id, change)
        case _:
            relayer_records.update(transaction, vault, record)


def _remove(step: Remove, transaction: Transaction) -> None:
    """Running servers follow the row in `removals`."""
    sql = f"DELETE FROM {step.resource} WHERE {IDENTITY[step.resource]} = :name RETURNING seq"
    removed = transaction.one(sql, {"name": step.name})
    if removed is not None:
        transaction.execute(
            "INSERT INTO removals (revision, resource, seq) VALUES (:revision, :resource, :seq)",
            {"revision": transaction.revision, "resource": step.resource, "seq": removed[0]},
        )
