"""Brings events to their receivers. One process of all that share the database does it at a time.

    woken, or a due time has come
      -> is anything due?            no: sleep until it is
      -> hold the lease              another has it: sleep until that ends
      -> read what became due        since the last revision seen; everything, after a new lease
      -> start tries where there is room, each a task: send, judge, write down under the lease's fence

Nothing is written while nothing is due. A process that dies leaves its deliveries as they were: due. The
next holder tries them again, which is why an event may arrive twice but never not at all.
"""

import asyncio
import random
import time
from collections.abc import Callable
from typing import NamedTuple

from relaydeck.errors import ServerFailure
from relaydeck.log import Log
from relaydeck.notifications import outbox, upkeep
from relaydeck.notifications.outbox import Due
from relaydeck.notifications.receivers import Receivers
from relaydeck.notifications.sender import Sender
from relaydeck.notifications.trying import Posts, Trial
from relaydeck.settings import AddressRange
from relaydeck.store.database import Transaction
from relaydeck.store.home import Store
from relaydeck.store.leases import Lease, LeaseLost
from relaydeck.store.writer import Writer

_LONGEST_SLEEP = 60.0
_UPKEEP_SECONDS = 3600.0
_TROUBLE_SECONDS = 1.0  # between looks while the store fails
_LISTEN_SECONDS = 0.02  # between looks at the bell while this process delivers
_FAREWELL_SECONDS = 3.0


class DeliveryOptions(NamedTuple):
    allow: tuple[AddressRange, ...] = ()
    timeout_seconds: float = 15.0
    retention_days: int = 30
    lease_seconds: float = 30.0
    most_at_once: int = 256
    most_per_receiver: int = 8


class Delivery:
    def __init__(
        self,
        store: Store,
        writer: Writer,
        log: Log,
        options: DeliveryOptions,
        *,
        sender: Posts | None = None,
        count_try: Callable[[str], None] = lambda outcome: None,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._database = store.database
        self._read = store.database.read
        self._writer = writer
        self._log = log
        self._options = options
        self._sender: Posts = sender or Sender(
            options.allow, options.timeout_seconds, most_at_once=options.most_at_once
        )
        self._now, self._monotonic, self._random = now, monotonic, random
        self._receivers = Receivers(options.most_at_once, options.most_per_receiver)
        self._lease = Lease("delivery", options.lease_seconds, now=now, monotonic=monotonic)
        self._trial = Trial(
            store,
            writer,
            log,
            self._sender,
            self._lease,
            count_try=count_try,
            now=now,
            monotonic=monotonic,
            random=random,
        )
        self._loaded_under = 0  # the fence under which what is due was read
        self._seen = -1
        self._heard = -1
        self._next_upkeep = monotonic()
        self._tries: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._stopping = False

    def wake(self) -> None:
        """Somebody wrote: there may be something to deliver. To be called in the event loop."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._woken.clear()
            try:
                pause = await self.turn()
            except Exception as error:
                # Whatever it is, it must not be the end of all deliveries: a full disk has an end, too.
                self._log.event("error", "events are not delivered", problem=f"{type(error).__name__}: {error}")
                self._lease.lose()
                pause = _TROUBLE_SECONDS
            await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        """Until woken. While this process delivers it hears other processes' writes by itself."""
        end = self._monotonic() + seconds
        while (left := end - self._monotonic()) > 0 and not self._woken.is_set():
            listening = self._lease.held
            try:
                async with asyncio.timeout(min(left, _LISTEN_SECONDS) if listening else left):
                    await self._woken.wait()
            except TimeoutError:
                if listening and self._database.bell.heard() != self._heard:
                    return

    async def close(self) -> None:
        """After `run` was cancelled: tries under way get a moment, the next process gets the rest at once."""
        self._stopping = True
        if self._tries:
            await asyncio.wait(self._tries, timeout=_FAREWELL_SECONDS)
        for task in self._tries:
            task.cancel()
        await asyncio.gather(*self._tries, return_exceptions=True)
        await self._sender.close()
        try:
            await self._lease.release(self._writer)
        except ServerFailure:
            self._lease.lose()  # it runs out by itself

    @property
    def under_way(self) -> int:
        """How many tries."""
        return self._receivers.under_way

    async def settled(self) -> None:
        """When every try that is under way has been written down."""
        while self._tries:
            await asyncio.gather(*self._tries)

    async def turn(self) -> float:
        """Start what is due; how many seconds until there may be more. Raises StoreError, ServerFailure."""
        self._heard = self._database.bell.heard()
        cleaning = self._monotonic() >= self._next_upkeep
        if not (self._receivers.under_way or self._is_due() or (cleaning and self._upkeep_is_due())):
            if cleaning:
                self._next_upkeep = self._monotonic() + _UPKEEP_SECONDS
            return self._until(outbox.next_due(self._read))
        if not await self._holds_lease():
            return max(self._lease.taken_for(self._read), 0.01) + 0.1 * self._random()
        if cleaning:
            await self._keep_up()
        self._note_due()
        self._start_due()
        return self._until(self._receivers.next_due())

    def _milliseconds(self) -> int:
        return int(self._now() * 1000)

    def _is_due(self) -> bool:
        due = outbox.next_due(self._read)
        return due is not None and due <= self._milliseconds()

    def _until(self, due: int | None) -> float:
        pause = min(_LONGEST_SLEEP, self._next_upkeep - self._monotonic())
        if due is not None:
            pause = min(pause, due / 1000 - self._now())
        if self._receivers.under_way:
            pause = min(pause, self._options.lease_seconds / 3)  # in time to renew
        return max(pause, 0.0)

    async def _holds_lease(self) -> bool:
        if self._lease.remaining() > self._options.lease_seconds * 2 / 3:
            return True
        if not self._lease.held and self._lease.taken_for(self._read) > 0:
            return False
        return await self._lease.hold(self._writer)

    def _note_due(self) -> None:
        """What became due since the last look; after a new lease another process may have changed anything."""
        revision = self._read("SELECT revision FROM clock")[0][0]
        if self._lease.fence != self._loaded_under:
            self._receivers.forget_due()
            found = outbox.receivers_due(self._read)
            self._loaded_under = self._lease.fence
        else:
            found = outbox.receivers_due_since(self._read, self._seen)
        self._seen = revision
        for receiver, due in found:
            self._receivers.note(receiver, due)

    def _start_due(self) -> None:
        now = self._milliseconds()
        for receiver in self._receivers.take_due(now):
            self._start(receiver, now)

    def _start(self, receiver: str, now: int) -> None:
        busy, room = self._receivers.busy(receiver), self._receivers.room(receiver)
        if self._stopping or room == 0:
            return  # noted again when one of those under way is finished
        for due in outbox.upcoming(self._read, receiver, len(busy) + room + 1):
            if due.sequence in busy:
                continue
            if due.due_at > now:
                self._receivers.note(receiver, due.due_at)
                return
            if room == 0:
                return
            room -= 1
            was_troubled = self._receivers.started(receiver, due.sequence)
            task = asyncio.create_task(self._try(due, was_troubled))
            self._tries.add(task)
            task.add_done_callback(self._tries.discard)

    async def _try(self, due: Due, was_troubled: bool) -> None:
        delivered = False
        try:
            delivered = await self._trial(due)
        except LeaseLost:
            self._lease.lose()
            self._log.event("warning", "another process delivers now: a try is not written down", sequence=due.sequence)
        finally:
            self._receivers.finished(due.notification_id, due.sequence, was_troubled=was_troubled, delivered=delivered)
            self._woken.set()

    def _upkeep_is_due(self) -> bool:
        return upkeep.is_due(self._read, now=int(self._now()), retention_seconds=self._retention_seconds)

    @property
    def _retention_seconds(self) -> int:
        return self._options.retention_days * 86_400

    async def _keep_up(self) -> None:
        """A batch at a time: others want to write too."""

        def write(transaction: Transaction) -> int:
            self._lease.require(transaction)
            return upkeep.clean(transaction, now=int(self._now()), retention_seconds=self._retention_seconds)

        if await self._writer.write(write) < upkeep.BATCH_EVENTS:
            self._next_upkeep = self._monotonic() + _UPKEEP_SECONDS
