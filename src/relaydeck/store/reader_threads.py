"""Threads that read PostgreSQL outside the event loop, each over a connection of its own.

Each has its own connection because a snapshot belongs to a connection: a thread would end the snapshot of another.
"""

import threading
from collections.abc import Callable

from relaydeck.side_threads import SideThreads
from relaydeck.store.database import Result
from relaydeck.store.postgres_connection import PostgresConnection, interrupt

_THREADS = 2


class ReaderThreads:
    def __init__(self, connect: Callable[[], PostgresConnection]) -> None:
        self._connect = connect
        self._connections: dict[int, PostgresConnection | None] = {}
        self._threads = SideThreads(_THREADS, "reader", self._register)

    def _register(self) -> None:
        self._connections[threading.get_ident()] = None

    async def run(self, work: Callable[[], Result]) -> Result:
        return await self._threads.run(work)

    @property
    def connection(self) -> PostgresConnection | None:
        """The connection of the calling thread; None when it is not one of these. Raises StoreUnreachable."""
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

    def fail_pending(self, error: Exception) -> None:
        """Fail all pending work, whether it waits for an answer of the server or for a connection."""
        self._threads.give_up(error)

    def close(self) -> None:
        if not self._threads.end():
            for connection in self.connections:
                interrupt(connection)
            return
        for connection in self._connections.values():
            if connection is not None:
                connection.close()
        self._connections.clear()
