"""What may be an identifier: 1 to 255 characters, none of them a control character, not `.` or `..`."""

import random
import time

MAX_LENGTH = 255
_LOW_62 = (1 << 62) - 1


def identifier_problem(value: str) -> str:
    """What is wrong with `value` as an identifier; empty when nothing is."""
    if not 1 <= len(value) <= MAX_LENGTH:
        return f"must have 1 to {MAX_LENGTH} characters"
    if value in (".", ".."):
        return "must not be a dot segment"
    if not value.isprintable() and any(_is_control(character) for character in value):
        return "must not hold control characters"
    return ""


def _is_control(character: str) -> bool:
    # C0, DEL and C1: the category "Cc" of Unicode, which is fixed for good.
    return character < " " or "\x7f" <= character <= "\x9f"


def new_identifier() -> str:
    """A UUID of version 7 (RFC 9562): it begins with the time, so that new ones lie together in an index.

    Unique, not secret; so from a generator that needs no system call, which would hand over the interpreter.
    """
    chance = random.getrandbits(74)
    number = time.time_ns() // 1_000_000 << 80 | 7 << 76 | chance >> 62 << 64 | 0b10 << 62 | chance & _LOW_62
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
