"""Brings events to their receivers. Who of all that share the database does, its claims decide (`claims.py`).

    woken, or a due time has come
      -> is anything due?            no: sleep until it is
      -> may this process deliver?   not while another has all of it: sleep until that ends
      -> read what became due        since the last revision seen; everything, the first time
      -> claim as much of it as there is room for
      -> start a task for each try: send, judge, write down if the claim is still ours

Nothing is written while nothing is due. A process that dies leaves its deliveries as they were: due. When its
claims have run out another tries them again, which is why an event may arrive twice but never not at all.
"""

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from relaydeck.errors import ServerFailure, StoreError
from relaydeck.log import Log
from relaydeck.notifications import outbox, upkeep
from relaydeck.notifications.attempt import Attempt, Posts
from relaydeck.notifications.claims import ClaimLost, Claims, LeaseClaims
from relaydeck.notifications.outbox import Due
from relaydeck.notifications.receivers import Receivers
from relaydeck.notifications.row_claims import RowClaims
from relaydeck.notifications.sender import Sender
from relaydeck.settings import AddressRange
from relaydeck.store.database import Transaction
from relaydeck.store.leases import Lease
from relaydeck.store.open_store import Store
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
        self._read, self._run_in_reader = store.database.read, store.database.run_in_reader
        self._writer = writer
        self._log = log
        self._options = options
        self._sender: Posts = sender or Sender(
            options.allow, options.timeout_seconds, most_at_once=options.most_at_once
        )
        self._now, self._monotonic, self._random = now, monotonic, random
        self._receivers = Receivers(options.most_at_once, options.most_per_receiver)
        self._claims = self._make_claims()
        self._attempt = Attempt(
            store,
            writer,
            log,
            self._sender,
            self._claims,
            count_try=count_try,
            now=now,
            monotonic=monotonic,
            random=random,
        )
        self._loaded_under = 0  # the tenure under which what is due was read
        self._seen = -1
        self._seen_write = -1
        self._next_upkeep = monotonic()
        self._tries: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._stopping = False

    def _make_claims(self) -> Claims:
        seconds, monotonic = self._options.lease_seconds, self._monotonic
        if self._database.remote:
            # Longer than any try; and the clocks of two machines may be apart by a lease.
            return RowClaims(self._database, self._writer, self._options.timeout_seconds + seconds, monotonic=monotonic)
        return LeaseClaims(self._database, self._writer, Lease("delivery", seconds, now=self._now, monotonic=monotonic))

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
                self._claims.lose()
                self._loaded_under = 0  # it may have been half taken up
                pause = _TROUBLE_SECONDS
            await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        """Until woken. While this process delivers it hears other processes' writes by itself."""
        end = self._monotonic() + seconds
        while (left := end - self._monotonic()) > 0 and not self._woken.is_set():
            listening = self._claims.delivering
            try:
                async with asyncio.timeout(min(left, _LISTEN_SECONDS) if listening else left):
                    await self._woken.wait()
            except TimeoutError:
                if listening and self._database.write_signal.last() != self._seen_write:
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
            await self._claims.give_back()
        except (StoreError, ServerFailure):
            self._claims.lose()  # they run out by themselves

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
        self._seen_write = self._database.write_signal.last()
        due, cleaning = await self._run_in_reader(partial(outbox.next_free, self._read)), await self._is_to_clean()
        is_due = due is not None and due <= self._milliseconds()
        if not (self._receivers.under_way or is_due or cleaning):
            return self._until(due)
        if (wait := await self._claims.wait()) > 0:
            return wait + 0.1 * self._random()
        if cleaning:
            await self._keep_up()
        await self._note_due()
        await self._start_due()
        return self._until(self._receivers.next_due())

    def _milliseconds(self) -> int:
        return int(self._now() * 1000)

    def _until(self, due: int | None) -> float:
        pause = min(_LONGEST_SLEEP, self._next_upkeep - self._monotonic())
        if due is not None:
            pause = min(pause, due / 1000 - self._now())
        if self._receivers.under_way:
            pause = min(pause, self._options.lease_seconds / 3)  # in time to renew
        return max(pause, 0.0)

    async def _note_due(self) -> None:
        """What became due since the last look; in a new tenure others may have changed anything before it."""
        tenure = self._claims.tenure
        if anew := tenure != self._loaded_under:
            self._receivers.forget_due()
        self._seen, found = await self._run_in_reader(partial(self._due_since, None if anew else self._seen))
        self._loaded_under = tenure
        for receiver, due in found:
            self._receivers.note(receiver, due)

    def _due_since(self, seen: int | None) -> tuple[int, list[tuple[str, int]]]:
        """And the revision as it was before the look: what comes during it is found again."""
        revision = self._read("SELECT revision FROM clock")[0][0]
        if seen is None:
            return revision, outbox.receivers_free(self._read)
        return revision, outbox.receivers_free_since(self._read, seen)

    async def _start_due(self) -> None:
        now = self._milliseconds()
        rooms = self._receivers.rooms(self._receivers.take_due(now))
        if self._stopping or not rooms:
            return  # noted again when one of those under way is finished
        taken = await self._claims.take(rooms, now)
        for receiver, moment in taken.later.items():
            self._receivers.note(receiver, moment)
        for due in taken.dues:
            self._start(due)
        if len(taken.dues) < sum(room.places for room in rooms):
            self._receivers.call_crowded()

    def _start(self, due: Due) -> None:
        was_troubled = self._receivers.started(due.notification_id, due.sequence)
        task = asyncio.create_task(self._try(due, was_troubled))
        self._tries.add(task)
        task.add_done_callback(self._tries.discard)

    async def _try(self, due: Due, was_troubled: bool) -> None:
        delivered = False
        try:
            delivered = await self._attempt(due)
        except ClaimLost:
            self._claims.lose()
            self._log.event("warning", "another process tries it now: a try is not written down", sequence=due.sequence)
        finally:
            self._receivers.finished(due.notification_id, due.sequence, was_troubled=was_troubled, delivered=delivered)
            self._woken.set()

    async def _is_to_clean(self) -> bool:
        if self._monotonic() < self._next_upkeep:
            return False
        if not (found := await self._run_in_reader(self._upkeep_is_due)):
            self._next_upkeep = self._monotonic() + _UPKEEP_SECONDS
        return found

    def _upkeep_is_due(self) -> bool:
        return upkeep.is_due(self._read, now=int(self._now()), retention_seconds=self._retention_seconds)

    @property
    def _retention_seconds(self) -> int:
        return self._options.retention_days * 86_400

    async def _keep_up(self) -> None:
        """A batch at a time: others want to write too. Whoever does it, and however many do: it is done once."""

        def write(transaction: Transaction) -> int:
            return upkeep.clean(transaction, now=int(self._now()), retention_seconds=self._retention_seconds)

        if await self._writer.write(write) < upkeep.BATCH_EVENTS:
            self._next_upkeep = self._monotonic() + _UPKEEP_SECONDS
