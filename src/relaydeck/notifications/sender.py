"""One attempt to deliver an event: its signed message, the request and the response.

The signature is that of Standard Webhooks 1.0: HMAC-SHA256 over `id.timestamp.body`, one for each key in use. The
request is guarded, has a timeout, and reads a bounded part of the response.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import ssl
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from yarl import URL

from relaydeck.errors import Damaged
from relaydeck.notifications.delivery_queue import PendingDelivery, ReceiverResponse
from relaydeck.notifications.events import COLUMNS, Event
from relaydeck.notifications.notification_changes import opened_url, place, previous_place
from relaydeck.outgoing.address_guard import AddressGuard
from relaydeck.outgoing.connections import ConnectionFailed, ConnectionFailure, Opener, Resolve
from relaydeck.outgoing.http_client import HttpClient, Limits
from relaydeck.secret import Secret
from relaydeck.settings.values import AddressRange
from relaydeck.store import audit
from relaydeck.store.open_store import Store
from relaydeck.web_addresses import web_address_problem

# -- The message --

PREFIX = "whsec_"


def key_bytes(key: Secret) -> bytes:
    """A key that starts `whsec_` and decodes is used decoded; any other string by its UTF-8 bytes."""
    text = key.reveal()
    encoded = text.removeprefix(PREFIX)
    if encoded and text.startswith(PREFIX):
        try:
            # Receivers' libraries accept keys with and without padding.
            return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        except (binascii.Error, ValueError):
            pass
    return text.encode()


# sentence: 6-signing-key
def sign(key: Secret, message_id: str, timestamp: int, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key_bytes(key), signed, hashlib.sha256).digest()).decode()


def message_headers(keys: Sequence[Secret], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a message; without a key there is no signature."""
    found = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
    if keys:
        found["webhook-signature"] = " ".join(sign(key, message_id, timestamp, body) for key in keys)
    return found


_MESSAGE = (
    f"SELECT {COLUMNS}, n.url, n.sealed_url, n.url_version, n.sealed_signing_key, n.sealed_previous_key,"
    " n.previous_key_until, n.secret_version"
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
    row, notification_id = found[0], delivery.notification_id
    sealed = {place: row.sealed_signing_key}
    if now < (row.previous_key_until or 0):
        sealed[previous_place] = row.sealed_previous_key
    try:
        url = opened_url(store.vault, notification_id, row)
        keys = [
            Secret(store.vault.open(each, at(notification_id, row.secret_version)).decode())
            for at, each in sealed.items()
            if each is not None
        ]
    except Damaged:
        return ReceiverResponse(problem="key_unreadable")  # a late event is better than an unsigned one
    event = Event._make(row[: len(Event._fields)])
    body = event.body()
    headers = message_headers(keys, event.id, now, body)
    if with_audit_head:
        headers["relaydeck-audit-head"] = str(audit.head(store.database.read))
    return Message(url, headers, body)


# -- The request --

BODY_BYTES = 512
_BODY_SECONDS = 2.0  # the status decides; the body is only shown to the operator
_KEEP_ALIVE_SECONDS = 4.0  # less than common servers: an attempt must not use a connection that is about to close
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "Relaydeck"}


class Sender:
    """One per event loop. Ignores the environment (proxies, .netrc)."""

    def __init__(
        self,
        allow: Sequence[AddressRange],
        timeout_seconds: float,
        *,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        limits = Limits(BODY_BYTES, idle_seconds=_KEEP_ALIVE_SECONDS, cut_seconds=_BODY_SECONDS)
        opener = Opener(AddressGuard(allow), resolve, tls)
        self._client = HttpClient(opener, limits, _HEADERS, "event delivery")

    async def close(self) -> None:
        await self._client.close()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> ReceiverResponse:
        """Returns a response with a problem, and does not raise, when the receiver, network or name server fails."""
        if web_address_problem(url):
            return ReceiverResponse(problem="bad_url")
        try:
            async with asyncio.timeout(self._timeout_seconds) as scope:
                # The status decides, so the time is that of the head; the body has a time of its own.
                response = await self._client.send("POST", URL(url), headers, body, lambda: scope.reschedule(None))
        except TimeoutError:
            return ReceiverResponse(problem=ConnectionFailure.TIMED_OUT.value)
        except ConnectionFailed as failure:
            return ReceiverResponse(problem=failure.cause.value)
        except ValueError:
            return ReceiverResponse(problem=ConnectionFailure.BAD_URL.value)
        return ReceiverResponse(response.status, "", printable(response.body), response.retry_after[:64])


def printable(read: bytes) -> str:
    """Bytes from outside as one line that is safe to show."""
    text = read.decode("utf-8", "replace")
    return "".join(character if character.isprintable() else " " for character in text).strip()
