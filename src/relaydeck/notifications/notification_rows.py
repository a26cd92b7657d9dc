"""Notifications in the database."""

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.errors import NotificationNotFound
from relaydeck.notifications.model import Notification, NotificationType
from relaydeck.secret import Secret
from relaydeck.store.database import Row, Transaction
from relaydeck.store.record_table import RecordTable
from relaydeck.store.sealing import Damaged, Place
from relaydeck.store.vault import Vault

PREVIOUS_KEY_SECONDS = 86_400  # how long a replaced key signs beside the new one


class NotificationChange(NamedTuple):
    """What to change; None leaves a field as it is. An empty signing key removes the key."""

    type: NotificationType | None = None
    url: str | None = None
    signing_key: Secret | None = None


TABLE = RecordTable("notifications", Notification)
COLUMNS = TABLE.columns


def place(notification_id: str) -> Place:
    return TABLE.place(notification_id, "signing_key")


def from_row(row: Row) -> Notification:
    """A notification without its signing key, which stays sealed."""
    return msgspec.structs.replace(TABLE.without_sealed(row), has_signing_key=row.sealed_signing_key is not None)


def create(
    transaction: Transaction,
    vault: Vault,
    notification: Notification,
    signing_key: Secret | None,
    *,
    origin: str,
    now: int,
) -> None:
    keyed = msgspec.structs.replace(notification, signing_key=UNSET if signing_key is None else signing_key)
    TABLE.create(transaction, vault, keyed, origin=origin, now=now)


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
    """Make the change and return the result. Raises NotificationNotFound."""
    found = transaction.one(
        "SELECT type, url, sealed_signing_key, sealed_previous_key, previous_key_until"
        " FROM notifications WHERE id = :id",
        {"id": notification_id},
    )
    if found is None:
        raise NotificationNotFound("no notification has this id")
    keys = _Keys(found.sealed_signing_key, found.sealed_previous_key, found.previous_key_until)
    if change.signing_key is not None:
        keys = _changed_keys(transaction, vault, notification_id, keys, change.signing_key, int(now()))
    changed = Notification(
        id=notification_id,
        type=change.type or found.type,
        url=change.url or found.url,
        has_signing_key=keys.sealed is not None,
    )
    if change != NotificationChange():
        _store(transaction, changed, keys)
    return changed


def _changed_keys(
    transaction: Transaction, vault: Vault, notification_id: str, keys: _Keys, new: Secret, now: int
) -> _Keys:
    """A replaced key is kept for a day. A removed key is not kept, nor one that does not open."""
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
