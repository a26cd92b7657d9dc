"""One try from end to end: read the message, send it, judge the answer, write both down."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from relaydeck.errors import ServerFailure, StoreError
from relaydeck.log import Log
from relaydeck.notifications import outbox
from relaydeck.notifications.claims import ClaimLost, Claims
from relaydeck.notifications.messages import Messages
from relaydeck.notifications.outbox import AttemptOutcome, AttemptRecord, Due, Tried
from relaydeck.notifications.retries import Answer, judge
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

_TROUBLE_SECONDS = 1.0  # between tries to write while the store fails


class Posts(Protocol):
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer: ...

    async def close(self) -> None: ...


class Attempt:
    def __init__(
        self,
        store: Store,
        writer: Writer,
        log: Log,
        sender: Posts,
        claims: Claims,
        *,
        count_try: Callable[[str], None],
        now: Callable[[], float],
        monotonic: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._messages, self._run_in_reader = Messages(store), store.database.run_in_reader
        self._writer = writer
        self._log = log
        self._sender = sender
        self._claims = claims
        self._count_try = count_try
        self._now, self._monotonic, self._random = now, monotonic, random

    async def __call__(self, due: Due) -> bool:
        """Whether it was delivered. Raises ClaimLost when it is another process's by now."""
        started, began = self._now(), self._monotonic()
        answer = await self._send(due, int(started))
        duration = round((self._monotonic() - began) * 1000)
        attempt = AttemptRecord(int(started * 1000), duration, answer.status, answer.problem, answer.text)
        outcome = judge(answer, tries=due.tries + 1, in_line=due.in_line, now=self._now(), random=self._random)
        await self._settle(Tried(due, attempt, outcome))
        self._count_try("failed" if outcome.state == "pending" else outcome.state)
        self._tell(due, attempt, outcome)
        return answer.delivered

    async def _send(self, due: Due, now: int) -> Answer:
        try:
            message = await self._run_in_reader(partial(self._messages.read, due, now))
            if isinstance(message, Answer):
                return message
            return await self._sender.post(message.url, message.headers, message.body)
        except StoreError:
            return Answer(problem="store_unreadable")
        except Exception as error:
            # A mistake of ours costs this event a try, with the pause that follows one, and nobody else anything.
            self._log.event("error", "a try failed in a way it should not", problem=type(error).__name__)
            return Answer(problem="internal_error")

    async def _settle(self, tried: Tried) -> None:
        """Written down, or not sent again: while the store fails, the delivery stays under way."""
        while True:
            try:
                return await self._writer.write_jointly(self._write_down, tried)
            except ServerFailure as failure:
                sequence = tried.due.sequence
                self._log.event("error", "a try cannot be written down", sequence=sequence, problem=failure.reason)
                await asyncio.sleep(_TROUBLE_SECONDS)

    def _write_down(self, transaction: Transaction, tries: Sequence[Tried]) -> list[Exception | None]:
        """Tries that end together are written together: under load that is most of what a try costs."""
        ours = self._claims.ours(transaction, [tried.due.sequence for tried in tries])
        outbox.settle(transaction, [tried for tried in tries if tried.due.sequence in ours])
        return [None if tried.due.sequence in ours else ClaimLost() for tried in tries]

    def _tell(self, due: Due, attempt: AttemptRecord, outcome: AttemptOutcome) -> None:
        self._log.event(
            "warning" if outcome.state == "dead" else "debug",
            f"event {outcome.state}",
            sequence=due.sequence,
            notification=due.notification_id,
            tries=due.tries + 1,
            status=attempt.status,
            problem=attempt.problem,
            milliseconds=attempt.duration,
        )
