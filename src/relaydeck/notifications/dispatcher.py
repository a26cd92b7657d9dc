"""Delivers events to their receivers. Claims decide which process delivers an event (`claims.py`).

    woken, or a due time has come
      -> is anything due?            no: sleep until it is
      -> may this process deliver?   not while another process holds the lease: sleep until that expires
      -> read what became due        since the last revision seen; everything, the first time
      -> claim as many deliveries as there are slots
      -> start a task for each attempt: read the message, send it, decide what follows, save if the claim is still held

While nothing is due, nothing is written. A process that dies leaves its deliveries due, and another process attempts
them again after the claims have expired: an event may arrive twice, but is never lost.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from relaydeck.errors import ServerFailure, StoreError, described
from relaydeck.log import Log
from relaydeck.notifications import delivery_queue, sender
from relaydeck.notifications.claims import ClaimLost, Claims, LeaseClaims, ReceiverSlots, RowClaims
from relaydeck.notifications.delivery_queue import (
    AttemptOutcome,
    AttemptRecord,
    DatabaseClock,
    FinishedAttempt,
    PendingDelivery,
    ReceiverResponse,
    decide,
)
from relaydeck.notifications.sender import Sender
from relaydeck.process.background import Backoff, TaskSet, TurnLoop
from relaydeck.scheduling.leases import ShardLeases
from relaydeck.settings.model import Settings
from relaydeck.store.database import ReadRows, RowReader, Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.writer import Writer

_LONGEST_PAUSE = 60.0
_LISTEN_SECONDS = 0.02  # between checks of the write signal while this process delivers
_MAX_PER_RECEIVER = 8  # attempts at the same time
_FINISH_SECONDS = 3.0  # that attempts under way get when the process stops
_EVENTS = {
    "delivered": "an event was delivered",
    "pending": "an attempt to deliver an event failed: the service tries again",
    "dead": "a delivery was given up",
}


class Dispatcher:
    table = "deliveries"

    def __init__(
        self,
        store: Store,
        writer: Writer,
        log: Log,
        settings: Settings,
        *,
        clock_sql: str = "",
        max_attempts: int = 256,
        count_try: Callable[[str], None] = lambda outcome: None,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`clock_sql`: the clock of the database, when other machines deliver too."""
        self._database, self._read = store.database, store.database.read
        self._run_in_reader = store.database.run_in_reader
        self._writer, self._log, self._settings = writer, log, settings
        self._now, self._monotonic, self._random = now, monotonic, random
        self._clock = DatabaseClock(clock_sql, now, monotonic)  # of due times and claims
        self._sender = Sender(settings.webhook_allow, settings.webhook_timeout_seconds)
        self._receivers = ReceiverSlots(max_attempts, _MAX_PER_RECEIVER)
        self._claims = self._make_claims()
        self._read_message = partial(sender.read_message, store, with_audit_head=settings.event_audit_head == "on")
        self._count_try = count_try
        self._loaded_tenure = 0  # in which the due times were read
        self._seen_revision = -1
        self._seen_write = -1
        self._stopping = False
        self._loop = TurnLoop(self.turn, self._reset, log, "events are not delivered")
        self.wake = self._loop.wake
        self._running = TaskSet()
        self.attempts = TaskSet()

    def _make_claims(self) -> Claims:
        seconds, monotonic = self._settings.lease_seconds, self._monotonic
        if isinstance(self._database, PostgresDatabase):
            # Longer than any attempt, by a lease: a process may read the clock late.
            seconds += self._settings.webhook_timeout_seconds
            return RowClaims(self._database, self._writer, seconds, monotonic=monotonic)
        lease = ShardLeases("delivery", 1, seconds, now=self._now, monotonic=monotonic)
        return LeaseClaims(self._database, self._writer, lease)

    # -- following the table of deliveries, as the read model does --------------------------------

    def read_all(self, reader: RowReader) -> bool:
        """Whether anything is to be delivered: the turns themselves read what."""
        return bool(reader.read("SELECT 1 FROM deliveries WHERE state = 'pending' LIMIT 1", {}))

    def replace(self, any_pending: bool) -> None:
        if any_pending:
            self.apply_changes(None)

    def fetch_changes(self, _read: ReadRows, _seen: int, *, removed: bool) -> None:
        return None  # the next turn reads what is due

    def apply_changes(self, _fetched: None) -> None:
        if not self._running:  # before there is anything to deliver, nothing runs
            self._running.start(self.run())
        self.wake()

    # -- running ----------------------------------------------------------------------------------

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
        """Give attempts under way a moment to finish, then let the next process take over at once.

        Before the writer stops: attempts under way are saved.
        """
        await self._running.cancel()
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
        due = await self._run_in_reader(partial(delivery_queue.next_attempt_at, self._read, self._clock))
        is_due = due is not None and due <= self._milliseconds()
        if not (self._receivers.under_way or is_due):
            return self._until(due)
        if (wait := await self._claims.wait()) > 0:
            return wait + 0.1 * self._random()
        await self._schedule_receivers()
        now = self._milliseconds()
        await self._start_due(now)
        return self._until(self._receivers.next_due(now))

    def _milliseconds(self) -> int:
        return int(self._clock() * 1000)

    def _until(self, due: int | None) -> float:
        pause = _LONGEST_PAUSE if due is None else min(_LONGEST_PAUSE, due / 1000 - self._clock())
        if self._receivers.under_way:
            pause = min(pause, self._settings.lease_seconds / 3)  # in time to renew the lease
        return max(pause, 0.0)

    # -- what is due ------------------------------------------------------------------------------

    async def _schedule_receivers(self) -> None:
        """Read what became due since the last turn. In a new tenure other processes may have changed anything."""
        tenure = self._claims.tenure
        if is_new := tenure != self._loaded_tenure:
            self._receivers.forget_due()
        seen = None if is_new else self._seen_revision
        read = partial(delivery_queue.receivers_with_deliveries, self._read, seen)
        self._seen_revision, found = await self._run_in_reader(read)
        self._loaded_tenure = tenure
        for receiver, due in found:
            self._receivers.schedule(receiver, due)

    async def _start_due(self, now: int) -> None:
        """Until every slot is taken or nothing is due. An attempt that ends schedules its receiver again."""
        unused = 1
        while unused and not self._stopping and (capacities := self._receivers.take_due(now)):
            claimed = await self._claims.take(capacities, now)
            for receiver, moment in claimed.later.items():
                self._receivers.schedule(receiver, moment)
            for delivery in claimed.deliveries:
                self._receivers.started(delivery.notification_id, delivery.sequence)
                self.attempts.start(self._deliver(delivery))
            unused = sum(each.slots for each in capacities) - len(claimed.deliveries)

    async def _deliver(self, delivery: PendingDelivery) -> None:
        delivered = False
        try:
            delivered = await self._attempt(delivery)
        except ClaimLost:
            self._claims.lose()
            problem = "another process delivers this event now: not saved"
            self._log.event("warning", problem, event_id=delivery.event_id)
        finally:
            receiver, now = delivery.notification_id, self._milliseconds()
            self._receivers.finished(receiver, delivery.sequence, now, delivered=delivered)
            self.wake()

    # -- one attempt ------------------------------------------------------------------------------

    async def _attempt(self, delivery: PendingDelivery) -> bool:
        """Return whether the event was delivered. Raises ClaimLost when another process attempts it now."""
        started, began = self._now(), self._monotonic()
        response = await self._send(delivery, int(started))
        duration = round((self._monotonic() - began) * 1000)
        attempt = AttemptRecord(int(started * 1000), duration, response.status, response.problem, response.text)
        tries, in_order = delivery.tries + 1, delivery.in_order
        now, scheduled_at = self._clock(), delivery.scheduled_at
        outcome = decide(
            response, tries=tries, in_order=in_order, now=now, random=self._random, scheduled_at=scheduled_at
        )
        await self._save(FinishedAttempt(delivery, attempt, outcome))
        self._count_try("failed" if outcome.state == "pending" else outcome.state)
        self._log_result(delivery, attempt, outcome)
        return response.delivered

    async def _send(self, delivery: PendingDelivery, now: int) -> ReceiverResponse:
        try:
            found = await self._run_in_reader(partial(self._read_message, delivery, now))
            if isinstance(found, ReceiverResponse):
                return found
            return await self._sender.post(found.url, found.headers, found.body)
        except StoreError:
            return ReceiverResponse(problem="store_unreadable")
        except Exception as error:
            # A defect of ours costs this delivery one attempt, with the pause that follows, and affects no other.
            self._log.event("error", "a delivery attempt failed unexpectedly", problem=described(error))
            return ReceiverResponse(problem="internal_error")

    async def _save(self, finished: FinishedAttempt) -> None:
        """Repeat until it is saved: without its saved attempt the event would be sent again."""
        backoff = Backoff()
        while True:
            try:
                return await self._writer.write_jointly(self._save_together, finished)
            except ServerFailure as failure:
                event_id = finished.delivery.event_id
                self._log.event(
                    "error", "a delivery attempt cannot be saved", event_id=event_id, problem=failure.reason
                )
                await asyncio.sleep(backoff.pause())

    def _save_together(self, transaction: Transaction, attempts: Sequence[FinishedAttempt]) -> list[Exception | None]:
        """Attempts that end together are saved together: under load, saving is most of an attempt's cost."""
        sequences = [finished.delivery.sequence for finished in attempts]
        held = self._claims.still_held(transaction, sequences)
        delivery_queue.save_attempts(transaction, [each for each in attempts if each.delivery.sequence in held])
        return [None if sequence in held else ClaimLost() for sequence in sequences]

    def _log_result(self, delivery: PendingDelivery, attempt: AttemptRecord, outcome: AttemptOutcome) -> None:
        # A delivery may fail again and again for days: a warning for each attempt would hide the rest of the log.
        is_first_failure = outcome.state == "pending" and delivery.tries == 0
        self._log.event(
            "warning" if is_first_failure or outcome.state == "dead" else "debug",
            _EVENTS[outcome.state],
            event_id=delivery.event_id,
            notification=delivery.notification_id,
            tries=delivery.tries + 1,
            status=attempt.status,
            problem=attempt.problem,
            milliseconds=attempt.duration,
        )
