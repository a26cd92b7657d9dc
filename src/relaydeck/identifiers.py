"""What may be an identifier: 1 to 255 characters, none of them a control character, not `.` or `..`."""

import secrets
import time
import uuid

MAX_LENGTH = 255


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
    """A UUID of version 7 (RFC 9562): it begins with the time, so that new ones lie together in an index."""
    milliseconds = time.time_ns() // 1_000_000
    bits = milliseconds << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=bits))
