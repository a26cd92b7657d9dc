"""How a process hears of each commit to PostgreSQL, whichever machine made it."""

import os

from relaydeck.database_url import DatabaseUrl
from relaydeck.store.postgres_connection import connect, translate_errors

CHANNEL = "relaydeck"  # each commit notifies it of its revision


class PostgresChangeFeed:
    """A connection that is told of each commit."""

    def __init__(self, url: DatabaseUrl) -> None:
        self._connection = connect(url)
        try:
            with translate_errors():
                self._connection.execute(f"LISTEN {CHANNEL}")
                # Our own: the driver closes its socket as soon as the connection breaks, and the loop still watches it.
                self._descriptor = os.dup(self._connection.fileno())
        except BaseException:
            self._connection.close()
            raise

    def fileno(self) -> int:
        return self._descriptor

    def consume(self) -> None:
        """Take in what came; which revisions they were, a look will tell."""
        with translate_errors():
            self._connection.pgconn.consume_input()
            while self._connection.pgconn.notifies() is not None:
                pass

    def close(self) -> None:
        os.close(self._descriptor)
        self._connection.close()
