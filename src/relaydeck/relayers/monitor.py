"""Checks every relayer that is not paused, once in an interval. One process does it, by a lease.

    a moment of the schedule has come
      -> hold the lease              another process holds it: sleep until that expires
      -> load the schedule           once for each lease; from then on the table is followed
      -> read the relayers due       a few at a time, each after a short random delay
      -> check, each in a task       most checks have nothing to save
      -> save under the fence        counts, state, events: in one transaction

Incidents are stored (`incidents.py`), so that the process that takes over continues the count of failed rounds.
"""

import asyncio
import heapq
import random
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from relaydeck.background import TaskSet, TurnLoop
from relaydeck.errors import ServerFailure
from relaydeck.log import Log
from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import health, snapshots
from relaydeck.relayers.incidents import CheckResult
from relaydeck.relayers.schedule import RelayerChanges, Schedule, ScheduleCursor
from relaydeck.relayers.snapshots import GetPool, RelayerSnapshot
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.leases import Lease, LeaseLost
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

_LONGEST_PAUSE = 60.0
_SHORTEST_PAUSE = 0.02  # relayers that are due together are read together
_LOAD_ROWS = 2_000
_MAX_WAITING = 4_096

_ANY_RELAYER = "SELECT 1 FROM relayers LIMIT 1"
_NEXT_RELAYERS = "SELECT seq FROM relayers WHERE seq > :last ORDER BY seq LIMIT :rows"


class MonitorOptions(NamedTuple):
    interval: float = 60.0
    rounds: int = 3  # without any answer, until a relayer is disabled
    lease_seconds: float = 30.0
    max_checks: int = 64  # at the same time
    jitter: float = 0.05  # of the interval


class Monitor:
    def __init__(
        self,
        store: Store,
        writer: Writer,
        audit: AuditLog,
        log: Log,
        pool: GetPool,
        options: MonitorOptions,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._database, self._vault = store
        self._read, self._run_in_reader = store.database.read, store.database.run_in_reader
        self._writer, self._audit, self._log, self._pool = writer, audit, log, pool
        self._options = options
        self._now, self._random = now, random
        self._lease = Lease("monitor", options.lease_seconds, now=now, monotonic=monotonic)
        self._schedule = Schedule()
        self._cursor: ScheduleCursor | None = None  # while this process holds the lease
        self._loaded_fence = 0  # the lease under which the schedule was loaded
        self._waiting: list[tuple[float, int]] = []  # a heap: when to check, sequence number
        self._under_check: set[int] = set()
        self._loop = TurnLoop(self.turn, self._reset, log, "relayers are not checked")
        self.checks = TaskSet()

    # -- the schedule -----------------------------------------------------------------------------

    def apply_changes(self, changes: RelayerChanges) -> None:
        """Must be called in the event loop."""
        self._loop.wake()
        if self._cursor is not None:
            self._schedule.remove(changes.removed)
            self._schedule.add(changes.written)

    async def _load_schedule(self) -> None:
        """In parts, so that the event loop can serve requests in between."""
        self._schedule = Schedule()
        self._cursor = ScheduleCursor(self._schedule, self._options.interval, self._now())
        self._loaded_fence = self._lease.fence
        last = 0
        while rows := await self._run_in_reader(
            partial(self._read, _NEXT_RELAYERS, {"last": last, "rows": _LOAD_ROWS})
        ):
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
        await asyncio.sleep(min(seconds, _SHORTEST_PAUSE))
        await self._loop.wait(seconds - _SHORTEST_PAUSE)

    async def close(self) -> None:
        """A check that has not finished has changed nothing. Another process may take over at once."""
        await self.checks.cancel()
        try:
            await self._lease.release(self._writer)
        except ServerFailure:
            self._lease.drop()  # it expires

    async def turn(self) -> float:
        """Start the checks that are due. Return the seconds until there may be more. Raises ServerFailure."""
        if not self._schedule and not await self._run_in_reader(partial(self._read, _ANY_RELAYER)):
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
        spread = self._options.jitter * self._options.interval
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
            read = partial(snapshots.read_relayers, self._read, self._vault, sequences)
            for relayer in await self._run_in_reader(read):
                self._under_check.add(relayer.sequence)
                self.checks.start(self._check(relayer))

    @property
    def _free_slots(self) -> int:
        return self._options.max_checks - len(self._under_check)

    def _until_next(self) -> float:
        assert self._cursor is not None
        pause = min(self._options.lease_seconds / 3, _LONGEST_PAUSE, self._cursor.until_next(self._now()))
        if self._waiting and self._free_slots:
            pause = min(pause, self._waiting[0][0] - self._now())
        return max(pause, 0.0)

    # -- one check --------------------------------------------------------------------------------

    async def _check(self, relayer: RelayerSnapshot) -> None:
        try:
            await self._check_and_save(relayer)
        except LeaseLost:
            self._lease.drop()
            self._log.event("warning", "another process checks relayers now: a result is not saved")
        except ServerFailure as failure:
            self._log.event("error", "the result of a relayer check cannot be saved", problem=failure.reason)
        except Exception as error:
            # A defect of ours costs this relayer one check and affects no other. The error's text may quote a URL.
            self._log.event("error", "a relayer check failed unexpectedly", problem=type(error).__name__)
        finally:
            self._under_check.discard(relayer.sequence)
            self._loop.wake()

    async def _check_and_save(self, relayer: RelayerSnapshot) -> None:
        pool = await self._pool(relayer.urls, relayer.chain_id)  # the first call loads an HTTP client, in a thread
        from relaydeck.relayers.relayer_check import check_relayer

        result = await check_relayer(pool, relayer.relayer.address, self._options.interval / 4)
        if self._lease.held and health.needs_saving(relayer, result, int(self._now())):
            await self._save(relayer, result)

    async def _save(self, relayer: RelayerSnapshot, result: CheckResult) -> None:
        def write(transaction: Transaction) -> list[EventKind]:
            self._lease.require(transaction)
            context = ChangeContext(transaction, self._audit, "monitor", int(self._now()))
            return health.save_result(context, relayer, result, self._options.rounds)

        for kind in await self._writer.write(write):
            self._log_event(kind, relayer, result)

    def _log_event(self, kind: EventKind, relayer: RelayerSnapshot, result: CheckResult) -> None:
        nodes = "; ".join(f"{each.node} {each.problem}" for each in result.evidence)
        level = "info" if kind is EventKind.RELAYER_ENABLED else "warning"
        self._log.event(level, kind.value, relayer=relayer.relayer.id, nodes=nodes)
