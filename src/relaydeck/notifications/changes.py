"""Changes of notifications, each with its row in the audit log."""

from relaydeck.errors import NotificationNotFound
from relaydeck.notifications import events, records
from relaydeck.notifications.events import Event
from relaydeck.notifications.records import Notification, NotificationChange
from relaydeck.secret import Secret
from relaydeck.store.acting import Acting, remove_row
from relaydeck.store.database import Transaction
from relaydeck.store.facts import Facts, Hidden, secret_fact
from relaydeck.store.references import refuse_while_used
from relaydeck.web_addresses import shown_address


def create(acting: Acting, notification: Notification, signing_key: Secret | None) -> None:
    records.create(acting.transaction, acting.vault, notification, signing_key, origin=acting.origin, now=acting.now)
    acting.created("notification", notification.id, _facts(acting.transaction, notification.id))


def update(acting: Acting, notification_id: str, change: NotificationChange) -> Notification:
    """Make the change and give the result. Raises NotificationNotFound."""
    before = _facts(acting.transaction, notification_id)
    changed = records.update(acting.transaction, acting.vault, notification_id, change, now=lambda: acting.now)
    acting.changed("notification.updated", notification_id, before, _facts(acting.transaction, notification_id))
    return changed


def delete(acting: Acting, notification_id: str) -> None:
    """Raises StillInUse while a relayer tells it."""
    before = _facts(acting.transaction, notification_id)
    refuse_while_used(acting.transaction, "notification", notification_id)
    remove_row(acting.transaction, "notifications", "id", notification_id)
    acting.removed("notification", notification_id, before)


def send_test(acting: Acting, notification_id: str) -> Event:
    """Write a test event for the receiver. Raises NotificationNotFound."""
    _facts(acting.transaction, notification_id)
    sequence = events.record(
        acting.transaction, "notification.test", relayer=None, notification_id=notification_id, now=acting.now
    )
    acting.did("notification.tested", notification_id)
    return events.list_events(acting.transaction.all, sequence - 1, 1)[0]


def _facts(transaction: Transaction, notification_id: str) -> Facts:
    row = transaction.one(
        "SELECT type, url, sealed_signing_key FROM notifications WHERE id = :id", {"id": notification_id}
    )
    if row is None:
        raise NotificationNotFound("no notification has this id")
    # The path of a webhook's address may hold a key.
    return {"type": row[0], "url": Hidden(row[1], shown_address(row[1])), "signing_key": secret_fact(row[2])}
