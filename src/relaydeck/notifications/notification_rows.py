"""Notifications in the database."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.errors import Damaged
from relaydeck.notifications.model import Notification, NotificationChange, NotificationType
from relaydeck.secret import Secret
from relaydeck.store.database import Row, Transaction, Values
from relaydeck.store.record_table import RecordTable
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault
from relaydeck.web_addresses import may_contain_key, shown_address

PREVIOUS_KEY_SECONDS = 86_400  # how long a replaced key signs beside the new one
_UPDATE = (
    "UPDATE notifications SET type = :type, url = :url, sealed_url = :sealed_url, url_version = :url_version,"
    " sealed_signing_key = :sealed_signing_key,"
    " sealed_previous_key = :sealed_previous_key, previous_key_until = :previous_key_until,"
    " secret_version = :secret_version, revision = :revision"
    " WHERE id = :id"
)
_SEAL_URL = "UPDATE notifications SET sealed_url = :sealed, url_version = :version WHERE id = :id"


class _NotificationTable(RecordTable[Notification]):
    """A URL that may contain a key is sealed; its column then has what may be shown of it."""

    def __init__(self) -> None:
        super().__init__("notifications", Notification)
        self.columns += ", sealed_url, url_version"

    def from_row(self, row: Row, vault: Vault) -> Notification:
        return msgspec.structs.replace(super().from_row(row, vault), url=opened_url(vault, row.id, row))

    def create(self, transaction: Transaction, vault: Vault, record: Notification, *, origin: str, now: int) -> None:
        sealed = _sealed_url(transaction, vault, record.id, record.url, version := transaction.chain_end[0])
        kept = msgspec.structs.replace(record, url=_kept_url(record.url, sealed))
        super().create(transaction, vault, kept, origin=origin, now=now)
        if sealed is not None:
            transaction.execute(_SEAL_URL, {"sealed": sealed, "version": version, "id": record.id})


TABLE = _NotificationTable()
COLUMNS = TABLE.columns


def opened_url(vault: Vault, notification_id: str, row: Row) -> str:
    """The whole URL of a row with the columns `url`, `sealed_url` and `url_version`. Raises Damaged."""
    if row.sealed_url is None:
        url: str = row.url
        return url
    return vault.open(row.sealed_url, TABLE.place(notification_id, "url", row.url_version)).decode()


def _sealed_url(transaction: Transaction, vault: Vault, record: str, url: str, version: int) -> bytes | None:
    if not may_contain_key(url):
        return None
    return vault.seal(url.encode(), TABLE.place(record, "url", version), transaction)


def _kept_url(url: str, sealed: bytes | None) -> str:
    return url if sealed is None else shown_address(url)


def place(notification_id: str, version: int) -> Place:
    return TABLE.place(notification_id, "signing_key", version)


def previous_place(notification_id: str, version: int) -> Place:
    """Another one, so that the previous key cannot be put back as the current one."""
    return TABLE.place(notification_id, "previous_key", version)


def from_row(row: Row, vault: Vault) -> Notification:
    """A notification without its signing key, which stays sealed. Raises Damaged."""
    has_key = row.sealed_signing_key is not None
    return msgspec.structs.replace(
        TABLE.without_sealed(row), url=opened_url(vault, row.id, row), has_signing_key=has_key
    )


def without_url(row: Row) -> Notification:
    """For a row with a URL that does not open: only what may be shown of it."""
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
    """A row of the table, with its URL opened.

    The previous key signs beside the new one until `previous_key_until` (seconds).
    """

    id: str
    type: NotificationType
    url: str
    sealed_url: bytes | None
    url_version: int
    sealed_signing_key: bytes | None
    sealed_previous_key: bytes | None
    previous_key_until: int | None
    secret_version: int

    @property
    def notification(self) -> Notification:
        has_key = self.sealed_signing_key is not None
        return Notification(id=self.id, type=self.type, url=self.url, has_signing_key=has_key)

    @property
    def url_is_damaged(self) -> bool:
        """Whether only a part of the URL is known. What is sealed may contain a key, and that part never does."""
        return self.sealed_url is not None and not may_contain_key(self.url)

    @property
    def shown_url(self) -> str:
        """Without its path, which may contain a key."""
        return shown_address(self.url)


def find(transaction: Transaction, vault: Vault, ids: Sequence[str]) -> dict[str, StoredNotification]:
    """The stored ones of these notifications, by id."""
    rows = transaction.matching("notifications", StoredNotification._fields, "id", ids)
    return {row.id: _stored(row, vault) for row in rows}


def _stored(row: Row, vault: Vault) -> StoredNotification:
    """Of a URL that does not open any more, what may be shown."""
    with suppress(Damaged):
        return StoredNotification(*row)._replace(url=opened_url(vault, row.id, row))
    return StoredNotification(*row)


def change(
    transaction: Transaction,
    vault: Vault,
    stored: StoredNotification,
    wanted: NotificationChange,
    *,
    version: int,
    now: int,
) -> StoredNotification:
    """What `save` is to store after the change. A new URL and a new key get this version."""
    changed = stored._replace(type=wanted.type or stored.type)
    if wanted.url is not None and (wanted.url != stored.url or stored.url_is_damaged):
        changed = changed._replace(url=wanted.url, url_version=version, sealed_url=None)  # `save` seals it
    if wanted.signing_key is not None:
        changed = _with_key(transaction, vault, changed, wanted.signing_key, version, now)
    return changed


def save(
    transaction: Transaction,
    vault: Vault,
    before: Mapping[str, StoredNotification],
    after: Mapping[str, StoredNotification],
) -> None:
    """Write those that differ from what `find` returned, each once, however many changes were made to it."""
    changed = [(before[record], each) for record, each in after.items() if each != before[record]]
    transaction.execute_many(_UPDATE, [_values(transaction, vault, old, new) for old, new in changed])


def _values(transaction: Transaction, vault: Vault, old: StoredNotification, new: StoredNotification) -> Values:
    sealed = old.sealed_url
    if (new.url, new.url_version) != (old.url, old.url_version):
        transaction.erases_secrets = transaction.erases_secrets or sealed is not None
        sealed = _sealed_url(transaction, vault, new.id, new.url, new.url_version)
    shown = new.url if sealed is None else new.shown_url
    return new._asdict() | {"url": shown, "sealed_url": sealed, "revision": transaction.revision}


# sentence: 4.3-key-removed 4.3-key-set
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
