"""Verifies a received webhook by Standard Webhooks 1.0. Needs no connection to the service."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence

import msgspec

from relaydeck.client.errors import MissingHeader, StaleTimestamp, WebhookError, WrongSignature
from relaydeck.client.records import Event

_PREFIX = "whsec_"
TOLERANCE_SECONDS = 300


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes,
    key: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> Event:
    """The event of a message that the holder of `key` sent within `tolerance` seconds. Raises `WebhookError`.

    `body` is the body as it arrived, before any parsing. A service repeats a message until it is acknowledged, with
    the same `Event.id`: remember the ids you have handled. Give several keys while you replace one. An empty key, with
    which anybody can sign, verifies nothing.

    >>> from relaydeck.client import verify_webhook, WrongSignature
    >>> headers = {"webhook-id": "evt_1", "webhook-timestamp": "1000", "webhook-signature": "v1,AAAA"}
    >>> try:
    ...     verify_webhook(headers, b"{}", "a signing key", now=1000)
    ... except WrongSignature as error:
    ...     print(error)
    no signature of the message was made with a known key
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp = _header(given, "webhook-id"), _header(given, "webhook-timestamp")
    _require_recent(timestamp, time.time() if now is None else now, tolerance)
    signed = f"{message_id}.{timestamp}.".encode(errors="surrogatepass") + body
    keys = [each for each in ([key] if isinstance(key, str) else key) if each]
    _require_signature([_signature(each, signed) for each in keys], _header(given, "webhook-signature"))
    try:
        return msgspec.json.decode(body, type=Event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WebhookError("the message is signed, but its body is not an event") from None


def _header(given: Mapping[str, str], name: str) -> str:
    value = given.get(name)
    if not value or not isinstance(value, str):  # some servers give a list for a repeated header
        raise MissingHeader(f"the message does not have exactly one header {name}")
    return value


def _require_recent(timestamp: str, now: float, tolerance: float) -> None:
    if not (timestamp.isascii() and timestamp.isdigit()) or len(timestamp) > 18:
        raise StaleTimestamp("webhook-timestamp is not a number of seconds")
    if abs(now - int(timestamp)) > tolerance:
        raise StaleTimestamp(f"the message was signed more than {tolerance:g} s away from now")


def _require_signature(expected: Sequence[bytes], given: str) -> None:
    """Every pair is compared, so the time taken tells nothing about which key or signature came close."""
    versions = [each.partition(",") for each in given.split(" ")]
    # A server may decode bytes that are not UTF-8 to surrogates.
    offered = [signature.encode(errors="surrogatepass") for version, _, signature in versions if version == "v1"]
    if not any([hmac.compare_digest(ours, theirs) for ours in expected for theirs in offered]):  # noqa: C419
        raise WrongSignature("no signature of the message was made with a known key")


def _signature(key: str, signed: bytes) -> bytes:
    return base64.b64encode(hmac.new(_key_bytes(key), signed, hashlib.sha256).digest())


def _key_bytes(key: str) -> bytes:
    """A key that starts `whsec_` and decodes is used decoded; any other string by its UTF-8 bytes."""
    encoded = key.removeprefix(_PREFIX)
    if encoded and key.startswith(_PREFIX):
        try:
            return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        except (binascii.Error, ValueError):
            pass
    return key.encode()
