"""Makes a plan so: every step in one transaction, or none."""

from collections.abc import Callable, Iterable

from relaydeck.networks import network_changes
from relaydeck.networks.model import Network
from relaydeck.notifications import notification_changes
from relaydeck.notifications.notification_rows import NotificationChange
from relaydeck.provisioning.declared import Resource
from relaydeck.provisioning.mistakes import MistakenFile
from relaydeck.provisioning.plan import Change, Create, KeyedNotification, Plan, Record, Remove, Step
from relaydeck.provisioning.planner import make_plan
from relaydeck.provisioning.read_file import Read
from relaydeck.provisioning.stored import ORIGIN, ReadRows, Stored
from relaydeck.relayers import relayer_changes
from relaydeck.signers import signer_changes
from relaydeck.signers.shapes import NewSigner
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.open_store import Store

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
            context = ChangeContext(transaction, AuditLog(self._store.vault), actor, now, ORIGIN)
            for step in progress(plan.steps):
                take(step, context)
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


def take(step: Step, context: ChangeContext) -> None:
    match step:
        case Create(record=record):
            _create(record, context)
        case Change(record=record):
            _change(record, context)
        case Remove(resource, name):
            _DELETE[resource](context, name)


def _create(record: Record, context: ChangeContext) -> None:
    match record:
        case Network():
            network_changes.create(context, record)
        case NewSigner():
            signer_changes.create(context, record)
        case KeyedNotification(notification, key):
            notification_changes.create(context, notification, key)
        case _:
            relayer_changes.create(context, record)


def _change(record: Record, context: ChangeContext) -> None:
    match record:
        case Network():
            network_changes.update(context, record)
        case NewSigner():
            raise AssertionError("a signer is never changed in place")
        case KeyedNotification(notification, key):
            change = NotificationChange(notification.type, notification.url, key)
            notification_changes.update(context, notification.id, change)
        case _:
            relayer_changes.update(context, record)


_DELETE: dict[Resource, Callable[[ChangeContext, str], None]] = {
    "networks": network_changes.delete,
    "signers": signer_changes.delete,
    "notifications": notification_changes.delete,
    "relayers": relayer_changes.delete,
}
