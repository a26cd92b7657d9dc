"""Takes one step of a plan: creates, changes or removes a record inside a transaction."""

from collections.abc import Callable
from typing import Any

from relaydeck.networks import network_changes
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import Notification, NotificationChange
from relaydeck.provisioning.declared_records import Resource
from relaydeck.provisioning.plan import Change, Create, Remove, Step
from relaydeck.relayers import relayer_changes
from relaydeck.signers import signer_changes
from relaydeck.store.change_context import ChangeContext

Write = Callable[[ChangeContext, Any], object]


def take_step(step: Step, context: ChangeContext) -> None:
    match step:
        case Create(resource, _, record):
            _CREATE[resource](context, record)
        case Change(resource, _, record):
            _UPDATE[resource](context, record)
        case Remove(resource, name):
            _DELETE[resource](context, name)


def _update_notification(context: ChangeContext, notification: Notification) -> None:
    change = NotificationChange(notification.type, notification.url, notification.signing_key or None)
    notification_changes.update(context, notification.id, change)


_CREATE: dict[Resource, Write] = {
    "networks": network_changes.create,
    "signers": signer_changes.create,
    "notifications": notification_changes.create,
    "relayers": relayer_changes.create,
}
_UPDATE: dict[Resource, Write] = {  # no signers: key material is never changed in place
    "networks": network_changes.update,
    "notifications": _update_notification,
    "relayers": relayer_changes.update,
}
_DELETE: dict[Resource, Callable[[ChangeContext, str], None]] = {
    "networks": network_changes.delete,
    "signers": signer_changes.delete,
    "notifications": notification_changes.delete,
    "relayers": relayer_changes.delete,
}
