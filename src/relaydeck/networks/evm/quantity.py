"""Reader what a node answers: every reader raises `UrlFailed` for an answer of the wrong type.

A node that answers `true` where a number belongs is not trusted with the next question either.
"""

import re
from typing import Any

from relaydeck.networks.evm.errors import UrlFailed

_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}\Z")
_BYTES = re.compile(r"0x(?:[0-9a-fA-F]{2})*\Z")


def quantity(answer: Any) -> int:
    """A hex integer of at most 256 bits. Leading zeros are tolerated: some nodes send them."""
    if not isinstance(answer, str) or not _QUANTITY.match(answer):
        raise UrlFailed("answered something that is no number")
    return int(answer, 16)


def gas(answer: Any) -> int:
    """An amount of gas: positive, and within the 64 bits a transaction can state."""
    amount = quantity(answer)
    if not 0 < amount < 1 << 64:
        raise UrlFailed("answered an impossible amount of gas")
    return amount


def data(answer: Any) -> bytes:
    if not isinstance(answer, str) or not _BYTES.match(answer):
        raise UrlFailed("answered something that is no byte string")
    return bytes.fromhex(answer[2:])


def quantities(answer: Any) -> list[int]:
    if not isinstance(answer, list):
        raise UrlFailed("answered something that is no list of numbers")
    return [quantity(item) for item in answer]


def words(returned: bytes, count: int) -> list[int] | None:
    """The first `count` 32-byte words of a call's return data, or None when there are fewer."""
    if len(returned) < 32 * count:
        return None
    return [int.from_bytes(returned[32 * i : 32 * i + 32], "big") for i in range(count)]
