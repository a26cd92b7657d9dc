"""Finds out what became of a commit that the server did not answer.

Every writer has the lock on the row of the clock until its transaction ends. So when a new connection gets this lock,
the transaction has ended: either its audit entry is stored, or nothing of it is.
"""

import time
from contextlib import closing

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import StoreUnreachable
from relaydeck.store.postgres_connection import PostgresConnection, connect, translate_errors

_RETRY_SECONDS = 0.05
_LEAST_SECONDS = 0.1  # for the answer of a server that a connection was just opened to
_LOCK = "BEGIN; SET LOCAL lock_timeout = {milliseconds}; SELECT 1 FROM clock FOR UPDATE"
_ENTRY = "SELECT 1 FROM audit WHERE seq = %s AND hash = %s"


def is_stored(url: DatabaseUrl, entry: tuple[int, bytes], seconds: float) -> bool:
    """Whether the transaction that wrote this audit entry was stored. Raises StoreTrouble when time runs out."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with closing(connect(url, writes=True, soon=True)) as connection:
                return _has_entry(connection, entry, max(deadline - time.monotonic(), _LEAST_SECONDS))
        except StoreUnreachable:  # it may be restarting
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)


def _has_entry(connection: PostgresConnection, entry: tuple[int, bytes], seconds: float) -> bool:
    with translate_errors(), connection.waiting(seconds):
        connection.execute(_LOCK.format(milliseconds=int(seconds * 1000)).encode(), prepare=False)
        return connection.execute(_ENTRY, entry).fetchone() is not None
