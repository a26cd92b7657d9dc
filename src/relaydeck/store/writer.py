"""Group commit: writes that wait together are committed together, and answered after the one sync.

    writes gather                 while the last group is synced
      -> write the group          short ones in the event loop, where no other thread is in the way
      -> sync                     always in a thread: it waits for the disk
      -> answer

Everything else that may take its time is done by the thread as well: writes that are not known to be short, a
group that another process or a fault is in the way of, and all of it where each statement is a round trip.
Short ones are not, because each call into SQLite hands the interpreter over: from a thread that shares it with
a busy event loop, the calls for a group take several times as long as they do by themselves.
"""

import asyncio
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import msgspec

from relaydeck.errors import ServerFailure, StoreTrouble
from relaydeck.store.database import Database, Transaction

Item = TypeVar("Item")
Result = TypeVar("Result")
# Writes many items; gives a result or an exception for each. May be called again for some of them, in another
# transaction, when that one failed.
JointWork = Callable[[Transaction, Sequence[Item]], Sequence[Result | Exception]]

# Where several came together, the next ones are given this long to do so too: a group costs little more than a write.
_GATHER_SECONDS = 0.0005
_SEVERAL = 5
MOST_AT_ONCE = 256  # a group that thousands of clients gathered would keep the event loop


class _Waiting(msgspec.Struct, frozen=True):
    work: JointWork[Any, Any]
    item: Any
    answer: "asyncio.Future[Any]"
    short: bool


_Group = list[_Waiting]
_ItemsByWork = Mapping[JointWork[Any, Any], list[Any]]
_Finish = Callable[[], list[Any]]  # does what is left to do for a group; the outcome of each write


class Writer:
    def __init__(self, database: Database, away: Callable[[], str] = str) -> None:
        """`away` tells why the database is known not to answer: then a write is refused at once. Empty: it may."""
        self._database = database
        self._away = away
        self._bounded = away is not str  # a server may hang: then nobody waits for its word
        self._gathered: _Group = []
        self._under_way = False  # a group is with the thread
        self._given_up = 0  # how often
        self._tasks: queue.SimpleQueue[tuple[_Group, _Finish] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._unanswered: set[asyncio.Future[Any]] = set()
        self._stopped = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(target=self._run, name="writer", daemon=True).start()

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` in a transaction; returns once its effect is on disk, or raises what it raised."""

        def alone(transaction: Transaction, _items: Sequence[None]) -> list[Result]:
            return [work(transaction)]

        return await self._add(alone, None, short=False)

    def write_jointly(self, work: JointWork[Item, Result], item: Item) -> "asyncio.Future[Result]":
        """Like `write`, for an item that may be written in one go with others that wait for the same short work."""
        return self._add(work, item, short=True)

    def _add(self, work: JointWork[Item, Result], item: Item, *, short: bool) -> "asyncio.Future[Result]":
        answer: asyncio.Future[Result] = self._loop.create_future()
        if problem := "the service is stopping" if self._stopped else self._away():
            answer.set_exception(ServerFailure(f"nothing is written now: {problem}"))
            return answer
        if self._bounded:
            self._unanswered.add(answer)
            answer.add_done_callback(self._unanswered.discard)
        if not self._gathered and not self._under_way:
            self._loop.call_soon(self._go_on)  # with all that come in this turn of the loop
        self._gathered.append(_Waiting(work, item, answer, short))
        return answer

    def give_up(self, problem: str) -> None:
        """Answer those who wait for a database that went away. What it has not begun with is not written any more."""
        self._given_up += 1
        self._gathered.clear()
        for answer in list(self._unanswered):
            if not answer.done():
                answer.set_exception(ServerFailure(f"the database went away: {problem}"))
        if self._stopped:
            self._note_end()  # its thread is left behind

    async def stop(self) -> None:
        """Finish what is waiting, then end. Of a database that is away, nothing is waited for."""
        self._stopped = True
        self._go_on()
        if not self._away():
            await self._ended

    def _note_end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    # -- in the event loop ------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Begin with what has gathered, unless a group is under way."""
        if self._under_way:
            return
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._under_way = True
            self._tasks.put(self._begun(gathered))
        elif self._stopped:
            self._tasks.put(None)

    def _end_group(self) -> None:
        self._under_way = False
        self._go_on()

    def _begun(self, gathered: _Group) -> tuple[_Group, _Finish]:
        by_work: dict[JointWork[Any, Any], _Group] = defaultdict(list)
        for each in gathered:
            by_work[each.work].append(each)
        group = list(chain.from_iterable(by_work.values()))
        items = {work: [each.item for each in its_group] for work, its_group in by_work.items()}
        at_once = len(items) == 1 and group[0].short and len(group) <= MOST_AT_ONCE
        written = self._written_at_once(items) if at_once else None
        return group, written or partial(self._commit, items, len(group), self._given_up)

    def _written_at_once(self, items: _ItemsByWork) -> _Finish | None:
        """Write a group of one work, all but the sync. None: let the thread write it."""
        if (at_once := self._database.transaction_at_once()) is None:
            return None
        work, its_items = next(iter(items.items()))
        try:
            with ExitStack() as opened:
                outcomes = _outcomes(its_items, work, opened.enter_context(at_once))
                return partial(_synced, outcomes, opened.pop_all().close)
        except BaseException:  # a panic in a library is no Exception
            return None  # undone; the thread has the patience to wait, or to find out who is at fault

    # -- in the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            group, finish = task
            self._tell(_settle, group, finish())
            if len(group) >= _SEVERAL:
                time.sleep(_GATHER_SECONDS)
            self._tell(self._end_group)
        self._tell(self._note_end)

    def _tell(self, what: Callable[..., None], *values: Any) -> None:
        with suppress(RuntimeError):  # a thread that was left behind outlives its loop
            self._loop.call_soon_threadsafe(what, *values)

    def _commit(self, items: _ItemsByWork, count: int, given_up: int) -> list[Any]:
        try:
            if len(items) == 1:
                return self._commit_alike(*next(iter(items.items())), given_up)
            with self._transaction(given_up) as transaction:
                return [outcome for work in items for outcome in _joint(items[work], work, transaction)]
        except BaseException as error:
            return _not_taken(error, count)

    def _commit_alike(self, work: JointWork[Any, Any], items: list[Any], given_up: int) -> list[Any]:
        """Writes of one work need no step of their own, until one of them is at fault."""
        try:
            with self._transaction(given_up) as transaction:
                return _all_or_fault(items, work, transaction)
        except _Fault as fault:
            if len(items) == 1:
                return [fault.error]
        with self._transaction(given_up) as transaction:
            return _one_by_one(items, work, transaction)

    @contextmanager
    def _transaction(self, given_up: int) -> Iterator[Transaction]:
        """For a group that was begun with when it had been given up that often: it may have waited for long."""
        with self._database.transaction() as transaction:
            if given_up != self._given_up:
                raise StoreTrouble("it was given up while it waited")
            yield transaction


def _synced(outcomes: list[Any], commit: Callable[[], None]) -> list[Any]:
    try:
        commit()
    except BaseException as error:
        return _not_taken(error, len(outcomes))
    return outcomes


def _not_taken(error: BaseException, count: int) -> list[Any]:
    """Nothing of a group was acknowledged, and the next one gets its own try."""
    return [ServerFailure(f"the store did not take the write: {type(error).__name__}: {error}")] * count


def _outcomes(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    outcomes = list(work(transaction, items))
    if len(outcomes) != len(items):
        raise ServerFailure("a write was miscounted")  # nobody must be left without an answer, or with another's
    return outcomes


class _Fault(Exception):
    """What a work raised: a transaction that it leaves is rolled back."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _all_or_fault(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    try:
        return _outcomes(items, work, transaction)
    except StoreTrouble:
        raise  # the disk, not the work: the whole group fails
    except Exception as error:
        raise _Fault(error) from None


def _joint(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    try:
        with transaction.step():
            return _outcomes(items, work, transaction)
    except StoreTrouble:
        raise  # the disk, not the work: the whole group fails
    except Exception as error:
        if len(items) == 1:
            return [error]
        return _one_by_one(items, work, transaction)


def _one_by_one(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    """One of them is at fault: the others do not share its failure."""
    return [outcome for item in items for outcome in _joint([item], work, transaction)]


def _settle(group: _Group, outcomes: list[Any]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if waiting.answer.done():
            continue  # the client left; its write stands all the same
        if isinstance(outcome, Exception):
            waiting.answer.set_exception(outcome)
        else:
            waiting.answer.set_result(outcome)
