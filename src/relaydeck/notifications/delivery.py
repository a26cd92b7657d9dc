"""Delivers events to their receivers. Claims decide which process delivers an event (`claims.py`).

    woken, or a due time has come
      -> is anything due?            no: sleep until it is
      -> may this process deliver?   not while another process holds the lease: sleep until that expires
      -> read what became due        since the last revision seen; everything, the first time
      -> claim as many deliveries as there are slots
      -> start a task for each attempt: send, decide, save if the claim is still held

While nothing is due, nothing is written. A process that dies leaves its deliveries due, and another process attempts
them again after the claims have expired: an event may arrive twice, but is never lost.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from relaydeck.background import TaskSet, TurnLoop
from relaydeck.errors import ServerFailure, StoreError
from relaydeck.log import Log
from relaydeck.notifications import message, outbox
from relaydeck.notifications.attempt import Attempt, Sends
from relaydeck.notifications.claims import ClaimLost, Claims, LeaseClaims, RowClaims
from relaydeck.notifications.outbox import PendingDelivery
from relaydeck.notifications.receivers import ReceiverSlots
from relaydeck.notifications.retention import Retention
from relaydeck.notifications.sender import Sender
from relaydeck.setting_values import AddressRange
from relaydeck.store.database_clock import DatabaseClock
from relaydeck.store.leases import Lease
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

_LONGEST_PAUSE = 60.0
_LISTEN_SECONDS = 0.02  # between checks of the write signal while this process delivers
_FINISH_SECONDS = 3.0  # that attempts under way get when the process stops


class DeliveryOptions(NamedTuple):
    allow: tuple[AddressRange, ...] = ()
    timeout_seconds: float = 15.0
    retention_days: int = 30
    lease_seconds: float = 30.0
    clock_sql: str = ""  # of the database, when other machines deliver too
    with_audit_head: bool = False  # in a header of each delivery
    max_attempts: int = 256  # at the same time
    max_per_receiver: int = 8


class Delivery:
    def __init__(
        self,
        store: Store,
        writer: Writer,
        log: Log,
        options: DeliveryOptions,
        *,
        sender: Sends | None = None,
        count_try: Callable[[str], None] = lambda outcome: None,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._database, self._read = store.database, store.database.read
        self._run_in_reader = store.database.run_in_reader
        self._writer, self._log, self._options = writer, log, options
        self._now, self._monotonic, self._random = now, monotonic, random
        self._clock = DatabaseClock(options.clock_sql, now, monotonic)  # of due times and claims
        self._sender: Sends = sender or Sender(options.allow, options.timeout_seconds)
        self._receivers = ReceiverSlots(options.max_attempts, options.max_per_receiver)
        self._claims = self._make_claims()
        clocks: dict[str, Callable[[], float]] = {
            "clock": self._clock,
            "now": now,
            "monotonic": monotonic,
            "random": random,
        }
        read_message = partial(message.read_message, store, with_audit_head=options.with_audit_head)
        self._attempt = Attempt(
            store.database, writer, log, self._sender, self._claims, read_message, count_try=count_try, **clocks
        )
        self._loaded_tenure = 0  # in which the due times were read
        self._seen_revision = -1
        self._seen_write = -1
        self._retention = Retention(store.database, writer, options.retention_days, now=now, monotonic=monotonic)
        self._stopping = False
        self._loop = TurnLoop(self.turn, self._reset, log, "events are not delivered")
        self.wake = self._loop.wake
        self.attempts = TaskSet()

    def _make_claims(self) -> Claims:
        seconds, monotonic = self._options.lease_seconds, self._monotonic
        if self._database.remote:
            # Longer than any attempt, by a lease: a process may read the clock late.
            seconds += self._options.timeout_seconds
            return RowClaims(self._database, self._writer, seconds, monotonic=monotonic)
        return LeaseClaims(self._database, self._writer, Lease("delivery", seconds, now=self._now, monotonic=monotonic))

    async def run(self) -> None:
        await self._loop.run(self._pause)

    def _reset(self) -> None:
        self._claims.lose()
        self._loaded_tenure = 0  # the due times may have been read in part

    async def _pause(self, seconds: float) -> None:
        """Until woken. A delivering process also checks the write signal, which other processes set."""
        end = self._monotonic() + seconds
        while (left := end - self._monotonic()) > 0:
            listening = self._claims.delivering
            if await self._loop.wait(min(left, _LISTEN_SECONDS) if listening else left):
                return
            if listening and self._database.write_signal.last() != self._seen_write:
                return

    async def close(self) -> None:
        """Give attempts under way a moment to finish, then let the next process take over at once."""
        self._stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_SECONDS):
                await self.attempts.join()
        await self.attempts.cancel()
        await self._sender.close()
        try:
            await self._claims.release()
        except (StoreError, ServerFailure):
            self._claims.lose()  # they expire

    async def turn(self) -> float:
        """Start what is due. Return the seconds until there may be more. Raises StoreError, ServerFailure."""
        self._seen_write = self._database.write_signal.last()
        due = await self._run_in_reader(partial(outbox.next_attempt_at, self._read, self._clock))
        expired = await self._retention.has_expired()
        is_due = due is not None and due <= self._milliseconds()
        if not (self._receivers.under_way or is_due or expired):
            return self._until(due)
        if (wait := await self._claims.wait()) > 0:
            return wait + 0.1 * self._random()
        if expired:
            await self._retention.remove_batch()
        await self._schedule_receivers()
        await self._start_due()
        return self._until(self._receivers.next_due())

    def _milliseconds(self) -> int:
        return int(self._clock() * 1000)

    def _until(self, due: int | None) -> float:
        pause = min(_LONGEST_PAUSE, self._retention.until_next())
        if due is not None:
            pause = min(pause, due / 1000 - self._clock())
        if self._receivers.under_way:
            pause = min(pause, self._options.lease_seconds / 3)  # in time to renew the lease
        return max(pause, 0.0)

    # -- what is due ------------------------------------------------------------------------------

    async def _schedule_receivers(self) -> None:
        """Read what became due since the last turn. In a new tenure other processes may have changed anything."""
        tenure = self._claims.tenure
        if is_new := tenure != self._loaded_tenure:
            self._receivers.forget_due()
        seen = None if is_new else self._seen_revision
        self._seen_revision, found = await self._run_in_reader(partial(self._due_since, seen))
        self._loaded_tenure = tenure
        for receiver, due in found:
            self._receivers.schedule(receiver, due)

    def _due_since(self, seen: int | None) -> tuple[int, list[tuple[str, int]]]:
        """With the revision from before the query: what is written during it is found again the next time."""
        revision = self._read("SELECT revision FROM clock")[0].revision
        if seen is None:
            return revision, outbox.receivers_with_deliveries(self._read)
        return revision, outbox.receivers_with_deliveries_since(self._read, seen)

    async def _start_due(self) -> None:
        now = self._milliseconds()
        capacities = self._receivers.capacities(self._receivers.pop_due(now))
        if self._stopping or not capacities:
            return  # an attempt that ends schedules its receiver again
        claimed = await self._claims.take(capacities, now)
        for receiver, moment in claimed.later.items():
            self._receivers.schedule(receiver, moment)
        for delivery in claimed.deliveries:
            was_failing = self._receivers.started(delivery.notification_id, delivery.sequence)
            self.attempts.start(self._deliver(delivery, was_failing))
        if len(claimed.deliveries) < sum(each.slots for each in capacities):
            self._receivers.schedule_waiting()

    async def _deliver(self, delivery: PendingDelivery, was_failing: bool) -> None:
        delivered = False
        receiver, sequence = delivery.notification_id, delivery.sequence
        try:
            delivered = await self._attempt(delivery)
        except ClaimLost:
            self._claims.lose()
            message = "another process delivers this event now: not saved"
            self._log.event("warning", message, event_id=delivery.event_id)
        finally:
            self._receivers.finished(receiver, sequence, was_failing=was_failing, delivered=delivered)
            self.wake()
