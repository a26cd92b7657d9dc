"""What goes out in one try: where to, with which headers, which body. Read anew for each try."""

from typing import NamedTuple

from relaydeck.notifications import signing
from relaydeck.notifications.events import COLUMNS, Event
from relaydeck.notifications.notification_rows import place
from relaydeck.notifications.outbox import Due
from relaydeck.notifications.retries import Answer
from relaydeck.secret import Secret
from relaydeck.store.open_store import Store
from relaydeck.store.sealing import Damaged

_MESSAGE = (
    f"SELECT url, sealed_signing_key, sealed_previous_key, previous_key_until, {COLUMNS}"
    " FROM notifications n JOIN events e ON e.seq = :seq WHERE n.id = :id"
)


class Message(NamedTuple):
    url: str
    headers: dict[str, str]
    body: bytes


class Messages:
    def __init__(self, store: Store) -> None:
        self._read = store.database.read
        self._vault = store.vault

    def read(self, due: Due, now: int) -> Message | Answer:
        """The message as of now, or the reason why there is none to send."""
        found = self._read(_MESSAGE, {"seq": due.sequence, "id": due.notification_id})
        if not found:
            return Answer(problem="receiver_removed", final=True)
        url, sealed, previous, previous_until, *row = found[0]
        event = Event(*row)
        if previous is not None and now >= previous_until:
            previous = None
        try:
            keys = [self._open(due.notification_id, each) for each in (sealed, previous) if each is not None]
        except Damaged:
            return Answer(problem="key_unreadable")  # unsigned, it would be worse than late
        body = event.body()
        return Message(url, signing.headers(keys, event.id, now, body), body)

    def _open(self, notification_id: str, sealed: bytes) -> Secret:
        return Secret(self._vault.open(sealed, place(notification_id)).decode())
