"""Reads for administrators: on a thread and a connection of their own, so that no search slows `/api/v1`."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from relaydeck.settings import Settings
from relaydeck.store.home import Store, open_home

Result = TypeVar("Result")


class Reading:
    """The connection is opened by the first read."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="admin-reads")
        self._store: Store | None = None

    async def run(self, work: Callable[[Store], Result]) -> Result:
        """Everything that `work` reads belongs to one moment, no older than any answered write."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work)

    def _run(self, work: Callable[[Store], Result]) -> Result:
        if self._store is None:
            self._store = open_home(self._settings)
        with self._store.database.snapshot():
            return work(self._store)

    def close(self) -> None:
        self._thread.shutdown()
        if self._store is not None:
            self._store.close()
