"""The format of a token as a leak scanner would check it, written without the code under test."""

import string
import zlib

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase


def checksum_of(body: str) -> str:
    """The CRC-32 of the rest of a token, as six digits in base 62."""
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _ALPHABET[digit] + digits
    return digits


def is_token(text: str) -> bool:
    """Whether a text has the form of a token, checksum included."""
    return len(text) == 53 and text.startswith("rdk_") and checksum_of(text[:-6]) == text[-6:]
