"""Makes a plan so: every step in one transaction, or none."""

from collections.abc import Callable, Iterable

from relaydeck.networks import changes as network_changes
from relaydeck.networks.model import Network
from relaydeck.notifications import changes as notification_changes
from relaydeck.notifications.records import NotificationChange
from relaydeck.provisioning.declared import Resource
from relaydeck.provisioning.mistakes import MistakenFile
from relaydeck.provisioning.plan import Change, Create, KeyedNotification, Plan, Record, Remove, Step
from relaydeck.provisioning.planner import make_plan
from relaydeck.provisioning.read_file import Read
from relaydeck.provisioning.stored import ORIGIN, ReadRows, Stored
from relaydeck.relayers import changes as relayer_changes
from relaydeck.signers import changes as signer_changes
from relaydeck.signers.records import NewSigner
from relaydeck.store.acting import Acting
from relaydeck.store.audit import AuditLog
from relaydeck.store.home import Store

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

    def make_so(self, *, now: int, actor: str = "apply", progress: Progress = iter) -> Plan:
        """Plan and do. Raises MistakenFile, having changed nothing. No difference: no write at all."""
        plan, seen = self._plan_and_revision()
        if not plan.steps:
            return plan
        with self._store.database.transaction() as transaction:
            if transaction.revision != seen + 1:
                # Somebody wrote since: what was planned may be wrong now.
                plan = self._checked_plan(transaction.all)
            acting = Acting(transaction, AuditLog(self._store.vault), actor, now, ORIGIN)
            for step in progress(plan.steps):
                take(step, acting)
        return plan

    def _plan_and_revision(self) -> tuple[Plan, int]:
        database = self._store.database
        with database.snapshot():
            revision: int = database.read("SELECT revision FROM clock")[0][0]
            return self._checked_plan(database.read), revision

    def _checked_plan(self, read: ReadRows) -> Plan:
        plan = make_plan(self._file.declared, Stored(read, self._store.vault), prune=self._prune)
        if mistakes := self._file.mistakes + plan.mistakes:
            raise MistakenFile(self._file_name, mistakes)
        return plan


def take(step: Step, acting: Acting) -> None:
    match step:
        case Create(record=record):
            _create(record, acting)
        case Change(record=record):
            _change(record, acting)
        case Remove(resource, name):
            _DELETE[resource](acting, name)


def _create(record: Record, acting: Acting) -> None:
    match record:
        case Network():
            network_changes.create(acting, record)
        case NewSigner():
            signer_changes.create(acting, record)
        case KeyedNotification(notification, key):
            notification_changes.create(acting, notification, key)
        case _:
            relayer_changes.create(acting, record)


def _change(record: Record, acting: Acting) -> None:
    match record:
        case Network():
            network_changes.update(acting, record)
        case NewSigner():
            raise AssertionError("a signer is never changed in place")
        case KeyedNotification(notification, key):
            change = NotificationChange(notification.type, notification.url, key)
            notification_changes.update(acting, notification.id, change)
        case _:
            relayer_changes.update(acting, record)


_DELETE: dict[Resource, Callable[[Acting, str], None]] = {
    "networks": network_changes.delete,
    "signers": signer_changes.delete,
    "notifications": notification_changes.delete,
    "relayers": relayer_changes.delete,
}
