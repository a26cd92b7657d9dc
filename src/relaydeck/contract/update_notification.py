"""`PATCH /api/v1/notifications/{notification_id}`."""

import time
from collections.abc import Callable, Sequence

from msgspec import UNSET

from relaydeck.contract.wire import NotificationUpdate
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.http.decoding import body_decoder
from relaydeck.http.envelope import encode_success
from relaydeck.http.parameters import path_identifier
from relaydeck.http.pipeline import Call, Reply, Written, sender_of, written_at
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import NotificationChange
from relaydeck.notifications.notification_changes import RequestedUpdate
from relaydeck.notifications.notification_rows import StoredNotification
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.store.audit import AuditLog
from relaydeck.store.database import Transaction

_decode = body_decoder(NotificationUpdate)
_DAMAGED = "url cannot be opened: only its scheme and host are shown, and no event is sent; set it again"


# sentence: 4.3-update 4.3-not-found
class UpdateNotification:
    """`webhooks`: gives hints about URLs."""

    def __init__(
        self, writer: CallerWriter, audit: AuditLog, webhooks: WebhookRule, *, now: Callable[[], float] = time.time
    ) -> None:
        self._write = writer.jointly(self._store)
        self._audit = audit
        self._webhooks = webhooks
        self._now = now

    async def __call__(self, call: Call) -> Reply:
        notification_id = path_identifier(call.argument)
        change = _change(_decode(call.headers, call.body))
        caller = sender_of(call)
        changed, written = await self._write(caller, RequestedUpdate(notification_id, change, caller.actor))
        return Reply(200, encode_success(changed.notification, self._notes(change, changed)), headers=written)

    def _notes(self, change: NotificationChange, changed: StoredNotification) -> list[str]:
        if changed.url_is_damaged:
            return [_DAMAGED]
        hint = self._webhooks.hint(change.url) if change.url else ""
        return [f"url {hint}"] if hint else []

    def _store(
        self, transaction: Transaction, many: Sequence[RequestedUpdate]
    ) -> Sequence[tuple[StoredNotification, Written] | Exception]:
        """Updates that wait together are written together."""
        outcomes = notification_changes.update_all(transaction, self._audit, many, now=int(self._now()))
        written = written_at(transaction.revision)
        return [outcome if isinstance(outcome, Exception) else (outcome, written) for outcome in outcomes]


# sentence: 4.3-key-kept
def _change(update: NotificationUpdate) -> NotificationChange:
    """Null leaves the signing key as it is, like an absent field."""
    return NotificationChange(
        type=None if update.type is UNSET else update.type,
        url=None if update.url is UNSET else update.url,
        signing_key=None if update.signing_key is UNSET else update.signing_key,
    )
