"""Identifiers: 1 to 255 characters, none of them a control character, and not `.` or `..`."""

import random
import time
from itertools import count
from typing import Annotated

from relaydeck.fields import value_type

MAX_LENGTH = 255
_this_millisecond = (0, "", count())  # the millisecond, how its identifiers begin, and its counter


def identifier_problem(value: str) -> str:
    """What is wrong with `value` as an identifier; empty when nothing is."""
    if not 1 <= len(value) <= MAX_LENGTH:
        return f"must have 1 to {MAX_LENGTH} characters"
    if value in (".", ".."):
        return "must not be a dot segment"
    if not value.isprintable() and any(_is_control(character) for character in value):
        return "must not contain control characters"
    return ""


def _is_control(character: str) -> bool:
    # C0, DEL and C1: the category "Cc" of Unicode, which never changes.
    return character < " " or "\x7f" <= character <= "\x9f"


Identifier = Annotated[
    str,
    value_type(
        identifier_problem,
        minLength=1,
        maxLength=MAX_LENGTH,
        pattern=r"^[^\u0000-\u001f\u007f-\u009f]*$",
        **{"not": {"enum": [".", ".."]}},
    ),
]


def new_identifier() -> str:
    """A UUID of version 7 (RFC 9562). It begins with the time, so that new identifiers are neighbours in an index.

    Identifiers of one millisecond count up from a random number (section 6.2), which costs less than drawing each.
    They are unique, not secret: the generator needs no system call, which would release the interpreter lock.
    """
    global _this_millisecond
    millisecond, beginning, numbers = _this_millisecond
    if (now := time.time_ns() // 1_000_000) != millisecond:
        # Two threads that do this at the same time draw two beginnings, so their identifiers differ.
        _, beginning, numbers = _this_millisecond = (now, _beginning(now), count(random.getrandbits(47)))
    return f"{beginning}{next(numbers):012x}"


def _beginning(millisecond: int) -> str:
    version, variant = 0x7000 | random.getrandbits(12), 0x8000 | random.getrandbits(14)
    return f"{millisecond >> 16:08x}-{millisecond & 0xFFFF:04x}-{version:04x}-{variant:04x}-"
