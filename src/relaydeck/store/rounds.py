"""Checks that are due once in an interval for each row of a table. One process does them, by a lease.

    a moment of the schedule has come
      -> hold the lease              another process holds it: sleep until that expires
      -> load the schedule           once for each lease; from then on the table is followed
      -> read the rows due           many at a time, each after a short random delay
      -> check                       rows that can be checked together in one task; bounded in number

What a check saves goes through `Lease.require`, so a process that lost the lease saves nothing.
"""

import asyncio
import heapq
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Generic, NamedTuple, TypeVar

from relaydeck.background import TaskSet, TurnLoop
from relaydeck.errors import ServerFailure
from relaydeck.log import Log
from relaydeck.store.leases import Lease, LeaseLost
from relaydeck.store.open_store import Store
from relaydeck.store.schedule import RowChanges, Schedule, ScheduleCursor
from relaydeck.store.writer import Writer

Checked = TypeVar("Checked")

_LONGEST_PAUSE = 60.0
_SHORTEST_PAUSE = 0.02  # rows that are due together are read together
_LOAD_ROWS = 2_000
_MAX_WAITING = 65_536  # due, and delayed by chance
_MAX_READ = 512  # rows in one query


class RoundOptions(NamedTuple):
    interval: float
    lease_seconds: float = 30.0
    max_checks: int = 64  # at the same time
    jitter: float = 0.05  # of the interval
    together: int = 1  # rows that one check may cover

    @property
    def collect_seconds(self) -> float:
        """How long rows that become due are collected before they are read."""
        return _SHORTEST_PAUSE if self.together == 1 else max(_SHORTEST_PAUSE, min(1.0, self.interval / 60))


class Rounds(ABC, Generic[Checked]):
    table: ClassVar[str]
    lease_name: ClassVar[str]
    failure: ClassVar[str]  # logged while the store fails

    def __init__(
        self,
        store: Store,
        writer: Writer,
        log: Log,
        rounds: RoundOptions,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._database, self._vault = store
        self._read, self._run_in_reader = store.database.read, store.database.run_in_reader
        self._writer, self._log, self._rounds = writer, log, rounds
        self._now, self._random = now, random
        # A test that brings a clock of its own wants that one everywhere.
        clock_sql = store.database.clock_sql if now is time.time else ""
        self._lease = Lease(self.lease_name, rounds.lease_seconds, clock_sql=clock_sql, now=now, monotonic=monotonic)
        self._schedule = Schedule()
        self._cursor: ScheduleCursor | None = None  # while this process holds the lease
        self._loaded_fence = 0  # the lease under which the schedule was loaded
        self._waiting: list[tuple[float, int]] = []  # a heap: when to check, sequence number
        self._under_check: set[int] = set()
        self._slots = asyncio.Semaphore(rounds.max_checks)
        self._loop = TurnLoop(self.turn, self._reset, log, self.failure)
        self.checks = TaskSet()

    @abstractmethod
    def read_due(self, sequences: Sequence[int]) -> list[tuple[Sequence[int], Checked]]:
        """The checks to make of these rows, each with the sequence numbers of its rows. In any thread."""

    @abstractmethod
    async def check_and_save(self, checked: Checked) -> None:
        """Raises LeaseLost and ServerFailure when the result cannot be saved."""

    # -- the schedule -----------------------------------------------------------------------------

    def apply_changes(self, changes: RowChanges) -> None:
        """Must be called in the event loop."""
        self._loop.wake()
        if self._cursor is not None:
            self._schedule.remove(changes.removed)
            self._schedule.add(changes.written)

    async def _load_schedule(self) -> None:
        """In parts, so that the event loop can serve requests in between."""
        self._schedule = Schedule()
        self._cursor = ScheduleCursor(self._schedule, self._rounds.interval, self._now())
        self._loaded_fence = self._lease.fence
        last = 0
        sql = f"SELECT seq FROM {self.table} WHERE seq > :last ORDER BY seq LIMIT :rows"
        while rows := await self._run_in_reader(partial(self._read, sql, {"last": last, "rows": _LOAD_ROWS})):
            self._schedule.add(row[0] for row in rows)
            last = rows[-1][0]
            await asyncio.sleep(0)

    def _forget_schedule(self) -> None:
        self._cursor, self._schedule = None, Schedule()
        self._waiting.clear()

    # -- running ----------------------------------------------------------------------------------

    async def run(self) -> None:
        await self._loop.run(self._pause)

    def _reset(self) -> None:
        self._lease.drop()
        self._forget_schedule()  # it may have been loaded in part

    async def _pause(self, seconds: float) -> None:
        collect = self._rounds.collect_seconds if seconds > 0 else 0.0
        await asyncio.sleep(collect)
        await self._loop.wait(seconds - collect)

    async def close(self) -> None:
        """A check that has not finished has changed nothing. Another process may take over at once."""
        await self.checks.cancel()
        try:
            await self._lease.release(self._writer)
        except ServerFailure:
            self._lease.drop()  # it expires

    async def turn(self) -> float:
        """Start the checks that are due. Return the seconds until there may be more. Raises ServerFailure."""
        any_row = f"SELECT 1 FROM {self.table} LIMIT 1"
        if not self._schedule and not await self._run_in_reader(partial(self._read, any_row)):
            await self._lease.release(self._writer)
            return _LONGEST_PAUSE
        if (wait := await self._lease.wait(self._database, self._writer)) > 0:
            self._forget_schedule()
            return wait + 0.1 * self._random()
        if self._cursor is None or self._loaded_fence != self._lease.fence:
            await self._load_schedule()
        self._queue_due()
        await self._start_checks()
        return self._until_next()

    def _queue_due(self) -> None:
        assert self._cursor is not None
        now = self._now()
        spread = self._rounds.jitter * self._rounds.interval
        for sequence in self._cursor.due(now, _MAX_WAITING - len(self._waiting)):
            heapq.heappush(self._waiting, (now + spread * self._random(), sequence))

    async def _start_checks(self) -> None:
        now = self._now()
        sequences: list[int] = []
        while self._waiting and self._waiting[0][0] <= now and self._free_slots > len(sequences):
            _, sequence = heapq.heappop(self._waiting)
            if sequence not in self._under_check:  # else its last check takes longer than the interval
                sequences.append(sequence)
        if sequences:
            for rows, checked in await self._run_in_reader(partial(self.read_due, sequences)):
                self._under_check.update(rows)
                self.checks.start(self._check(rows, checked))

    @property
    def _free_slots(self) -> int:
        """How many more rows may be checked now."""
        return min(_MAX_READ, self._rounds.max_checks * self._rounds.together - len(self._under_check))

    def _until_next(self) -> float:
        assert self._cursor is not None
        longest = min(self._rounds.lease_seconds / 3, _LONGEST_PAUSE)
        if self._free_slots <= 0:
            return longest  # a check that ends wakes the loop
        until = [self._waiting[0][0] - self._now()] if self._waiting else []
        if len(self._waiting) < _MAX_WAITING:
            until.append(self._cursor.until_next(self._now()))
        return max(min(longest, *until), 0.0)

    async def _check(self, rows: Sequence[int], checked: Checked) -> None:
        try:
            async with self._slots:
                await self.check_and_save(checked)
        except LeaseLost:
            self._lease.drop()
            self._log.event("warning", f"another process checks {self.table} now: a result is not saved")
        except ServerFailure as failure:
            self._log.event("error", f"the result of a check of {self.table} cannot be saved", problem=failure.reason)
        except Exception as error:
            # A defect of ours costs these rows one check and affects no other. The error's text may quote a secret.
            self._log.event("error", f"a check of {self.table} failed unexpectedly", problem=type(error).__name__)
        finally:
            self._under_check.difference_update(rows)
            self._loop.wake()
