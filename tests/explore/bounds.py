"""The time limits of the service, shortened in one process, so that a run with a silent peer takes a moment."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def short_bounds() -> Iterator[None]:
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in _bounds()]
    for owner, name, seconds in _bounds():
        setattr(owner, name, seconds)
    try:
        yield
    finally:
        for owner, name, seconds in before:
            setattr(owner, name, seconds)


def _bounds() -> list[tuple[Any, str, object]]:
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
        (upkeep, "_CHECK_SECONDS", 0.1),
        (remote_follower, "REFRESH_SECONDS", 0.2),
        (remote_follower, "_UNAVAILABLE_SECONDS", 0.6),
        (remote_follower, "_LONGEST_WAIT", 0.5),
    ]
