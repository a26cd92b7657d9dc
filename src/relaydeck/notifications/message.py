"""The message of a delivery: the event, signed with the keys of its receiver."""

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
    f"SELECT n.id, url, sealed_url, url_version,"
    f" sealed_signing_key, sealed_previous_key, previous_key_until, secret_version, {COLUMNS}"
    " FROM notifications n JOIN events e ON e.seq = :seq WHERE n.id = :id"
)


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
    sealed, previous, previous_until, version, *row = found[0][4:]
    event = Event(*row)
    if previous is not None and now >= previous_until:
        previous = None
    try:
        url = opened_url(store.vault, found[0])
        places = ((sealed, place), (previous, previous_place))
        keys = [
            _open_key(store.vault, each, at(delivery.notification_id, version))
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
