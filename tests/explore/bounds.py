"""The time limits of the service, shortened in one process, so that a run with a silent peer takes a moment."""


def shorten_bounds() -> None:
    from relaydeck import outgoing_connections
    from relaydeck.store import postgres, postgres_connection, remote_follower
    from relaydeck.worker import upkeep

    outgoing_connections.LOOKUP_SECONDS = 0.5
    postgres_connection._DEFAULTS["connect_timeout"] = "2"  # the least that the driver takes
    postgres_connection._LONGEST_WAIT = 1.5
    postgres.LONGEST_STATEMENT = 1.0  # type: ignore[attr-defined]
    postgres._LONGEST_COMMIT = 0.3
    upkeep._CHECK_SECONDS = 0.1
    remote_follower.REFRESH_SECONDS = 0.2
    remote_follower._UNAVAILABLE_SECONDS = 0.6
    remote_follower._LONGEST_WAIT = 0.5
