"""Changes of notifications, each with its entry in the audit log."""

from collections.abc import Sequence
from typing import NamedTuple

from relaydeck.errors import NotificationNotFound
from relaydeck.notifications import events, notification_rows
from relaydeck.notifications.events import Event
from relaydeck.notifications.kinds import EventKind
from relaydeck.notifications.model import Notification, NotificationChange
from relaydeck.notifications.notification_rows import StoredNotification
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.change_context import ChangeContext, change_entries
from relaydeck.store.database import Transaction
from relaydeck.store.facts import Facts, Hidden, secret_fact


def create(context: ChangeContext, notification: Notification) -> None:
    signing_key = notification.signing_key or None
    notification_rows.create(
        context.transaction, context.vault, notification, signing_key, origin=context.origin, now=context.now
    )
    context.created("notification", notification.id, _stored_facts(context, notification.id))


class RequestedUpdate(NamedTuple):
    """An update and the actor that requested it."""

    notification_id: str
    change: NotificationChange
    actor: str


def update(context: ChangeContext, notification_id: str, change: NotificationChange) -> Notification:
    """Make the change and return the result. Raises NotificationNotFound."""
    requested = RequestedUpdate(notification_id, change, context.actor)
    (outcome,) = update_all(context.transaction, context.audit, [requested], now=context.now)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome.notification


def update_all(
    transaction: Transaction, audit: AuditLog, many: Sequence[RequestedUpdate], *, now: int
) -> list[StoredNotification | NotificationNotFound]:
    """Make the changes in their order; for each, the result or what `update` would raise."""
    vault = audit.vault.refreshed(transaction)
    found = notification_rows.find(transaction, vault, [requested.notification_id for requested in many])
    stored, facts = dict(found), {record: _facts(each) for record, each in found.items()}
    outcomes: list[StoredNotification | NotificationNotFound] = []
    entries: list[AuditEntry] = []
    for record, change, actor in many:
        before = stored.get(record)
        if before is None:
            outcomes.append(NotificationNotFound("no notification has this id"))
            continue
        # Another update of the same record in this group starts from the result of this one.
        version = transaction.chain_end[0] + len(entries)
        after = stored[record] = notification_rows.change(transaction, vault, before, change, version=version, now=now)
        old, facts[record] = facts[record], _facts(after)
        entries += change_entries(now, actor, "notification.updated", record, before=old, after=facts[record])
        outcomes.append(after)
    notification_rows.save(transaction, vault, found, stored)
    audit.append(transaction, entries)
    return outcomes


def delete(context: ChangeContext, notification_id: str) -> None:
    """Raises StillInUse while a relayer refers to it."""
    context.remove("notification", notification_id, _stored_facts(context, notification_id))
    events.end_deliveries(context.transaction, notification_id)


def send_test(context: ChangeContext, notification_id: str) -> Event:
    """Record a test event for the receiver. Raises NotificationNotFound."""
    _stored_facts(context, notification_id)
    sequence = events.record(
        context.transaction,
        EventKind.NOTIFICATION_TEST,
        {"notification_id": notification_id},
        notification_id=notification_id,
        now=context.now,
    )
    context.performed("notification.tested", notification_id)
    return events.list_events(context.transaction.all, sequence - 1, 1)[0]


def _stored_facts(context: ChangeContext, notification_id: str) -> Facts:
    found = notification_rows.find(context.transaction, context.vault, [notification_id])
    if not found:
        raise NotificationNotFound("no notification has this id")
    return _facts(found[notification_id])


def _facts(stored: StoredNotification) -> Facts:
    return {
        "type": stored.type,
        "url": Hidden(stored.url, stored.shown_url),
        "signing_key": secret_fact(stored.sealed_signing_key),
    }
