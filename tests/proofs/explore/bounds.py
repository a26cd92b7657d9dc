"""The time limits of the service in one process: short where a peer is silent, else long for a busy machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_Bounds = list[tuple[Any, str, object]]
_LONG = 60.0


@contextmanager
def short_bounds() -> Iterator[None]:
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in _short()]
    _set(_short())
    try:
        yield
    finally:
        _set(before)


def set_long_bounds() -> None:
    """Until the process ends."""
    _set(_long())


def _set(bounds: _Bounds) -> None:
    for owner, name, value in bounds:
        setattr(owner, name, value)


def _short() -> _Bounds:
    from relaydeck.outgoing import connections as outgoing_connections
    from relaydeck.store import follower, postgres, postgres_connection, postgres_reader
    from relaydeck.worker import housekeeping

    silence = {"lock_timeout": "300ms", "idle_in_transaction_session_timeout": "500ms"}
    least = {**postgres_connection._DEFAULTS, "connect_timeout": "2"}  # the least that the driver takes
    return [
        (outgoing_connections, "LOOKUP_SECONDS", 0.5),
        (postgres_connection, "_DEFAULTS", least),
        (postgres_connection, "LONGEST_WAIT", 1.5),
        (postgres_reader, "LONGEST_WAIT", 1.5),
        (postgres_connection, "_WRITER_LIMITS", postgres_connection._WRITER_LIMITS | silence),
        (postgres, "LONGEST_STATEMENT", 1.0),
        (postgres, "_LONGEST_BEGIN", 1.0),
        (postgres, "LONGEST_MIGRATION", 1.5),
        (postgres, "_LONGEST_COMMIT", 0.3),
        (postgres, "_LONGEST_SEARCH", 0.3),
        (housekeeping, "_CHECK_SECONDS", 0.1),
        (follower, "REFRESH_SECONDS", 0.2),
        (follower, "_UNAVAILABLE_SECONDS", 0.6),
        (follower, "_SILENT_SECONDS", 0.5),
        (follower, "_LONGEST_WAIT", 0.5),
    ]


def _long() -> _Bounds:
    from relaydeck.outgoing import connections as outgoing_connections
    from relaydeck.store import follower, postgres, postgres_connection

    silence = {"idle_in_transaction_session_timeout": f"{_LONG:g}s"}
    return [
        (outgoing_connections, "LOOKUP_SECONDS", _LONG),
        (postgres_connection, "_WRITER_LIMITS", postgres_connection._WRITER_LIMITS | silence),
        (postgres, "LONGEST_STATEMENT", _LONG),
        (postgres, "_LONGEST_BEGIN", _LONG),
        (postgres, "_LONGEST_COMMIT", _LONG),
        (postgres, "_LONGEST_SEARCH", _LONG),
        (follower, "_UNAVAILABLE_SECONDS", _LONG),
        (follower, "_SILENT_SECONDS", _LONG),
        (follower, "_LONGEST_WAIT", _LONG),
    ]
