"""The message of a delivery: the event, signed with the keys of its receiver."""

from typing import NamedTuple

from relaydeck.errors import Damaged
from relaydeck.notifications import signing
from relaydeck.notifications.events import COLUMNS, Event
from relaydeck.notifications.notification_rows import place
from relaydeck.notifications.outbox import PendingDelivery
from relaydeck.notifications.retries import ReceiverResponse
from relaydeck.secret import Secret
from relaydeck.store.open_store import Store
from relaydeck.store.vault import Vault

_MESSAGE = (
    f"SELECT url, sealed_signing_key, sealed_previous_key, previous_key_until, {COLUMNS}"
    " FROM notifications n JOIN events e ON e.seq = :seq WHERE n.id = :id"
)


class Message(NamedTuple):
    url: str
    headers: dict[str, str]
    body: bytes


def read_message(store: Store, delivery: PendingDelivery, now: int) -> Message | ReceiverResponse:
    """The message as of now, or the problem that prevents sending it."""
    found = store.database.read(_MESSAGE, {"seq": delivery.sequence, "id": delivery.notification_id})
    if not found:
        return ReceiverResponse(problem="receiver_removed", final=True)
    url, sealed, previous, previous_until, *row = found[0]
    event = Event(*row)
    if previous is not None and now >= previous_until:
        previous = None
    try:
        keys = [
            _open_key(store.vault, delivery.notification_id, each) for each in (sealed, previous) if each is not None
        ]
    except Damaged:
        return ReceiverResponse(problem="key_unreadable")  # a late event is better than an unsigned one
    body = event.body()
    return Message(url, signing.headers(keys, event.id, now, body), body)


def _open_key(vault: Vault, notification_id: str, sealed: bytes) -> Secret:
    return Secret(vault.open(sealed, place(notification_id)).decode())
