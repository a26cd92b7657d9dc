"""Writes on behalf of a token. A request that took long acts only while its token is still accepted."""

import time
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import TypeVar

from relaydeck.credentials.token_book import Caller, TokenBook
from relaydeck.store.database import Transaction
from relaydeck.store.writer import JointWork, Writer, outcomes_of

Item = TypeVar("Item")
Result = TypeVar("Result")


class CallerWriter:
    def __init__(self, writer: Writer, tokens: TokenBook, now: Callable[[], float] = time.time) -> None:
        self._writer = writer
        self._tokens = tokens
        self._now = now

    async def write(self, caller: Caller, work: Callable[[Transaction], Result]) -> Result:
        """As `Writer.write`. Raises Unauthorized when the token was revoked or expired since the request began."""

        def checked(transaction: Transaction) -> Result:
            self.check(transaction, caller)
            return work(transaction)

        return await self._writer.write(checked)

    def check(self, transaction: Transaction, caller: Caller) -> None:
        """For a write of its own. Raises Unauthorized when the token was revoked or expired since."""
        if refusal := self._tokens.refusal(transaction, caller, self._now()):
            raise refusal

    def jointly(self, work: JointWork[Item, Result]) -> Callable[[Caller, Item], "Future[Result]"]:
        """As `Writer.write_jointly`, for one work: each item is written for its caller, or refused alone."""

        def checked(transaction: Transaction, given: Sequence[tuple[Caller, Item]]) -> Sequence[Result | Exception]:
            now = self._now()
            refusals = [self._tokens.refusal(transaction, caller, now) for caller, _ in given]
            accepted = [item for (_, item), refusal in zip(given, refusals, strict=True) if refusal is None]
            outcomes = iter(outcomes_of(accepted, work, transaction) if accepted else ())
            return [next(outcomes) if refusal is None else refusal for refusal in refusals]

        return lambda caller, item: self._writer.write_jointly(checked, (caller, item))
