"""Moments as text: UTC, in the form of RFC 3339."""

import time
from datetime import datetime
from functools import lru_cache
from typing import overload

_FIRST_YEAR = 1970


@overload
def utc(seconds: float) -> str: ...
@overload
def utc(seconds: float | None) -> str | None: ...
def utc(seconds: float | None) -> str | None:
    """Seconds since the epoch as `2026-01-31T23:59:59Z`. A moment that is not known stays None."""
    return None if seconds is None else f"{_to_the_second(int(seconds))}Z"


@overload
def utc_with_milliseconds(milliseconds: int) -> str: ...
@overload
def utc_with_milliseconds(milliseconds: int | None) -> str | None: ...
def utc_with_milliseconds(milliseconds: int | None) -> str | None:
    """Milliseconds since the epoch as `2026-01-31T23:59:59.123Z`."""
    if milliseconds is None:
        return None
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_to_the_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=8)  # the lines of a log share their seconds
def _to_the_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def parse_utc(text: str) -> int | None:
    """`2026-01-31T23:59:59Z`, or a moment with another offset, as seconds since the epoch; None: it is no moment."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None or moment.year < _FIRST_YEAR else int(moment.timestamp())
