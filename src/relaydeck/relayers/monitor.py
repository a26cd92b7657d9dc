"""Looks at every relayer that is not paused, once in an interval. One process of all that share the database does.

    a moment of the schedule has come
      -> hold the lease              another has it: sleep until that ends
      -> load the schedule           once for each lease; the table is followed from then on
      -> read who is due             a few at a time, each after a little random delay
      -> look, each a task           most of the time there is nothing to write
      -> settle under the fence      counted, disabled, enabled, told: in one transaction

What has to outlive this process stands in the table `troubles`: whoever takes over goes on counting.
"""

import asyncio
import heapq
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from relaydeck.errors import ServerFailure
from relaydeck.log import Log
from relaydeck.networks.model import RpcUrl
from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import health
from relaydeck.relayers.arrivals import Arrivals
from relaydeck.relayers.health import Watched
from relaydeck.relayers.schedule import Schedule, Walk
from relaydeck.relayers.troubles import CheckResult
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.leases import Lease, LeaseLost
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

if TYPE_CHECKING:
    from relaydeck.networks.evm.pool import NodePool

GetPool = Callable[[tuple[RpcUrl, ...], int], Awaitable["NodePool"]]

_LONGEST_SLEEP = 60.0
_SHORTEST_SLEEP = 0.02  # those who are due together are read together
_TROUBLE_SECONDS = 1.0  # between looks while the store fails
_LOAD_ROWS = 2_000
_MOST_WAITING = 4_096

_ANY = "SELECT 1 FROM relayers LIMIT 1"
_PART = "SELECT seq FROM relayers WHERE seq > :last ORDER BY seq LIMIT :rows"


class MonitorOptions(NamedTuple):
    interval: float = 60.0
    rounds: int = 3  # without any answer, until a relayer is disabled
    lease_seconds: float = 30.0
    most_at_once: int = 64
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
        self._read, self._run_in_reader, self._vault = store.database.read, store.database.run_in_reader, store.vault
        self._writer, self._audit, self._log, self._pool = writer, audit, log, pool
        self._options = options
        self._now, self._monotonic, self._random = now, monotonic, random
        self._lease = Lease("monitor", options.lease_seconds, now=now, monotonic=monotonic)
        self._schedule = Schedule()
        self._walk: Walk | None = None  # while this process holds the lease
        self._walked_under = 0  # the fence of that lease
        self._waiting: list[tuple[float, int]] = []  # a heap: when to look, at whom
        self._looks: dict[int, asyncio.Task[None]] = {}
        self._woken = asyncio.Event()

    # -- following the table ----------------------------------------------------------------------

    def follow(self, arrivals: Arrivals) -> None:
        """Relayers came or went. To be called in the event loop."""
        self._woken.set()
        if self._walk is not None:
            self._schedule.remove(arrivals.went)
            self._schedule.add(arrivals.came)

    async def _load(self) -> None:
        """A part at a time: the event loop has requests to serve."""
        self._schedule = Schedule()
        self._walk = Walk(self._schedule, self._options.interval, self._now())
        self._walked_under = self._lease.fence
        last = 0
        while rows := await self._run_in_reader(partial(self._read, _PART, {"last": last, "rows": _LOAD_ROWS})):
            self._schedule.add(row[0] for row in rows)
            last = rows[-1][0]
            await asyncio.sleep(0)

    def _forget(self) -> None:
        self._walk, self._schedule = None, Schedule()
        self._waiting.clear()

    # -- running ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._woken.clear()
            try:
                pause = await self.turn()
            except Exception as error:
                # Whatever it is, it must not be the end of all looks: a full disk has an end, too.
                self._log.event("error", "relayers are not looked at", problem=f"{type(error).__name__}: {error}")
                self._lease.lose()
                self._forget()  # it may have been half loaded
                pause = _TROUBLE_SECONDS
            await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, _SHORTEST_SLEEP))
        try:
            async with asyncio.timeout(max(seconds - _SHORTEST_SLEEP, 0.0)):
                await self._woken.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """After `run` was cancelled. A look that is not finished has changed nothing."""
        for task in self._looks.values():
            task.cancel()
        await asyncio.gather(*self._looks.values(), return_exceptions=True)
        try:
            await self._lease.release(self._writer)
        except ServerFailure:
            self._lease.lose()  # it runs out by itself

    async def settled(self) -> None:
        """When every look that is under way has been written down."""
        while self._looks:
            await asyncio.gather(*self._looks.values())

    async def turn(self) -> float:
        """Start the looks that are due; how many seconds until there may be more. Raises ServerFailure."""
        if not self._schedule and not await self._run_in_reader(partial(self._read, _ANY)):
            await self._lease.release(self._writer)
            return _LONGEST_SLEEP
        if not await self._holds_lease():
            self._forget()
            return max(await self._taken_for(), 0.01) + 0.1 * self._random()
        if self._walk is None or self._walked_under != self._lease.fence:
            await self._load()
        self._note_due()
        await self._start_due()
        return self._until_next()

    async def _holds_lease(self) -> bool:
        if self._lease.remaining() > self._options.lease_seconds * 2 / 3:
            return True
        if not self._lease.held and await self._taken_for() > 0:
            return False
        return await self._lease.hold(self._writer)

    async def _taken_for(self) -> float:
        return await self._run_in_reader(partial(self._lease.taken_for, self._read))

    def _note_due(self) -> None:
        assert self._walk is not None
        now = self._now()
        spread = self._options.jitter * self._options.interval
        for sequence in self._walk.due(now, _MOST_WAITING - len(self._waiting)):
            heapq.heappush(self._waiting, (now + spread * self._random(), sequence))

    async def _start_due(self) -> None:
        now = self._now()
        sequences: list[int] = []
        while self._waiting and self._waiting[0][0] <= now and self._room > len(sequences):
            _, sequence = heapq.heappop(self._waiting)
            if sequence not in self._looks:  # else its last look takes longer than the interval
                sequences.append(sequence)
        if sequences:
            for watched in await self._run_in_reader(partial(health.read_due, self._read, self._vault, sequences)):
                self._looks[watched.sequence] = asyncio.create_task(self._look(watched))

    @property
    def _room(self) -> int:
        return self._options.most_at_once - len(self._looks)

    def _until_next(self) -> float:
        assert self._walk is not None
        pause = min(self._options.lease_seconds / 3, _LONGEST_SLEEP, self._walk.until_next(self._now()))
        if self._waiting and self._room:
            pause = min(pause, self._waiting[0][0] - self._now())
        return max(pause, 0.0)

    # -- one look ---------------------------------------------------------------------------------

    async def _look(self, watched: Watched) -> None:
        try:
            await self._look_and_settle(watched)
        except LeaseLost:
            self._lease.lose()
            self._log.event("warning", "another process looks at relayers now: a look is not written down")
        except ServerFailure as failure:
            self._log.event("error", "a look cannot be written down", problem=failure.reason)
        except Exception as error:
            # A mistake of ours costs this relayer a look, and no other anything. Its text may quote a URL.
            self._log.event("error", "a look failed in a way it should not", problem=type(error).__name__)
        finally:
            del self._looks[watched.sequence]
            self._woken.set()

    async def _look_and_settle(self, watched: Watched) -> None:
        pool = await self._pool(watched.urls, watched.chain_id)  # the first one loads an HTTP client, in a thread
        from relaydeck.relayers.probe import look

        outcome = await look(pool, watched.relayer.address, self._options.interval / 4)
        if self._lease.held and health.matters(watched, outcome, int(self._now())):
            await self._settle(watched, outcome)

    async def _settle(self, watched: Watched, outcome: CheckResult) -> None:
        def write(transaction: Transaction) -> list[str]:
            self._lease.require(transaction)
            context = ChangeContext(transaction, self._audit, "monitor", int(self._now()))
            return health.settle(context, watched, outcome, self._options.rounds)

        for kind in await self._writer.write(write):
            self._tell(kind, watched, outcome)

    def _tell(self, kind: str, watched: Watched, outcome: CheckResult) -> None:
        nodes = "; ".join(f"{each.node} {each.problem}" for each in outcome.evidence)
        level = "info" if kind == EventKind.RELAYER_ENABLED else "warning"
        self._log.event(level, kind, relayer=watched.relayer.id, nodes=nodes)
