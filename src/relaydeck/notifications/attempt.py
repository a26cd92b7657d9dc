"""One attempt from end to end: read the message, send it, decide what follows, save the result."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from relaydeck.errors import ServerFailure, StoreError
from relaydeck.log import Log
from relaydeck.notifications import outbox
from relaydeck.notifications.claims import ClaimLost, Claims
from relaydeck.notifications.message import Message
from relaydeck.notifications.outbox import AttemptOutcome, AttemptRecord, FinishedAttempt, PendingDelivery
from relaydeck.notifications.retries import ReceiverResponse, decide
from relaydeck.store.database import Database, Transaction
from relaydeck.store.writer import Writer

_RETRY_SECONDS = 1.0  # between attempts to save while the store fails
_EVENTS = {
    "delivered": "an event was delivered",
    "pending": "an attempt to deliver an event failed: the service tries again",
    "dead": "a delivery was given up",
}

ReadMessage = Callable[[PendingDelivery, int], Message | ReceiverResponse]  # as of a moment, in seconds


class Sends(Protocol):
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> ReceiverResponse: ...

    async def close(self) -> None: ...


class Attempt:
    def __init__(
        self,
        database: Database,
        writer: Writer,
        log: Log,
        sender: Sends,
        claims: Claims,
        read_message: ReadMessage,
        *,
        count_try: Callable[[str], None],
        clock: Callable[[], float],
        now: Callable[[], float],
        monotonic: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        """`clock` is the one of due times, `now` that of this machine."""
        self._run_in_reader, self._read_message = database.run_in_reader, read_message
        self._writer, self._log = writer, log
        self._sender, self._claims = sender, claims
        self._count_try = count_try
        self._clock, self._now, self._monotonic, self._random = clock, now, monotonic, random

    async def __call__(self, delivery: PendingDelivery) -> bool:
        """Return whether the event was delivered. Raises ClaimLost when another process attempts it now."""
        started, began = self._now(), self._monotonic()
        response = await self._send(delivery, int(started))
        duration = round((self._monotonic() - began) * 1000)
        attempt = AttemptRecord(int(started * 1000), duration, response.status, response.problem, response.text)
        tries, in_order = delivery.tries + 1, delivery.in_order
        outcome = decide(response, tries=tries, in_order=in_order, now=self._clock(), random=self._random)
        await self._save(FinishedAttempt(delivery, attempt, outcome))
        self._count_try("failed" if outcome.state == "pending" else outcome.state)
        self._log_result(delivery, attempt, outcome)
        return response.delivered

    # -- sending ----------------------------------------------------------------------------------

    async def _send(self, delivery: PendingDelivery, now: int) -> ReceiverResponse:
        try:
            message = await self._run_in_reader(partial(self._read_message, delivery, now))
            if isinstance(message, ReceiverResponse):
                return message
            return await self._sender.post(message.url, message.headers, message.body)
        except StoreError:
            return ReceiverResponse(problem="store_unreadable")
        except Exception as error:
            # A defect of ours costs this delivery one attempt, with the pause that follows, and affects no other.
            self._log.event("error", "a delivery attempt failed unexpectedly", problem=type(error).__name__)
            return ReceiverResponse(problem="internal_error")

    # -- saving -----------------------------------------------------------------------------------

    async def _save(self, finished: FinishedAttempt) -> None:
        """Repeat until it is saved: without its saved attempt the event would be sent again."""
        while True:
            try:
                return await self._writer.write_jointly(self._save_together, finished)
            except ServerFailure as failure:
                event_id = finished.delivery.event_id
                self._log.event(
                    "error", "a delivery attempt cannot be saved", event_id=event_id, problem=failure.reason
                )
                await asyncio.sleep(_RETRY_SECONDS)

    def _save_together(self, transaction: Transaction, attempts: Sequence[FinishedAttempt]) -> list[Exception | None]:
        """Attempts that end together are saved together: under load, saving is most of an attempt's cost."""
        sequences = [finished.delivery.sequence for finished in attempts]
        held = self._claims.still_held(transaction, sequences)
        outbox.save_attempts(transaction, [each for each in attempts if each.delivery.sequence in held])
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
