"""Changes of notifications, each with its entry in the audit log."""

from relaydeck.errors import NotificationNotFound
from relaydeck.notifications import events, notification_rows
from relaydeck.notifications.events import Event
from relaydeck.notifications.kinds import EventKind
from relaydeck.notifications.model import Notification
from relaydeck.notifications.notification_rows import NotificationChange
from relaydeck.secret import Secret
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.facts import Facts, Hidden, secret_fact
from relaydeck.store.references import refuse_while_used
from relaydeck.store.removals import remove_row
from relaydeck.web_addresses import shown_address


def create(context: ChangeContext, notification: Notification, signing_key: Secret | None) -> None:
    notification_rows.create(
        context.transaction, context.vault, notification, signing_key, origin=context.origin, now=context.now
    )
    context.created("notification", notification.id, _facts(context.transaction, notification.id))


def update(context: ChangeContext, notification_id: str, change: NotificationChange) -> Notification:
    """Make the change and return the result. Raises NotificationNotFound."""
    before = _facts(context.transaction, notification_id)
    changed = notification_rows.update(
        context.transaction, context.vault, notification_id, change, now=lambda: context.now
    )
    context.changed("notification.updated", notification_id, before, _facts(context.transaction, notification_id))
    return changed


def delete(context: ChangeContext, notification_id: str) -> None:
    """Raises StillInUse while a relayer refers to it."""
    before = _facts(context.transaction, notification_id)
    refuse_while_used(context.transaction, "notification", notification_id)
    remove_row(context.transaction, "notifications", "id", notification_id)
    context.removed("notification", notification_id, before)


def send_test(context: ChangeContext, notification_id: str) -> Event:
    """Record a test event for the receiver. Raises NotificationNotFound."""
    _facts(context.transaction, notification_id)
    sequence = events.record(
        context.transaction,
        EventKind.NOTIFICATION_TEST,
        {"notification_id": notification_id},
        notification_id=notification_id,
        now=context.now,
    )
    context.did("notification.tested", notification_id)
    return events.list_events(context.transaction.all, sequence - 1, 1)[0]


def _facts(transaction: Transaction, notification_id: str) -> Facts:
    row = transaction.one(
        "SELECT type, url, sealed_signing_key FROM notifications WHERE id = :id", {"id": notification_id}
    )
    if row is None:
        raise NotificationNotFound("no notification has this id")
    # The path of a webhook's URL may contain a key.
    return {"type": row[0], "url": Hidden(row[1], shown_address(row[1])), "signing_key": secret_fact(row[2])}
