"""Threads that read PostgreSQL aside from the event loop, each over a connection of its own.

Of its own, because a snapshot belongs to a connection: two threads that shared one would end each other's.
"""

import threading
from collections.abc import Callable

from relaydeck.side_threads import SideThreads
from relaydeck.store.database import Result
from relaydeck.store.postgres_connection import PostgresConnection, break_off

_THREADS = 2


class Aside:
    def __init__(self, connect: Callable[[], PostgresConnection]) -> None:
        self._connect = connect
        self._connections: dict[int, PostgresConnection | None] = {}
        self._threads = SideThreads(_THREADS, "reader", self._enter)

    def _enter(self) -> None:
        self._connections[threading.get_ident()] = None

    async def run(self, work: Callable[[], Result]) -> Result:
        return await self._threads.run(work)

    @property
    def connection(self) -> PostgresConnection | None:
        """Of the calling thread; None when that is not one of these. Raises StoreUnreachable."""
        thread = threading.get_ident()
        if thread not in self._connections:
            return None
        found = self._connections[thread]
        if found is None or found.closed:
            found = self._connections[thread] = self._connect()
        return found

    @property
    def connections(self) -> list[PostgresConnection | None]:
        return list(self._connections.values())

    def give_up(self, error: Exception) -> None:
        """Answer those who wait, whether for an answer of the server or only to be connected."""
        self._threads.give_up(error)

    def close(self) -> None:
        if not self._threads.end():
            for left_behind in self.connections:
                break_off(left_behind)
            return
        for connection in self._connections.values():
            if connection is not None:
                connection.close()
        self._connections.clear()
