"""The Standard Webhooks 1.0 signature: HMAC-SHA256 over `id.timestamp.body`, one for each key in use."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from relaydeck.secret import Secret

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
def signature(key: Secret, message_id: str, timestamp: int, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key_bytes(key), signed, hashlib.sha256).digest()).decode()


def headers(keys: Sequence[Secret], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a message; without a key there is no signature."""
    found = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
    if keys:
        found["webhook-signature"] = " ".join(signature(key, message_id, timestamp, body) for key in keys)
    return found
