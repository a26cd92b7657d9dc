"""Notifications in the database."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.errors import Damaged
from relaydeck.notifications.model import NO_CHANGE, Notification, NotificationChange, NotificationType
from relaydeck.secret import Secret
from relaydeck.store.database import Row, Transaction
from relaydeck.store.record_table import RecordTable
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault
from relaydeck.web_addresses import shown_address

PREVIOUS_KEY_SECONDS = 86_400  # how long a replaced key signs beside the new one
_UPDATE = (
    "UPDATE notifications SET type = :type, url = :url, sealed_signing_key = :sealed_signing_key,"
    " sealed_previous_key = :sealed_previous_key, previous_key_until = :previous_key_until,"
    " secret_version = :secret_version, revision = :revision"
    " WHERE id = :id"
)


TABLE = RecordTable("notifications", Notification)
COLUMNS = TABLE.columns


def place(notification_id: str, version: int) -> Place:
    return TABLE.place(notification_id, "signing_key", version)


def previous_place(notification_id: str, version: int) -> Place:
    """Another one, so that the previous key cannot be put back as the current one."""
    return TABLE.place(notification_id, "previous_key", version)


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


class StoredNotification(NamedTuple):
    """A row of the table. The previous key signs beside the new one until `previous_key_until` (seconds)."""

    id: str
    type: NotificationType
    url: str
    sealed_signing_key: bytes | None
    sealed_previous_key: bytes | None
    previous_key_until: int | None
    secret_version: int

    @property
    def notification(self) -> Notification:
        has_key = self.sealed_signing_key is not None
        return Notification(id=self.id, type=self.type, url=self.url, has_signing_key=has_key)

    @property
    def shown_url(self) -> str:
        """Without its path, which may contain a key."""
        return shown_address(self.url)


def find(transaction: Transaction, ids: Sequence[str]) -> dict[str, StoredNotification]:
    """The stored ones of these notifications, by id."""
    rows = transaction.matching("notifications", StoredNotification._fields, "id", ids)
    return {row.id: StoredNotification(*row) for row in rows}


def change(
    transaction: Transaction,
    vault: Vault,
    stored: StoredNotification,
    wanted: NotificationChange,
    *,
    version: int,
    now: int,
) -> StoredNotification:
    """Write the change, and return what is stored then. A new key gets this version."""
    if wanted == NO_CHANGE:
        return stored
    changed = stored._replace(type=wanted.type or stored.type, url=wanted.url or stored.url)
    if wanted.signing_key is not None:
        changed = _with_key(transaction, vault, changed, wanted.signing_key, version, now)
    transaction.execute(_UPDATE, {**changed._asdict(), "revision": transaction.revision})
    return changed


def _with_key(
    transaction: Transaction, vault: Vault, stored: StoredNotification, new: Secret, version: int, now: int
) -> StoredNotification:
    """A replaced key is kept for a day. A removed key is not kept, nor is one that cannot be opened any more."""
    transaction.erases_secrets = True
    previous, until = None, None
    old = _opened(vault, stored)
    if new.reveal() and old == new:
        return stored
    if new.reveal() and old is not None:
        previous, until = (
            _sealed(transaction, vault, previous_place(stored.id, version), old),
            now + PREVIOUS_KEY_SECONDS,
        )
    return stored._replace(
        sealed_signing_key=_sealed(transaction, vault, place(stored.id, version), new),
        sealed_previous_key=previous,
        previous_key_until=until,
        secret_version=version,
    )


def _opened(vault: Vault, stored: StoredNotification) -> Secret | None:
    sealed = stored.sealed_signing_key
    try:
        here = place(stored.id, stored.secret_version)
        return None if sealed is None else Secret(vault.open(sealed, here).decode())
    except Damaged:
        return None


def _sealed(transaction: Transaction, vault: Vault, where: Place, signing_key: Secret) -> bytes | None:
    return vault.seal(signing_key.reveal().encode(), where, transaction) if signing_key.reveal() else None
