"""Text that a form carries from one page to the next without showing it: an apply file may contain secrets.

It is sealed with a key of the session, which only the cookie and this service know.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from relaydeck.errors import BadRequest
from relaydeck.secret import Secret

_NONCE_BYTES = 12
_INFO = b"relaydeck console carried text 1"


def _cipher(session: Secret) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, None, _INFO).derive(session.reveal().encode()))


def carry(session: Secret, text: str) -> str:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return urlsafe_b64encode(nonce + _cipher(session).encrypt(nonce, text.encode(), None)).decode()


def carried(session: Secret, sealed: str) -> str:
    """Raises BadRequest when the text was not sealed in this session."""
    try:
        raw = urlsafe_b64decode(sealed.encode())
        return _cipher(session).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], None).decode()
    except (ValueError, InvalidTag):
        raise BadRequest("the file does not belong to this session: paste it again") from None
