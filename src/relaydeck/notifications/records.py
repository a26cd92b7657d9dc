"""Notifications in the database."""

from typing import NamedTuple

from relaydeck.errors import NotificationNotFound
from relaydeck.secret import Secret
from relaydeck.store.database import Transaction
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault


class Notification(NamedTuple):
    id: str
    type: str
    url: str
    has_signing_key: bool


class NotificationChange(NamedTuple):
    """What to change; None leaves a part as it is. An empty signing key removes the key."""

    type: str | None = None
    url: str | None = None
    signing_key: Secret | None = None


def place(notification_id: str) -> Place:
    return Place("notifications", notification_id, "signing_key")


def create(
    transaction: Transaction,
    vault: Vault,
    notification: Notification,
    signing_key: Secret | None,
    *,
    origin: str,
    now: int,
) -> None:
    transaction.execute(
        "INSERT INTO notifications (id, type, url, sealed_signing_key, origin, created_at, revision)"
        " VALUES (:id, :type, :url, :sealed, :origin, :now, :revision)",
        {
            "id": notification.id,
            "type": notification.type,
            "url": notification.url,
            "sealed": _sealed(transaction, vault, notification.id, signing_key),
            "origin": origin,
            "now": now,
            "revision": transaction.revision,
        },
    )


def update(transaction: Transaction, vault: Vault, notification_id: str, change: NotificationChange) -> Notification:
    """Make the change and give the result. Raises NotificationNotFound."""
    found = transaction.one(
        "SELECT type, url, sealed_signing_key FROM notifications WHERE id = :id", {"id": notification_id}
    )
    if found is None:
        raise NotificationNotFound("no notification has this id")
    sealed = found[2]
    if change.signing_key is not None:
        sealed = _sealed(transaction, vault, notification_id, change.signing_key)
    changed = Notification(notification_id, change.type or found[0], change.url or found[1], sealed is not None)
    if change != NotificationChange():
        _store(transaction, changed, sealed)
    return changed


def _store(transaction: Transaction, changed: Notification, sealed: bytes | None) -> None:
    transaction.execute(
        "UPDATE notifications SET type = :type, url = :url, sealed_signing_key = :sealed, revision = :revision"
        " WHERE id = :id",
        {
            "id": changed.id,
            "type": changed.type,
            "url": changed.url,
            "sealed": sealed,
            "revision": transaction.revision,
        },
    )


def _sealed(transaction: Transaction, vault: Vault, notification_id: str, signing_key: Secret | None) -> bytes | None:
    if signing_key is None or not signing_key.reveal():
        return None
    return vault.seal(signing_key.reveal().encode(), place(notification_id), transaction)
