"""Threads that read PostgreSQL aside from the event loop, each over a connection of its own.

Of its own, because a snapshot belongs to a connection: two threads that shared one would end each other's.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from relaydeck.store.database import Result
from relaydeck.store.postgres_connection import PostgresConnection

_THREADS = 2


class Aside:
    def __init__(self, connect: Callable[[], PostgresConnection]) -> None:
        self._connect = connect
        self._connections: dict[int, PostgresConnection | None] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="reader", initializer=self._enter)

    def _enter(self) -> None:
        self._connections[threading.get_ident()] = None

    async def run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

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

    def close(self) -> None:
        """When what is under way has ended."""
        self._threads.shutdown()
        for connection in self._connections.values():
            if connection is not None:
                connection.close()
        self._connections.clear()
