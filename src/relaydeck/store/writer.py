"""Group commit: writes that wait together are committed together, and answered after the one sync.

One thread owns the writing connection. While it syncs one group, the next one gathers; so the cost of
durability is shared by as many clients as are waiting, and none is answered before its write is safe.
Writes of one kind may also share their statements: each call into the database hands the interpreter to
another thread and back, which costs more than the row it writes.
"""

import asyncio
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, TypeVar

import msgspec

from relaydeck.errors import ServerFailure, StoreTrouble
from relaydeck.store.database import Database, Transaction

Item = TypeVar("Item")
Result = TypeVar("Result")
# Writes many items; gives a result or an exception for each.
JointWork = Callable[[Transaction, Sequence[Item]], Sequence[Result | Exception]]


class _Waiting(msgspec.Struct, frozen=True):
    work: JointWork[Any, Any]
    item: Any
    answer: "asyncio.Future[Any]"


_ByWork = dict[JointWork[Any, Any], list[_Waiting]]


class Writer:
    def __init__(self, database: Database, away: Callable[[], str] = str) -> None:
        """`away` tells why the database is known not to answer: then a write is refused at once. Empty: it may."""
        self._database = database
        self._away = away
        self._bounded = away is not str  # a server may hang: then nobody waits for its word
        self._waiting: queue.SimpleQueue[list[_Waiting] | None] = queue.SimpleQueue()
        self._gathered: list[_Waiting] = []
        self._loop = asyncio.get_running_loop()
        self._unanswered: set[asyncio.Future[Any]] = set()
        self._stopped = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` in a transaction; returns once its effect is on disk, or raises what it raised."""

        def alone(transaction: Transaction, _items: Sequence[None]) -> list[Result]:
            return [work(transaction)]

        return await self.write_jointly(alone, None)

    def write_jointly(self, work: JointWork[Item, Result], item: Item) -> "asyncio.Future[Result]":
        """Like `write`, for an item that may be written in one go with others that wait for the same work."""
        answer: asyncio.Future[Result] = self._loop.create_future()
        if problem := "the service is stopping" if self._stopped else self._away():
            answer.set_exception(ServerFailure(f"nothing is written now: {problem}"))
            return answer
        if self._bounded:
            self._unanswered.add(answer)
            answer.add_done_callback(self._unanswered.discard)
        if not self._gathered:
            # Handed over when this turn of the loop ends: waking the thread for each write would cost more than it.
            self._loop.call_soon(self._hand_over)
        self._gathered.append(_Waiting(work, item, answer))
        return answer

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._waiting.put(gathered)

    def give_up(self, problem: str) -> None:
        """Answer those who wait for a database that went away. Whether their writes stand is not known."""
        for answer in list(self._unanswered):
            if not answer.done():
                answer.set_exception(ServerFailure(f"the database went away: {problem}"))
        if self._stopped:
            self._note_end()  # its thread is left behind

    async def stop(self) -> None:
        """Finish what is waiting, then end. Of a database that is away, nothing is waited for."""
        self._stopped = True
        self._hand_over()
        self._waiting.put(None)
        if not self._away():
            await self._ended

    def _note_end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _run(self) -> None:
        while by_work := self._next_group():
            group = list(chain.from_iterable(by_work.values()))
            self._tell(_settle, group, self._commit(by_work, len(group)))
        self._tell(self._note_end)

    def _tell(self, what: Callable[..., None], *values: Any) -> None:
        with suppress(RuntimeError):  # a thread that was left behind outlives its loop
            self._loop.call_soon_threadsafe(what, *values)

    def _next_group(self) -> _ByWork:
        """Everything that waits, writes of one work together; nothing at the end."""
        by_work: _ByWork = defaultdict(list)
        waiting = self._waiting.get()
        while waiting is not None:
            for each in waiting:
                by_work[each.work].append(each)
            if self._waiting.empty():
                return by_work
            waiting = self._waiting.get()
        if by_work:
            self._waiting.put(None)  # end after this group
        return by_work

    def _commit(self, by_work: _ByWork, count: int) -> list[Any]:
        outcomes = self._commit_group(by_work, count)
        # A work that miscounts must not leave anyone without an answer.
        return outcomes if len(outcomes) == count else [ServerFailure("a write was miscounted")] * count

    def _commit_group(self, by_work: _ByWork, count: int) -> list[Any]:
        items = {work: [each.item for each in group] for work, group in by_work.items()}
        try:
            if len(items) == 1:
                return self._commit_alike(*items.popitem())
            with self._database.transaction() as transaction:
                return [outcome for work in items for outcome in _joint(items[work], work, transaction)]
        except Exception as error:
            # Nothing of this group was acknowledged, and the next one gets its own try.
            failure = ServerFailure(f"the store did not take the write: {type(error).__name__}: {error}")
            return [failure] * count

    def _commit_alike(self, work: JointWork[Any, Any], items: list[Any]) -> list[Any]:
        """Writes of one work need no step of their own, until one of them is at fault."""
        try:
            with self._database.transaction() as transaction:
                return _all_or_fault(items, work, transaction)
        except _Fault as fault:
            if len(items) == 1:
                return [fault.error]
        with self._database.transaction() as transaction:
            return _one_by_one(items, work, transaction)


class _Fault(Exception):
    """What a work raised: a transaction that it leaves is rolled back."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _all_or_fault(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    try:
        return list(work(transaction, items))
    except StoreTrouble:
        raise  # the disk, not the work: the whole group fails
    except Exception as error:
        raise _Fault(error) from None


def _joint(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    try:
        with transaction.step():
            return list(work(transaction, items))
    except StoreTrouble:
        raise  # the disk, not the work: the whole group fails
    except Exception as error:
        if len(items) == 1:
            return [error]
        return _one_by_one(items, work, transaction)


def _one_by_one(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    """One of them is at fault: the others do not share its failure."""
    return [outcome for item in items for outcome in _joint([item], work, transaction)]


def _settle(group: list[_Waiting], outcomes: list[Any]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if waiting.answer.done():
            continue  # the client left; its write stands all the same
        if isinstance(outcome, Exception):
            waiting.answer.set_exception(outcome)
        else:
            waiting.answer.set_result(outcome)
