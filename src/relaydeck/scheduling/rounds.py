"""Checks that are due once in an interval for each row of a table. The processes share the table by leases of shards.

    a moment of the schedule has come    it has every row of the table, which is followed
      -> renew the leases            other processes hold them: sleep until one expires
      -> read the rows due           of the shards held; many at a time
      -> check                       rows that can be checked together in one task; bounded in number
      -> release                     shards above the share of this process, once their last checks have ended

What a check saves goes through `ShardLeases.require`, so a process that lost a shard saves nothing for its rows. A
shard is released when no check of its rows is under way, so two processes never check a row at the same time.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import ClassVar, Generic, NamedTuple, TypeVar

from relaydeck.errors import ServerFailure, described
from relaydeck.log import Log
from relaydeck.process.background import TaskSet, TurnLoop
from relaydeck.scheduling.leases import LeaseLost, ShardLeases
from relaydeck.scheduling.schedule import Schedule, is_before, last_check_at, sorted_phases
from relaydeck.store.changes import removed_since
from relaydeck.store.database import ReadRows, RowReader
from relaydeck.store.listing import read_numbers
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

Checked = TypeVar("Checked")
Changes = tuple[list[int], list[int]]  # sequence numbers of the rows that were written, and of those removed

_LONGEST_PAUSE = 60.0
_SHORTEST_PAUSE = 0.02  # rows that are due together are read together
_MAX_READ = 512  # rows in one query


class RoundOptions(NamedTuple):
    interval: float
    lease_seconds: float = 30.0
    max_checks: int = 64  # at the same time
    together: int = 1  # rows that one check may cover

    @property
    def collect_seconds(self) -> float:
        """How long rows that become due are collected before they are read."""
        return _SHORTEST_PAUSE if self.together == 1 else max(_SHORTEST_PAUSE, min(1.0, self.interval / 60))


class Rounds(ABC, Generic[Checked]):
    table: str
    lease_name: ClassVar[str]
    shards: ClassVar[int] = 1  # how many parts of the table processes can check by themselves
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
    ) -> None:
        self._database, self._vault = store
        self._read, self._run_in_reader = store.database.read, store.database.run_in_reader
        self._writer, self._log, self._rounds = writer, log, rounds
        self._now = now
        # A test that brings a clock of its own wants that one everywhere.
        clock_sql = store.database.clock_sql if now is time.time else ""
        self._leases = ShardLeases(
            self.lease_name, self.shards, rounds.lease_seconds, clock_sql=clock_sql, now=now, monotonic=monotonic
        )
        self._schedule = Schedule(rounds.interval)
        self._since: dict[int, int] = {}  # by shard: from which position of the schedule on this process checks it
        self._leaving: dict[int, float] = {}  # shards to release, and the moment up to which they were checked
        self._under_check: dict[int, float] = {}  # since when, the oldest first
        self._slots = asyncio.Semaphore(rounds.max_checks)
        self._loop = TurnLoop(self.turn, self._reset, log, self.failure)
        self._running = TaskSet()
        self.checks = TaskSet()

    @abstractmethod
    def read_due(self, sequences: Sequence[int]) -> list[tuple[Sequence[int], Checked]]:
        """The checks to make of these rows, each with the sequence numbers of its rows. In any thread."""

    @abstractmethod
    async def check_and_save(self, checked: Checked) -> None:
        """Raises LeaseLost and ServerFailure when the result cannot be saved."""

    # -- following the table, as the read model does ----------------------------------------------

    def read_all(self, reader: RowReader) -> "array[int]":
        return sorted_phases(read_numbers(reader.read, self.table) if self._rounds.interval else ())

    def replace(self, phases: "array[int]") -> None:
        self._schedule.replace(phases)
        self._start()

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> Changes:
        # After removals were pruned, the schedule keeps numbers of removed rows: reading them finds nothing to check.
        if not self._rounds.interval:
            return [], []
        gone = removed_since(read, self.table, seen) if removed else None
        # The plus sign keeps the database on the index by revision. Rows, because a commit bounds those it returns.
        written = read(f"SELECT seq FROM {self.table} WHERE revision > :seen ORDER BY +seq", {"seen": seen})
        return [row.seq for row in written], gone or []

    def apply_changes(self, changes: Changes) -> None:
        self.update_schedule(changes)
        self._start()

    def update_schedule(self, changes: Changes) -> None:
        written, removed = changes
        self._schedule.remove(removed)
        self._schedule.add(written)

    # -- running ----------------------------------------------------------------------------------

    def _start(self) -> None:
        """While the table has no row nothing runs; with an interval of 0 nothing is checked."""
        if self._rounds.interval > 0 and self._schedule and not self._running:
            self._running.start(self.run())
        self._loop.wake()

    async def run(self) -> None:
        await self._loop.run(self._pause)

    def _reset(self) -> None:
        self._leases.drop()
        self._forget_shards()

    async def _pause(self, seconds: float) -> None:
        collect = self._rounds.collect_seconds if seconds > 0 else 0.0
        await asyncio.sleep(collect)
        await self._loop.wait(seconds - collect)

    async def close(self) -> None:
        """A check that has not finished has changed nothing. Another process may take over at once.

        Before the writer stops: releasing the lease is a write.
        """
        await self._running.cancel()
        gaps = self._gaps()
        await self.checks.cancel()
        try:
            await self._leases.leave(self._writer, gaps)
        except ServerFailure:
            self._leases.drop()  # they expire

    def _gaps(self) -> dict[int, float]:
        """For each shard the seconds since every row that was due had been checked."""
        now = self._now()
        reached = dict.fromkeys(self._since, self._schedule.reached_at) | self._leaving
        for sequence in self._under_check:
            shard = self._leases.shard_of(sequence)
            reached[shard] = min(reached.get(shard, now), last_check_at(sequence, self._rounds.interval, now))
        return {shard: now - moment for shard, moment in reached.items()}

    async def turn(self) -> float:
        """Start the checks that are due. Return the seconds until there may be more. Raises ServerFailure."""
        if not self._schedule:
            self._forget_shards()
            await self._leases.leave(self._writer, {})
            return _LONGEST_PAUSE
        if not self._leases.held or self._leases.until_claim() <= 0:
            await self._claim()
        if not self._leases.held:
            return self._leases.until_claim()
        await self._start_checks()
        await self._release_idle()
        return self._until_next()

    async def _claim(self) -> None:
        if not self._leases.held:
            self._forget_shards()
        await self._leases.claim(self._database, self._writer)
        gained = self._leases.gaps.keys()
        for shard in {*self._since, *self._leaving}:
            if shard in gained or shard not in self._leases.fences:
                self._lose(shard)
        for shard in sorted(self._since)[self._leases.share :]:
            del self._since[shard]
            self._leaving[shard] = self._schedule.reached_at
        if gained:
            self._gain(gained)

    def _gain(self, shards: Iterable[int]) -> None:
        """Continue where the last holders stopped. What was checked of the other shards since is not checked again."""
        schedule, started = self._schedule, {each: self._schedule.position(self._start_of(each)) for each in shards}
        held = {shard: max(since, schedule.reached) for shard, since in self._since.items()}
        schedule.reached = min([*started.values(), *held.values()])
        self._since = held | started

    def _start_of(self, shard: int) -> float:
        """Where the last holder stopped, so that no row misses a round; after a longer break, now."""
        gap = self._leases.gaps[shard]
        return self._now() - (gap if gap < self._rounds.interval else 0.0)

    def _lose(self, shard: int) -> None:
        """Another process checks the shard."""
        self._since.pop(shard, None)
        self._leaving.pop(shard, None)

    def _forget_shards(self) -> None:
        self._since, self._leaving = {}, {}

    async def _release_idle(self) -> None:
        """Release the shards above the share of this process that have no check under way."""
        if not self._leaving:
            return
        idle = self._leaving.keys() - set(map(self._leases.shard_of, self._under_check))
        await self._leases.release(self._writer, {each: self._now() - self._leaving[each] for each in idle})
        for shard in idle:
            self._lose(shard)

    async def _start_checks(self) -> None:
        if sequences := self._take_due():
            now = self._now()
            for rows, checked in await self._run_in_reader(partial(self.read_due, sequences)):
                self._under_check.update(dict.fromkeys(rows, now))
                self.checks.start(self._check(rows, checked))

    def _take_due(self) -> list[int]:
        """As many rows as may be checked now. What is due beyond that stays due."""
        taken: list[int] = []
        free = self._free_slots
        while len(taken) < free and (due := self._schedule.due(self._now(), free - len(taken))):
            taken += [sequence for position, sequence in due if self._may_check(position, sequence)]
        return taken

    def _may_check(self, position: int, sequence: int) -> bool:
        """Whether this process checks its shard, and its last check has ended."""
        since = self._since.get(self._leases.shard_of(sequence))
        return since is not None and not is_before(position, since) and sequence not in self._under_check

    @property
    def _free_slots(self) -> int:
        """How many more rows may be checked now."""
        return min(_MAX_READ, self._rounds.max_checks * self._rounds.together - len(self._under_check))

    def lag(self) -> float:
        """How many seconds late the latest check is: one that is due, or one that takes longer than the interval."""
        now = self._now()
        due = [self._schedule.reached_at if self._since else now]
        due += [since + self._rounds.interval for since in islice(self._under_check.values(), 1)]
        return max(0.0, now - min(due))

    def _until_next(self) -> float:
        longest = min(self._leases.until_claim(), _LONGEST_PAUSE)
        if self._free_slots <= 0:
            return longest  # a check that ends wakes the loop
        until = self._schedule.until_next(self._now()) if self._since else longest
        return max(min(longest, until), 0.0)

    async def _check(self, rows: Sequence[int], checked: Checked) -> None:
        try:
            async with self._slots:
                await self.check_and_save(checked)
        except LeaseLost:
            self._leases.claim_soon()
            self._log.event("warning", f"another process checks {self.table} now: a result is not saved")
        except ServerFailure as failure:
            self._log.event("error", f"the result of a check of {self.table} cannot be saved", problem=failure.reason)
        except Exception as error:
            # A defect of ours costs these rows one check and affects no other. The error's text may quote a secret.
            self._log.event("error", f"a check of {self.table} failed unexpectedly", problem=described(error))
        finally:
            for sequence in rows:
                self._under_check.pop(sequence, None)
            self._loop.wake()
