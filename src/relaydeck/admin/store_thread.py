"""A thread of the admin API with a store of its own: neither a slow search nor a large apply delays `/api/v1`."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from relaydeck.errors import OperatorError, StoreTrouble
from relaydeck.settings import Settings
from relaydeck.side_threads import SideThreads
from relaydeck.store.open_store import Store, open_served_store

Result = TypeVar("Result")
_UNREACHABLE = "the database is unreachable"


class StoreThread:
    """The first use opens the store."""

    def __init__(self, settings: Settings, name: str = "admin-reads") -> None:
        self._settings = settings
        self._thread = SideThreads(1, name)
        self._store: Store | None = None
        self._suspended = False

    async def run(self, work: Callable[[Store], Result]) -> Result:
        """Run `work` on a snapshot that includes every acknowledged write. Raises StoreError."""
        return await self._run(partial(_in_snapshot, work))

    async def write(self, work: Callable[[Store], Result]) -> Result:
        """Run `work`, which makes its own transaction and calls `require_answerable` before its commit."""
        return await self._run(work)

    async def _run(self, work: Callable[[Store], Result]) -> Result:
        if self._suspended:
            raise StoreTrouble(_UNREACHABLE)
        return await self._thread.run(partial(self._on_store, work))

    def require_answerable(self) -> None:
        """Right before a commit, in its thread. Raises StoreTrouble when `suspend` has failed the write.

        From here on `suspend` does not fail it: it is answered by what the commit does, in a bounded time.
        """
        if not self._thread.decide():
            raise StoreTrouble(_UNREACHABLE)

    def _on_store(self, work: Callable[[Store], Result]) -> Result:
        if self._store is None:
            try:
                self._store = open_served_store(self._settings)
            except OperatorError as error:
                raise StoreTrouble(error.problem) from None
        return work(self._store)

    def suspend(self) -> None:
        """Fail everything until `resume`: the database is unreachable."""
        self._suspended = True
        self._thread.give_up(StoreTrouble(_UNREACHABLE))
        if self._store is not None:
            self._store.database.suspend()

    def resume(self) -> None:
        self._suspended = False
        if self._store is not None:
            self._store.database.resume()

    async def erase_removed(self) -> None:
        """Erase secrets that were removed through this connection: see `Database.erase_removed`."""
        if self._store is not None and self._store.database.erasing:
            await asyncio.to_thread(self._store.database.erase_removed)

    def close(self) -> None:
        ended = self._thread.end()
        if self._store is not None:
            self._store.close() if ended else self._store.database.suspend()


def _in_snapshot(work: Callable[[Store], Result], store: Store) -> Result:
    with store.database.snapshot():
        return work(store)
