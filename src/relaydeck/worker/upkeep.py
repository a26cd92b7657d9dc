"""What a worker does beside requests: each second, and once after the start."""

import asyncio
import ctypes
import gc
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from relaydeck.errors import StoreError
from relaydeck.http.connection_guard import ConnectionGuard
from relaydeck.log import Log
from relaydeck.store.database import Database
from relaydeck.store.listing import Listing
from relaydeck.worker.following import Following
from relaydeck.worker.reports import Reports

_CHECK_SECONDS = 1.0
_UNACCEPTED_SECONDS = 5.0
_WARM_ITEMS = 200
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_FREED_BYTES = 256 * 1024


class Upkeep:
    def __init__(
        self,
        database: Database,
        following: Following,
        reports: Reports,
        log: Log,
        erase_more: Callable[[], Awaitable[None]],
    ) -> None:
        """`erase_more` erases secrets that were removed through another connection than that of `database`."""
        self._database = database
        self._erase_more = erase_more
        self._following = following
        self._reports = reports
        self._log = log
        self._write_problem = ""  # the one that was logged last

    async def check_each_second(self, guard: ConnectionGuard) -> None:
        """Find writes that were committed but not signalled, and stop when the parent process is gone."""
        parent = os.getppid()
        while True:
            self._reports.process(self._following.age, accepts=guard.unaccepted_seconds() < _UNACCEPTED_SECONDS)
            await asyncio.sleep(_CHECK_SECONDS)
            if os.getppid() != parent:
                self._log.event("error", "the process that started this worker is gone: stopping")
                os.kill(os.getpid(), signal.SIGTERM)
                return
            await self._check_database()

    async def _check_database(self) -> None:
        if self._database.erasing:
            await asyncio.to_thread(self._database.erase_removed)
        await self._erase_more()
        if self._following.local is not None:
            self._check_file()
            try:
                self._following.local.refresh()
            except StoreError as error:
                self._log.event("error", "the store cannot be read", problem=str(error))

    def _check_file(self) -> None:
        """Before the next write or start: whoever opens another file in the place of this one may damage both."""
        problem = self._database.write_problem()
        if problem and problem != self._write_problem:
            self._log.event("error", "nothing can be written", problem=problem)
        self._write_problem = problem

    async def warm(self, *listings: Listing) -> None:
        """Encode every item in the background, a few at a time, so that no request pays for the first reading."""
        if not self._database.remote:  # a remote follower has encoded them already
            for listing in listings:
                await self._warm_listing(listing)

    async def _warm_listing(self, listing: Listing) -> None:
        start = 0
        while start < listing.total:
            try:
                self._following.follower.fill(listing, partial(_from, start))
            except StoreError:
                return  # the check of each second logs it; a request fills the page it needs
            start += _WARM_ITEMS
            await asyncio.sleep(0.001)


def _from(start: int, total: int) -> tuple[int, int]:
    return start, min(start + _WARM_ITEMS, total)


def calm_garbage_collection() -> None:
    """What is loaded now stays: exclude it from collections, and collect less often than every 700 objects.

    Requests leave no cycles, so nothing large waits for a collection. With a threshold of 10,000, creates cost a tenth
    more, because the lists grow with them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def return_freed_memory() -> None:
    """Give blocks of 256 KiB and more back to the system when they are freed.

    The C library raises its own threshold to the largest block that was freed, up to 32 MiB. After many large bodies,
    free parts of its heap would stay with the process.
    """
    with suppress(AttributeError, OSError):  # another C library than that of GNU
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_MMAP_THRESHOLD, _FREED_BYTES)
        set_option(_M_TRIM_THRESHOLD, _FREED_BYTES)
