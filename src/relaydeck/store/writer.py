"""Group commit: writes that wait at the same time share one transaction and one sync to disk.

    collect            while the group before is synced
      -> write         short writes in the event loop
      -> commit        always in a thread: it waits for the disk
      -> answer

The thread also does whatever may take long: writes that are not known to be short, a group that another process
delays or that contains a faulty write, and everything on PostgreSQL, where each statement is a round trip. Short
writes run in the event loop because each call into SQLite or the operating system releases the interpreter and takes
it again: beside a busy event loop, a thread waits longer for each of these calls than the call takes. In a file, short
and other writes take turns, because one write for the thread would take its whole group there.

Invariants:
- At most one group is in progress (`_in_progress`): it has the database's one connection for writes, in the event
  loop or in the thread, never in both.
- A write is answered after its commit is on disk, and exactly once; a failure of one write fails no other write.
- From the moment a commit is sent, only its result answers the writes of the group, whatever else becomes known of the
  database. A group that was failed before is not committed.
"""

import asyncio
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import msgspec

from relaydeck.errors import OperatorError, ServerFailure, StoreError, StoreTrouble, StoreUnconfirmed
from relaydeck.store.database import Database, Reader, Transaction

Item = TypeVar("Item")
Result = TypeVar("Result")
# Writes many items and returns a result or an exception for each. It may be called again for some of them, in another
# transaction, when the first one failed.
JointWork = Callable[[Transaction, Sequence[Item]], Sequence[Result | Exception]]

# After a group, clients that were just answered get so many turns of the event loop to write again: a large group costs
# little more than a small one. An idle loop takes these turns at once.
_COLLECT_TURNS = 6
MOST_AT_ONCE = 256  # a larger group would block the event loop for too long


class _Waiting(msgspec.Struct, frozen=True):
    work: JointWork[Any, Any]
    item: Any
    answer: "asyncio.Future[Any]"
    short: bool


_Group = list[_Waiting]
_ItemsByWork = Mapping[JointWork[Any, Any], list[Any]]
_Begin = Callable[[], AbstractContextManager[Transaction]]


def _nothing() -> None:
    pass


class _Task(NamedTuple):
    """What remains to be done for a group. Either step may raise: then the whole group fails."""

    group: _Group
    finish: Callable[[], list[Any]]  # in the thread; returns the outcome of each write
    confirm: Callable[[], None] = _nothing  # in the event loop, before the group is answered


class Failure(NamedTuple):
    """Why the database did not accept a write. Not the exception, which holds the frames of requests."""

    cause: str  # one of WRITE_CAUSES
    problem: str

    def explained(self, database: Reader) -> "Failure":
        """With the session that holds the lock, or with what is wrong with the whole database."""
        holder = database.write_lock_holder() if self.cause in {"lock_held", "standby_away", "timeout"} else None
        if holder and (holder.since is None or time.time() - holder.since > 1):  # the others soon end by themselves
            cause = "standby_away" if holder.awaits_standby else self.cause if holder.is_own else "lock_held"
            return Failure(cause, "; ".join(filter(None, (self.problem, f"the lock is held by {holder}"))))
        if self.cause in {"read_only", "other"} and (problem := database.write_problem()):
            return Failure("read_only", problem)
        return self


Report = Callable[[Failure | None], None]


class Writer:
    def __init__(
        self, database: Database, problem: Callable[[], str] = str, report: Report = lambda failure: None
    ) -> None:
        """`problem` returns why the database is unavailable, to refuse writes at once; empty when it is available.

        `report` is called after each commit, and with each failure of the database.
        """
        self._database = database
        self._problem = problem
        self._report = report
        self._started_at = 0.0
        self._may_hang = database.remote  # `fail_pending` then answers the writes that wait for it
        self._collected: _Group = []
        self._short_next = True  # when short writes and others wait
        self._try_next = False  # before the next group, unless the present one shows whether writes work
        self._in_progress = False  # a group is being written, committed or answered, or has just been answered
        self._commit_lock = threading.Lock()
        self._committing: _Group = []  # the group whose commit is sent
        self._generation = 0  # how often pending writes were failed
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._unanswered: set[asyncio.Future[Any]] = set()
        self._stopped = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(target=self._run, name="writer", daemon=True).start()

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` in a transaction. Returns when its effect is on disk, or raises what `work` raised."""

        def alone(transaction: Transaction, _items: Sequence[None]) -> list[Result]:
            return [work(transaction)]

        return await self._add(alone, None, short=False)

    def write_jointly(self, work: JointWork[Item, Result], item: Item) -> "asyncio.Future[Result]":
        """Like `write`, for an item that the same short work may write together with other waiting items."""
        return self._add(work, item, short=True)

    def _add(self, work: JointWork[Item, Result], item: Item, *, short: bool) -> "asyncio.Future[Result]":
        answer: asyncio.Future[Result] = self._loop.create_future()
        if problem := "the service is stopping" if self._stopped else self._problem():
            answer.set_exception(ServerFailure(f"writes are not possible now: {problem}"))
            return answer
        if self._may_hang:
            self._unanswered.add(answer)
            answer.add_done_callback(self._unanswered.discard)
        if not self._collected and not self._in_progress:
            self._loop.call_soon(self._start_group)  # with all writes of this iteration of the loop
        self._collected.append(_Waiting(work, item, answer, short))
        return answer

    def try_write(self) -> None:
        """Let `report` know soon whether writes work. While others are in progress, they may show it."""
        if self._stopped or self._in_progress or self._collected:
            self._try_next = not self._stopped
        elif problem := self._problem():
            self._report(Failure("unreachable", problem))
        else:
            self._start(_Task([], self._try_write))

    def _try_write(self) -> list[Any]:
        self._database.try_write()
        return []

    @property
    def busy_seconds(self) -> float:
        """For how long the writes in progress have not been answered."""
        return time.monotonic() - self._started_at if self._in_progress else 0.0

    def fail_pending(self, problem: str) -> None:
        """Fail every pending write, because the database became unavailable. It is not made.

        A write whose commit is sent may be stored already: its commit answers it, in a bounded time.
        """
        with self._commit_lock:
            self._generation += 1
            failed = self._unanswered.difference(each.answer for each in self._committing)
        self._collected.clear()
        for answer in failed:
            if not answer.done():
                answer.set_exception(ServerFailure(f"the database became unavailable: {problem}"))
        if self._stopped and not self._committing:
            self._set_ended()  # without waiting for the thread, which may hang

    async def stop(self) -> None:
        """Finish the pending writes, then end. While the database is unavailable, finish only a commit."""
        self._stopped = True
        self._start_group()
        if not self._problem() or self._committing:
            await self._ended

    def _set_ended(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    # -- in the event loop ------------------------------------------------------------------------

    def _start_group(self) -> None:
        """Start the group that was collected, unless another one is in progress."""
        if self._in_progress:
            return
        if self._try_next and not self._problem():
            self._start(_Task([], self._try_write))
        elif self._collected:
            self._start(self._begin(self._take_group()))
        elif self._stopped:
            self._tasks.put(None)

    def _take_group(self) -> _Group:
        taken, self._collected = self._collected, []
        if not self._database.remote and len({each.short for each in taken}) == 2:
            self._collected = [each for each in taken if each.short is not self._short_next]
            taken = [each for each in taken if each.short is self._short_next]
            self._short_next = not self._short_next
        return taken

    def _start(self, task: _Task) -> None:
        self._in_progress, self._started_at = True, time.monotonic()
        self._tasks.put(task)

    def _begin(self, collected: _Group) -> _Task:
        by_work: dict[JointWork[Any, Any], _Group] = defaultdict(list)
        for each in collected:
            by_work[each.work].append(each)
        group = list(chain.from_iterable(by_work.values()))
        items = {work: [each.item for each in its_group] for work, its_group in by_work.items()}
        at_once = len(group) <= MOST_AT_ONCE and all(each.short for each in group)
        written = self._write_at_once(group, items) if at_once else None
        return written or _Task(group, partial(self._commit, items, group, self._generation))

    def _write_at_once(self, group: _Group, items: _ItemsByWork) -> _Task | None:
        """Write a group except for its commit. None: the thread has to write it."""
        if (at_once := self._database.transaction_at_once()) is None:
            return None
        try:
            with at_once as transaction:
                outcomes = [outcome for work in items for outcome in outcomes_of(items[work], work, transaction)]
        except BaseException:  # a panic in a native library is not an Exception
            return None  # rolled back; the thread can wait, or find out which write is faulty

        def commit() -> list[Any]:
            transaction.commit()
            return outcomes

        return _Task(group, commit, transaction.confirm)

    def _answer(self, group: _Group, outcomes: list[Any], confirm: Callable[[], None], failure: Failure | None) -> None:
        try:
            confirm()
        except BaseException as error:
            outcomes, failure = _all_failed(error, len(group)), failure_of(error)
        try:
            _settle(group, outcomes)
            if failure or not group or not all(isinstance(each, Exception) for each in outcomes):
                self._try_next = False
                self._report(failure)  # not if every write was at fault: nothing was committed then
        finally:
            self._collect(_COLLECT_TURNS)

    def _collect(self, turns: int) -> None:
        if turns:
            self._loop.call_soon(self._collect, turns - 1)
            return
        self._in_progress = False
        self._committing = []
        self._start_group()

    # -- in the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._finish(*task)
            del task  # while this thread waits, it must not keep the requests of the last group
        self._call_in_loop(self._set_ended)

    def _finish(self, group: _Group, finish: Callable[[], list[Any]], confirm: Callable[[], None]) -> None:
        failure = None
        try:
            outcomes = finish()
        except BaseException as error:
            outcomes, confirm, failure = _all_failed(error, len(group)), _nothing, failure_of(error)
        self._call_in_loop(self._answer, group, outcomes, confirm, failure)

    def _call_in_loop(self, function: Callable[..., None], *values: Any) -> None:
        with suppress(RuntimeError):  # the loop may have ended while this thread hung
            self._loop.call_soon_threadsafe(function, *values)

    def _commit(self, items: _ItemsByWork, group: _Group, generation: int) -> list[Any]:
        begin = partial(self._transaction, group, generation)
        if len(items) == 1:
            return self._commit_one_work(*next(iter(items.items())), begin)
        with begin() as transaction:
            return [outcome for work in items for outcome in _joint(items[work], work, transaction)]

    def _commit_one_work(self, work: JointWork[Any, Any], items: list[Any], begin: _Begin) -> list[Any]:
        """Items of one work need no savepoint each, as long as none of them is faulty."""
        try:
            with begin() as transaction:
                return _all_or_fault(items, work, transaction)
        except _Fault as fault:
            if len(items) == 1:
                return [fault.error]
        with begin() as transaction:
            return _one_by_one(items, work, transaction)

    @contextmanager
    def _transaction(self, group: _Group, generation: int) -> Iterator[Transaction]:
        """A transaction for a group that started in `generation`.

        It may take long. If the writes of the group were failed meanwhile, they must not be made any more.
        """
        with self._database.transaction() as transaction:
            self._check(generation)
            yield transaction
            with self._commit_lock:
                self._check(generation)
                self._committing = group

    def _check(self, generation: int) -> None:
        if generation != self._generation:
            raise StoreTrouble("the write was failed while it waited for the database")


def failure_of(error: BaseException) -> Failure:
    if isinstance(error, StoreError):
        return Failure(error.cause, str(error))
    return Failure("other", error.problem if isinstance(error, OperatorError) else type(error).__name__)


def _all_failed(error: BaseException, count: int) -> list[Any]:
    """No write of the group is acknowledged. The next group is attempted again."""
    if isinstance(error, StoreUnconfirmed):
        return [ServerFailure(str(error))] * count
    return [ServerFailure(f"the database did not accept the write: {type(error).__name__}: {error}")] * count


def outcomes_of(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    outcomes = list(work(transaction, items))
    if len(outcomes) != len(items):
        # Each write must get its own answer.
        raise ServerFailure("the work returned another number of results than it got items")
    return outcomes


class _Fault(Exception):
    """Carries what a work raised out of a transaction, which rolls it back."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _all_or_fault(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    try:
        return outcomes_of(items, work, transaction)
    except StoreTrouble:
        raise  # the database failed, not the work: the whole group fails
    except Exception as error:
        raise _Fault(error) from None


def _joint(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    try:
        with transaction.step():
            return outcomes_of(items, work, transaction)
    except StoreTrouble:
        raise  # the database failed, not the work: the whole group fails
    except Exception as error:
        if len(items) == 1:
            return [error]
        return _one_by_one(items, work, transaction)


def _one_by_one(items: list[Any], work: JointWork[Any, Any], transaction: Transaction) -> list[Any]:
    """Write each item in a savepoint of its own, because one of them is faulty."""
    return [outcome for item in items for outcome in _joint([item], work, transaction)]


def _settle(group: _Group, outcomes: list[Any]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if waiting.answer.done():
            continue  # the client disconnected; its write stays
        if not isinstance(outcome, Exception):
            waiting.answer.set_result(outcome)
        elif isinstance(outcome, StopIteration):  # a future does not accept it
            waiting.answer.set_exception(ServerFailure("the work ended with StopIteration"))
        else:
            waiting.answer.set_exception(outcome)
