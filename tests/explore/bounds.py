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
    from relaydeck import outgoing_connections
    from relaydeck.store import postgres, postgres_connection, remote_follower
    from relaydeck.worker import upkeep

    least = {**postgres_connection._DEFAULTS, "connect_timeout": "2"}  # the least that the driver takes
    return [
        (outgoing_connections, "LOOKUP_SECONDS", 0.5),
        (postgres_connection, "_DEFAULTS", least),
        (postgres_connection, "_LONGEST_WAIT", 1.5),
        (postgres, "LONGEST_STATEMENT", 1.0),
        (postgres, "LONGEST_MIGRATION", 1.5),
        (postgres, "_LONGEST_COMMIT", 0.3),
        (postgres, "_LONGEST_SEARCH", 0.3),
        (upkeep, "_CHECK_SECONDS", 0.1),
        (remote_follower, "REFRESH_SECONDS", 0.2),
        (remote_follower, "_UNAVAILABLE_SECONDS", 0.6),
        (remote_follower, "_LONGEST_WAIT", 0.5),
    ]


def _long() -> _Bounds:
    from relaydeck import outgoing_connections
    from relaydeck.store import postgres, remote_follower

    return [
        (outgoing_connections, "LOOKUP_SECONDS", _LONG),
        (postgres, "LONGEST_STATEMENT", _LONG),
        (postgres, "_LONGEST_COMMIT", _LONG),
        (postgres, "_LONGEST_SEARCH", _LONG),
        (remote_follower, "_UNAVAILABLE_SECONDS", _LONG),
        (remote_follower, "_LONGEST_WAIT", _LONG),
    ]
