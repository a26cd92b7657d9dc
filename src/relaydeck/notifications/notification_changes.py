"""Notifications in the database, and their changes, each with its entry in the audit log."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.errors import Damaged, NotificationNotFound
from relaydeck.notifications import events
from relaydeck.notifications.events import Event
from relaydeck.notifications.model import EventKind, Notification, NotificationChange, NotificationType
from relaydeck.roles import APPLICATIONS
from relaydeck.scope import Scope
from relaydeck.secret import Secret
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.changes import ChangeContext, Preparation, RowChange, change_entries
from relaydeck.store.database import Row, Transaction
from relaydeck.store.protection import closed_records
from relaydeck.store.record_table import Facts, Hidden, RecordTable, StoredValues, difference, secret_fact, to_json
from relaydeck.store.sealing import Keyring, Place
from relaydeck.store.vault import Vault
from relaydeck.web_addresses import may_contain_key, shown_address

_UNKNOWN = "no notification has this id"
PREVIOUS_KEY_SECONDS = 86_400  # how long a replaced key signs beside the new one


class _NotificationTable(RecordTable[Notification]):
    """A URL that may contain a key is sealed; its column then has what may be shown of it."""

    more_columns = ("sealed_url", "url_version")

    def from_row(self, row: Row, vault: Vault) -> Notification:
        return msgspec.structs.replace(super().from_row(row, vault), url=opened_url(vault, row.id, row))

    def stored_values(self, record: Notification, keyring: Keyring, version: int) -> StoredValues:
        sealed = _sealed_url(keyring, record.id, record.url, version)
        kept = msgspec.structs.replace(record, url=record.url if sealed is None else shown_address(record.url))
        url = {"sealed_url": sealed, "url_version": 0 if sealed is None else version}
        return super().stored_values(kept, keyring, version) | url


TABLE = _NotificationTable("notifications", Notification)
COLUMNS = TABLE.columns


def opened_url(vault: Vault, notification_id: str, row: Row) -> str:
    """The whole URL of a row with the columns `url`, `sealed_url` and `url_version`. Raises Damaged."""
    if row.sealed_url is None:
        url: str = row.url
        return url
    return vault.open(row.sealed_url, TABLE.place(notification_id, "url", row.url_version)).decode()


def _sealed_url(keyring: Keyring, record: str, url: str, version: int) -> bytes | None:
    return keyring.seal(url.encode(), TABLE.place(record, "url", version)) if may_contain_key(url) else None


def place(notification_id: str, version: int) -> Place:
    return TABLE.place(notification_id, "signing_key", version)


def previous_place(notification_id: str, version: int) -> Place:
    """Another one, so that the previous key cannot be put back as the current one."""
    return TABLE.place(notification_id, "previous_key", version)


def from_row(row: Row, vault: Vault) -> Notification:
    """A notification without its signing key, which stays sealed. Raises Damaged."""
    return msgspec.structs.replace(without_url(row), url=opened_url(vault, row.id, row))


def without_url(row: Row) -> Notification:
    """For a row with a URL that does not open: only what may be shown of it."""
    return msgspec.structs.replace(TABLE.without_sealed(row), has_signing_key=row.sealed_signing_key is not None)


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
    labels: str | None  # as JSON

    @property
    def notification(self) -> Notification:
        has_key = self.sealed_signing_key is not None
        return Notification(id=self.id, type=self.type, url=self.url, has_signing_key=has_key)

    @property
    def own_labels(self) -> dict[str, str]:
        return {} if self.labels is None else msgspec.json.decode(self.labels)

    @property
    def url_is_damaged(self) -> bool:
        """Whether only a part of the URL is known. What is sealed may contain a key, and that part never does."""
        return self.sealed_url is not None and not may_contain_key(self.url)

    @property
    def facts(self) -> Facts:
        return _facts(self.type, self.url, self.sealed_signing_key, self.labels)


_changed = ", ".join(f"{column} = :{column}" for column in StoredNotification._fields[1:])
_UPDATE = f"UPDATE notifications SET {_changed}, revision = :revision WHERE id = :id"


def find(transaction: Transaction, vault: Vault, ids: Sequence[str]) -> dict[str, StoredNotification]:
    """The stored ones of these notifications, by id."""
    rows = transaction.matching("notifications", StoredNotification._fields, "id", ids)
    return {row.id: stored_notification(row, vault) for row in rows}


def stored_notification(row: Row, vault: Vault) -> StoredNotification:
    """From a row that begins with its fields. Of a URL that does not open any more, what may be shown."""
    stored = StoredNotification._make(row[: len(StoredNotification._fields)])
    with suppress(Damaged):
        return stored._replace(url=opened_url(vault, row.id, row))
    return stored


def change_stored(
    vault: Vault, stored: StoredNotification, wanted: NotificationChange, *, version: int, now: int
) -> StoredNotification:
    """After the change. A new URL and a new key get this version; a URL is sealed when it is stored."""
    changed = stored if wanted.type is None else stored._replace(type=wanted.type)
    if wanted.labels is not None:
        labels = None if wanted.labels is UNSET else msgspec.json.encode(wanted.labels).decode()
        changed = changed._replace(labels=labels)
    if wanted.url is not None and (wanted.url != stored.url or stored.url_is_damaged):
        changed = changed._replace(url=wanted.url, url_version=version, sealed_url=None)
    if wanted.signing_key is not None:
        changed = _with_key(vault, changed, wanted.signing_key, version, now)
    return changed


def save(
    transaction: Transaction,
    vault: Vault,
    before: Mapping[str, StoredNotification],
    after: Mapping[str, StoredNotification],
) -> None:
    """Write those that differ from what `find` returned, each once, however many changes were made to it."""
    changed = [(before[record], each) for record, each in after.items() if each != before[record]]
    transaction.erases_secrets = transaction.erases_secrets or any(_erases_secret(old, new) for old, new in changed)
    many = [{"revision": transaction.revision, **_values(vault, old, new)} for old, new in changed]
    transaction.execute_many(_UPDATE, many)


def _values(vault: Vault, old: StoredNotification, new: StoredNotification) -> StoredValues:
    """By column. Only here a new URL is sealed: of many that follow each other, one is stored."""
    sealed = new.sealed_url
    if (new.url, new.url_version) != (old.url, old.url_version):
        sealed = _sealed_url(vault.keyring, new.id, new.url, new.url_version)
    return new._asdict() | {"url": new.url if sealed is None else shown_address(new.url), "sealed_url": sealed}


def _erases_secret(old: StoredNotification, new: StoredNotification) -> bool:
    names = ("sealed_url", "sealed_signing_key", "sealed_previous_key")
    return any(getattr(old, name) not in (None, getattr(new, name)) for name in names)


def sealed_anew(vault: Vault, old: StoredNotification, new: StoredNotification) -> StoredValues:
    """The values of a change that is prepared ahead of its transaction: a rotation may retire the keys of old ones."""
    values = _values(vault, old, new)
    del values["id"]
    places = {
        "sealed_url": TABLE.place(new.id, "url", new.url_version),
        "sealed_signing_key": place(new.id, new.secret_version),
        "sealed_previous_key": previous_place(new.id, new.secret_version),
    }
    return values | {column: _sealed_anew(vault, values[column], where) for column, where in places.items()}


def _sealed_anew(vault: Vault, sealed: bytes | None, where: Place) -> bytes | None:
    try:
        return None if sealed is None else vault.keyring.seal(vault.open(sealed, where), where)
    except Damaged:
        return sealed


# sentence: 4.3-key-removed 4.3-key-set
def _with_key(vault: Vault, stored: StoredNotification, new: Secret, version: int, now: int) -> StoredNotification:
    """A replaced key is kept for a day. A removed key is not kept, nor is one that cannot be opened any more."""
    previous, until = None, None
    old = _opened(vault, stored)
    if new.reveal() and old == new:
        return stored
    if new.reveal() and old is not None:
        previous, until = _sealed(vault, previous_place(stored.id, version), old), now + PREVIOUS_KEY_SECONDS
    return stored._replace(
        sealed_signing_key=_sealed(vault, place(stored.id, version), new),
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


def _sealed(vault: Vault, where: Place, signing_key: Secret) -> bytes | None:
    return vault.keyring.seal(signing_key.reveal().encode(), where) if signing_key.reveal() else None


class RequestedUpdate(NamedTuple):
    """An update and the actor that requested it."""

    notification_id: str
    change: NotificationChange
    actor: str
    scope: Scope | None = None  # of its sender
    role: str = ""


def update_all(
    transaction: Transaction, audit: AuditLog, many: Sequence[RequestedUpdate], *, now: int
) -> list[StoredNotification | NotificationNotFound]:
    """Make the changes in their order; for each, the result or why there is none.

    What a scope may not change is answered like what is outside of it: the contract has no other message for it.
    """
    vault = audit.vault.refreshed(transaction)
    found = find(transaction, vault, [requested.notification_id for requested in many])
    stored, facts = dict(found), {record: each.facts for record, each in found.items()}
    outcomes: list[StoredNotification | NotificationNotFound] = []
    entries: list[AuditEntry] = []
    closed = _closed_to_applications(transaction, many)
    for record, change, actor, scope, role in many:
        before = stored.get(record)
        may_change = scope is None or (before and scope.may_change("notification", record, before.own_labels))
        if before is None or not may_change or (role in APPLICATIONS and record in closed):
            outcomes.append(NotificationNotFound(_UNKNOWN))
            continue
        # Another update of the same record in this group starts from the result of this one.
        version = transaction.chain_end[0] + len(entries)
        after = stored[record] = change_stored(vault, before, change, version=version, now=now)
        old, facts[record] = facts[record], after.facts
        entries += change_entries(now, actor, "notification.updated", record, before=old, after=facts[record])
        outcomes.append(after)
    save(transaction, vault, found, stored)
    audit.append(transaction, entries)
    return outcomes


def _closed_to_applications(transaction: Transaction, many: Sequence[RequestedUpdate]) -> set[str]:
    """Those of the notifications. Not from memory: another machine may have closed them a moment ago."""
    records, found = [each.notification_id for each in many if each.role in APPLICATIONS], set[str]()
    for each in closed_records(transaction.all) if records else ():
        if each.has_kind("notification"):
            with transaction.within(each.scope):
                found |= transaction.present("notifications", "id", records)
    return found


def prepare_creation(preparation: Preparation, notification: Notification) -> RowChange:
    values = TABLE.stored_values(notification, preparation.keyring, preparation.version)
    facts = _facts(notification.type, notification.url, values["sealed_signing_key"], values["labels"])
    return RowChange("notifications", "created", notification.id, values, None, to_json(facts))


def prepare_update(preparation: Preparation, notification: Notification) -> RowChange:
    seq, before = _stored(preparation, notification.id)
    key = notification.signing_key or None
    wanted = NotificationChange(notification.type, notification.url, key, notification.labels)
    after = change_stored(preparation.vault, before, wanted, version=preparation.version, now=preparation.now)
    values, facts = sealed_anew(preparation.vault, before, after), difference(before.facts, after.facts)
    return RowChange("notifications", "updated", notification.id, {"seq": seq} | values, *facts)


def prepare_deletion(preparation: Preparation, notification_id: str) -> RowChange:
    seq, stored = _stored(preparation, notification_id)
    return RowChange("notifications", "deleted", notification_id, {"seq": seq}, to_json(stored.facts), None)


def _stored(preparation: Preparation, notification_id: str) -> tuple[int, StoredNotification]:
    row = preparation.row("notifications", ", ".join(StoredNotification._fields), "id", notification_id)
    return row.seq, stored_notification(row, preparation.vault)


def send_test(context: ChangeContext, notification_id: str) -> Event:
    """Record a test event for the receiver. Raises NotificationNotFound."""
    if not context.transaction.present("notifications", "id", [notification_id]):
        raise NotificationNotFound(_UNKNOWN)
    sequence = events.record(
        context.transaction,
        EventKind.NOTIFICATION_TEST,
        {"notification_id": notification_id},
        notification_id=notification_id,
        now=context.now,
    )
    context.performed("notification.tested", notification_id)
    return events.list_events(context.transaction.all, sequence - 1, 1)[0]


def _facts(kind: NotificationType, url: str, sealed_key: bytes | None, labels: str | None) -> Facts:
    labelled = {} if labels is None else {"labels": msgspec.json.decode(labels)}
    return {"type": kind, "url": Hidden(url, shown_address(url)), "signing_key": secret_fact(sealed_key)} | labelled
