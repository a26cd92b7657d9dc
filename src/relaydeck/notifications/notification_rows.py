"""Notifications in the database."""

import time
from collections.abc import Callable
from typing import NamedTuple

from relaydeck.errors import NotificationNotFound
from relaydeck.notifications.model import Notification, NotificationType
from relaydeck.secret import Secret
from relaydeck.store.database import Transaction
from relaydeck.store.sealing import Damaged, Place
from relaydeck.store.vault import Vault

PREVIOUS_KEY_SECONDS = 86_400  # for which a replaced key signs beside the new one


class NotificationChange(NamedTuple):
    """What to change; None leaves a part as it is. An empty signing key removes the key."""

    type: NotificationType | None = None
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


class _Keys(NamedTuple):
    sealed: bytes | None
    previous: bytes | None = None
    previous_until: int | None = None


def update(
    transaction: Transaction,
    vault: Vault,
    notification_id: str,
    change: NotificationChange,
    *,
    now: Callable[[], float] = time.time,
) -> Notification:
    """Make the change and give the result. Raises NotificationNotFound."""
    found = transaction.one(
        "SELECT type, url, sealed_signing_key, sealed_previous_key, previous_key_until"
        " FROM notifications WHERE id = :id",
        {"id": notification_id},
    )
    if found is None:
        raise NotificationNotFound("no notification has this id")
    keys = _Keys(*found[2:])
    if change.signing_key is not None:
        keys = _changed_keys(transaction, vault, notification_id, keys, change.signing_key, int(now()))
    changed = Notification(notification_id, change.type or found[0], change.url or found[1], keys.sealed is not None)
    if change != NotificationChange():
        _store(transaction, changed, keys)
    return changed


def _changed_keys(
    transaction: Transaction, vault: Vault, notification_id: str, keys: _Keys, new: Secret, now: int
) -> _Keys:
    """A replaced key stays for a day, a removed one not at all; nor does one that cannot be opened any more."""
    if not new.reveal():
        return _Keys(None)
    old = _opened(vault, notification_id, keys.sealed)
    if old == new:
        return keys
    sealed = _sealed(transaction, vault, notification_id, new)
    if old is None:
        return _Keys(sealed)
    return _Keys(sealed, keys.sealed, now + PREVIOUS_KEY_SECONDS)


def _opened(vault: Vault, notification_id: str, sealed: bytes | None) -> Secret | None:
    try:
        return None if sealed is None else Secret(vault.open(sealed, place(notification_id)).decode())
    except Damaged:
        return None


def _store(transaction: Transaction, changed: Notification, keys: _Keys) -> None:
    transaction.execute(
        "UPDATE notifications SET type = :type, url = :url, sealed_signing_key = :sealed,"
        " sealed_previous_key = :previous, previous_key_until = :previous_until, revision = :revision"
        " WHERE id = :id",
        {
            "id": changed.id,
            "type": changed.type,
            "url": changed.url,
            **keys._asdict(),
            "revision": transaction.revision,
        },
    )


def _sealed(transaction: Transaction, vault: Vault, notification_id: str, signing_key: Secret | None) -> bytes | None:
    if signing_key is None or not signing_key.reveal():
        return None
    return vault.seal(signing_key.reveal().encode(), place(notification_id), transaction)
