"""What a worker does beside requests: each second, and once after the start."""

import asyncio
import ctypes
import gc
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from relaydeck.credentials import tokens
from relaydeck.errors import OperatorError, RelaydeckError, ServerFailure, StoreError
from relaydeck.http.access_log import AccessLog
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import MASTER_KEY_AWAY, WRITES_FAILED
from relaydeck.log import Log
from relaydeck.store.database import Database
from relaydeck.store.follower import Follower, RemoteFollower
from relaydeck.store.listing import Listing
from relaydeck.store.open_store import Store
from relaydeck.store.rows import slices
from relaydeck.store.writer import Failure, Writer
from relaydeck.worker.health_routes import READ_SECONDS
from relaydeck.worker.reports import Reports

_CHECK_SECONDS = 1.0
_USES_SECONDS, _STORED_USES = 60.0, 500
_KEYS_SECONDS = 60.0
_IDLE_SECONDS = 4.0  # after the last write, before the worker tries one by itself
_OUTAGE_SECONDS = 5.0  # without a success: an apply of 100,000 relayers keeps other writes waiting for less
_REMINDER_SECONDS = 60.0
_WARM_ITEMS = 200
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_FREED_BYTES = 256 * 1024
AnyFollower = Follower | RemoteFollower


async def check_each_second(database: Database, follower: AnyFollower, reports: Reports, log: Log) -> None:
    """Find writes that were committed but not signalled, and stop when the parent process is gone."""
    parent = os.getppid()
    while True:
        reports.process(follower.age)
        await asyncio.sleep(_CHECK_SECONDS)
        if os.getppid() != parent:
            log.event("error", "the process that started this worker is gone: stopping")
            os.kill(os.getpid(), signal.SIGTERM)
            return
        if database.write_signal.erasing:
            await asyncio.to_thread(database.erase_removed)
        if isinstance(follower, Follower):
            _refresh(database, follower, log)


def _refresh(database: Database, follower: Follower, log: Log) -> None:
    database.write_problem()  # notes it before the next start: another file in its place may damage both
    try:
        follower.refresh()
    except StoreError as error:
        log.event("error", "the store cannot be read", problem=str(error))


async def store_uses_each_minute(writer: Writer, access_log: AccessLog) -> None:
    """Store when each token was last used: in the background, so that no request waits for it."""
    while True:
        await asyncio.sleep(_USES_SECONDS)
        await store_uses(writer, access_log)


async def store_uses(writer: Writer, access_log: AccessLog) -> None:
    """A few at a time. Uses that cannot be stored are dropped: the next minute has others."""
    uses = [(json.loads(name), *use) for name, use in access_log.taken_uses().items()]
    with suppress(StoreError, ServerFailure):
        for _, some in slices(uses, _STORED_USES):
            await writer.write(partial(tokens.store_uses, uses=some))


async def check_keys_each_minute(store: Store, metrics: Metrics, log: Log) -> None:
    while True:
        await asyncio.sleep(_KEYS_SECONDS)
        await check_keys(store, metrics, log)


async def check_keys(store: Store, metrics: Metrics, log: Log) -> None:
    """Say that a start would fail, or that this service lacks the database's master key: it can write nothing then."""
    problem = await asyncio.to_thread(store.vault.start_problem)
    metrics.set(MASTER_KEY_AWAY, bool(problem))
    if problem:
        log.event("warning", "the master key is in memory, and a start could not read it now", problem=problem)
    try:
        with suppress(StoreError):  # others report it
            await store.database.run_in_reader(store.vault.look_again)
    except OperatorError as error:
        log.event("error", error.problem, remedy=error.remedy)


async def warm_listings(follower: AnyFollower, reports: Reports, *listings: Listing) -> None:
    """Encode every item in the background, a few at a time, so that no request pays for the first reading."""
    if isinstance(follower, Follower):  # a remote follower has encoded them already
        for number, listing in enumerate(listings, 1):
            await _warm_listing(follower, reports, listing, sum(each.total for each in listings[number:]))
    reports.loading(0)


async def _warm_listing(follower: Follower, reports: Reports, listing: Listing, later: int) -> None:
    start = 0
    while start < listing.total:
        reports.loading(listing.total - start + later)
        try:
            follower.fill(listing, partial(_from, start))
        except StoreError:
            return  # the check of each second logs it; a request fills the page it needs
        start += _WARM_ITEMS
        await asyncio.sleep(0.001)


class WriteWatch:
    """Knows whether this worker can write: from the writes of clients, and while there are none from its own.

    Each worker has a watch, because each has a connection of its own for writes.
    """

    def __init__(
        self, database: Database, metrics: Metrics, log: Log, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database, self._metrics, self._log, self._monotonic = database, metrics, log, monotonic
        self._started_at, self._written_at, self._tried_at = monotonic(), 0.0, 0.0
        self._failed: Failure | None = None  # the last failure, while there was no success since
        self._uncounted: list[Failure] = []  # since the last look
        self._failures = 0  # since writes last worked
        self._told_at = 0.0  # when the log last said that writes fail; 0: they work

    def note(self, failure: Failure | None) -> None:
        """The outcome of a write. The writer calls this."""
        self._failed, self._tried_at = failure, self._monotonic()
        if failure is None:
            self._written_at = self._tried_at
            self._metrics.set_writes(self._written_at, "")
        else:
            self._uncounted.append(failure)

    async def run(self, writer: Writer) -> None:
        while True:
            await self.look(writer)
            await asyncio.sleep(_CHECK_SECONDS)

    async def look(self, writer: Writer) -> None:
        now = self._monotonic()
        if now - self._tried_at >= (_CHECK_SECONDS if self._failed else _IDLE_SECONDS):
            writer.try_write()
        uncounted, self._uncounted = self._uncounted, []
        if uncounted:
            failed = await self._explained(uncounted[-1])
            self._metrics.count(WRITES_FAILED, failed.cause, by=len(uncounted))
            self._failures += len(uncounted)
            self._failed = self._failed and failed
        failure, tried_at = self._failed, self._tried_at
        if failure is None and writer.busy_seconds >= _OUTAGE_SECONDS:
            failure, tried_at = await self._explained(Failure("timeout", "a write is not answered")), now
        if failure is None or tried_at - (self._written_at or self._started_at) >= _OUTAGE_SECONDS:
            self._metrics.set_writes(self._written_at, failure.cause if failure else "")
            self._tell(failure, now)

    async def _explained(self, failure: Failure) -> Failure:
        with suppress(RelaydeckError, TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                return await self._database.run_in_reader(partial(failure.explained, self._database))
        return failure

    def _tell(self, failure: Failure | None, now: float) -> None:
        if failure is None:
            if self._told_at:
                self._log.event("info", "writes work again", failures=self._failures)
            self._failures, self._told_at = 0, 0.0
        elif not self._told_at or now - self._told_at >= _REMINDER_SECONDS:
            event, self._told_at = "writes still fail" if self._told_at else "writes fail", now
            seconds = int(now - (self._written_at or self._started_at))
            facts = {"reason": failure.cause, "problem": failure.problem}
            self._log.event("error", event, **facts, seconds=seconds, failures=self._failures)


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
