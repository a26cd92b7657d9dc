"""Reads for administrators: on a thread and a connection of their own, so that no search slows `/api/v1`."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from relaydeck.errors import StoreTrouble
from relaydeck.settings import Settings
from relaydeck.side_threads import SideThreads
from relaydeck.store.open_store import Store, open_store

Result = TypeVar("Result")
_AWAY = "the database is away"


class ReadPool:
    """The connection is opened by the first read."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread = SideThreads(1, "admin-reads")
        self._store: Store | None = None
        self._abandoned = False

    async def run(self, work: Callable[[Store], Result]) -> Result:
        """Everything that `work` reads belongs to one moment, no older than any answered write. Raises StoreError."""
        if self._abandoned:
            raise StoreTrouble(_AWAY)
        return await self._thread.run(partial(self._run, work))

    def _run(self, work: Callable[[Store], Result]) -> Result:
        if self._store is None:
            self._store = open_store(self._settings)
        with self._store.database.snapshot():
            return work(self._store)

    def abandon(self) -> None:
        """Until `resume`, nobody waits for a database that is away."""
        self._abandoned = True
        self._thread.give_up(StoreTrouble(_AWAY))
        if self._store is not None:
            self._store.database.abandon()

    def resume(self) -> None:
        self._abandoned = False
        if self._store is not None:
            self._store.database.resume()

    def close(self) -> None:
        ended = self._thread.end()
        if self._store is not None:
            self._store.close() if ended else self._store.database.abandon()
