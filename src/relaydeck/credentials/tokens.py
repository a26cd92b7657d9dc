"""The format of an access token.

A token is `rdk_`, 256 random bits in base 62 (43 characters) and the CRC-32 of everything before it in base 62
(6 characters). A leak scanner finds a token by its prefix and confirms it by its checksum. The service stores only
the SHA-256 of a token.
"""

import hashlib
import re
import secrets
import string
import zlib

from relaydeck.secret import Secret

PREFIX = "rdk_"
LONGEST = 256  # of a bootstrap token; others are shorter
LIFETIMES = "a number and a unit: 45m, 12h, 30d or 8w"
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_LIFETIME = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def new_token() -> Secret:
    body = PREFIX + _base62(secrets.randbits(256), 43)
    return Secret(body + _base62(zlib.crc32(body.encode()), 6))


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def digest_of(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def lifetime_seconds(text: str) -> int | None:
    """`45m`, `12h`, `30d` or `8w` in seconds; None for any other text."""
    match = _LIFETIME.fullmatch(text)
    return int(match[1]) * _SECONDS[match[2]] if match else None
