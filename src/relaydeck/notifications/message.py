"""The message of a delivery: the event, signed with the keys of its receiver."""

from operator import attrgetter
from typing import NamedTuple

from relaydeck.errors import Damaged
from relaydeck.notifications import signing
from relaydeck.notifications.events import COLUMNS, Event
from relaydeck.notifications.notification_rows import opened_url, place, previous_place
from relaydeck.notifications.outbox import PendingDelivery
from relaydeck.notifications.retries import ReceiverResponse
from relaydeck.secret import Secret
from relaydeck.store import audit
from relaydeck.store.open_store import Store
from relaydeck.store.sealing import Place
from relaydeck.store.vault import Vault

_MESSAGE = (
    f"SELECT {COLUMNS}, n.url, n.sealed_url, n.url_version, n.sealed_signing_key, n.sealed_previous_key,"
    " n.previous_key_until, n.secret_version"
    " FROM notifications n JOIN events e ON e.seq = :seq WHERE n.id = :id"
)

_event_fields = attrgetter(*Event._fields)


class Message(NamedTuple):
    url: str
    headers: dict[str, str]
    body: bytes


def read_message(
    store: Store, delivery: PendingDelivery, now: int, *, with_audit_head: bool = False
) -> Message | ReceiverResponse:
    """The message as of now, or the problem that prevents sending it."""
    found = store.database.read(_MESSAGE, {"seq": delivery.sequence, "id": delivery.notification_id})
    if not found:
        return ReceiverResponse(problem="receiver_removed", final=True)
    row, notification_id = found[0], delivery.notification_id
    event = Event(*_event_fields(row))
    previous = row.sealed_previous_key
    if previous is not None and now >= row.previous_key_until:
        previous = None
    try:
        url = opened_url(store.vault, notification_id, row)
        places = ((row.sealed_signing_key, place), (previous, previous_place))
        keys = [
            _open_key(store.vault, each, at(notification_id, row.secret_version))
            for each, at in places
            if each is not None
        ]
    except Damaged:
        return ReceiverResponse(problem="key_unreadable")  # a late event is better than an unsigned one
    body = event.body()
    headers = signing.headers(keys, event.id, now, body)
    if with_audit_head:
        headers["relaydeck-audit-head"] = str(audit.head(store.database.read))
    return Message(url, headers, body)


def _open_key(vault: Vault, sealed: bytes, where: Place) -> Secret:
    return Secret(vault.open(sealed, where).decode())
