"""Work that runs beside the requests of a worker: tasks, loops of turns, and threads."""

import asyncio
import queue
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from math import inf
from types import TracebackType
from typing import Any, TypeVar

from relaydeck.log import Log

_PATIENCE_SECONDS = 2.0
_Task = tuple["asyncio.Future[Any]", Callable[[], Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")

_RETRY_SECONDS, _LONGEST_RETRY = 1.0, 10.0


class Backoff:
    """The pauses between attempts that fail: each up to twice as long as the one before, and by chance half of that,
    so that processes which failed together do not try together. After a time without a failure they are short again."""

    def __init__(
        self,
        most: float = _LONGEST_RETRY,
        first: float | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._most, self._first = most, _RETRY_SECONDS if first is None else first
        self._monotonic, self._chance = monotonic, chance
        self._longest, self._calm_from = 0.0, 0.0

    def pause(self) -> float:
        """Seconds, after one more failure."""
        now = self._monotonic()
        self._longest = self._first if now >= self._calm_from else min(self._longest * 2, self._most)
        self._calm_from = now + self._longest + self._most
        return self._longest * (0.5 + 0.5 * self._chance())


class TaskSet:
    """Tasks under way. The set holds a reference to each until it ends, as the event loop itself does not."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def join(self) -> None:
        """Wait until every task has ended, those started meanwhile included."""
        while tasks := tuple(self._tasks):
            await asyncio.gather(*tasks)
            self._tasks.difference_update(tasks)  # where all had ended, `gather` did not wait, and no callback ran yet

    async def cancel(self) -> None:
        """Cancel every task and wait for its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def note_failure(task: "asyncio.Task[Any]") -> None:
    """A callback for a task whose result others take: whoever started it may be gone, and nobody else may be left."""
    if not task.cancelled():
        task.exception()  # marks it as retrieved


async def gather_some(
    most: int, work: Callable[[Item], Coroutine[Any, Any, Result]], items: Sequence[Item]
) -> list[Result]:
    """The results of `work` for each item, with at most so many under way at the same time."""
    if len(items) == 1:  # without a task: every question to a node comes here, twice
        return [await work(items[0])]
    slots = asyncio.Semaphore(most)

    async def run(item: Item) -> Result:
        async with slots:
            return await work(item)

    return list(await asyncio.gather(*map(run, items)))


async def gather_all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all to their end, whatever happens to the others; then raise the first failure."""
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


class TimeLimits:
    """Ends blocks of tasks that are late. One timer serves them all: one for each costs more than most of them do."""

    def __init__(self) -> None:
        self.blocks: set[TimeLimit] = set()  # under way
        self.due = inf  # when the timer is: no later than the first of them

    def watch(self, moment: float) -> None:
        if moment < self.due:
            self.due = moment
            asyncio.get_running_loop().call_at(moment, self._end_late, moment)

    def _end_late(self, due: float) -> None:
        if due != self.due:
            return  # an earlier timer took its place
        now, self.due = asyncio.get_running_loop().time(), inf
        for block in self.blocks:
            block.end_if_late(now)
        self.watch(min((block.moment for block in self.blocks if not block.is_over), default=inf))


class TimeLimit:
    """A block that raises TimeoutError at a moment of the event loop's clock, as that of `asyncio.timeout_at` does.

    It costs a fraction of that.
    """

    __slots__ = ("_cancellations", "_limits", "_task", "is_over", "moment")

    def __init__(self, limits: TimeLimits, moment: float) -> None:
        self._limits, self.moment, self.is_over = limits, moment, False

    def __enter__(self) -> "TimeLimit":
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancellations, limits = task, task.cancelling(), self._limits
        limits.blocks.add(self)
        if self.moment < limits.due:
            limits.watch(self.moment)
        return self

    def move(self, moment: float) -> None:
        """Let the block end at another moment."""
        self.moment = moment
        self._limits.watch(moment)

    def end_if_late(self, now: float) -> None:
        if self.moment <= now and not self.is_over:
            self.is_over = True
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._limits.blocks.discard(self)
        # Somebody else may have cancelled the task, too: then it stays cancelled.
        if self.is_over and self._task.uncancel() <= self._cancellations and kind is asyncio.CancelledError:
            raise TimeoutError from error


class TurnLoop:
    """Repeats a turn of work. A turn returns the seconds until there may be more; waking the loop ends that pause.

    Invariant: a wake-up is never lost. It is cleared before the turn that takes note of its cause, so one that arrives
    during the turn ends the pause after it.
    """

    def __init__(
        self,
        turn: Callable[[], Awaitable[float]],
        reset: Callable[[], None],
        log: Log,
        failure: str,
    ) -> None:
        """`reset` discards what a failed turn may have left half done; `failure` is the message to log."""
        self._turn = turn
        self._reset = reset
        self._log = log
        self._failure = failure
        self._backoff = Backoff()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Must be called in the event loop."""
        self._woken.set()

    async def run(self, pause: Callable[[float], Awaitable[object]]) -> None:
        """Until cancelled."""
        while True:
            self._woken.clear()
            try:
                seconds = await self._turn()
            except Exception as error:
                # No failure may end the loop: a full disk or an unreachable server recovers.
                self._log.event("error", self._failure, problem=f"{type(error).__name__}: {error}")
                self._reset()
                await asyncio.sleep(self._backoff.pause())  # whoever wakes the loop
            else:
                await pause(seconds)

    async def wait(self, seconds: float) -> bool:
        """Return True when woken, False after `seconds`."""
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                return await self._woken.wait()
        except TimeoutError:
            return False


class SideThreads:
    """Threads beside the event loop that do not delay the end of the process.

    A call to a server that hangs may never return, and Python waits for the executors of the standard library when the
    process ends, however long that takes. These threads are abandoned instead.
    """

    def __init__(self, count: int, name: str) -> None:
        """The first task starts the threads."""
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._lock = threading.Lock()
        self._own = threading.local()  # the task of each thread, as `answer`
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(count)
        ]
        self._started = self._ended = False

    async def run(self, work: Callable[[], Result]) -> Result:
        if self._ended:
            raise RuntimeError("the threads have ended")
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)
        self._tasks.put((answer, work))
        return await answer

    def give_up(self, error: Exception) -> None:
        """Fail every task that has not finished. One that is running may continue; one that waits is never run."""
        with self._lock:
            for answer in list(self._waiting):
                if not answer.done():
                    answer.set_exception(error)

    def decide(self) -> bool:
        """In a task: whether `give_up` has not failed it. From then on `give_up` does not fail it any more."""
        answer: asyncio.Future[Any] = self._own.answer
        with self._lock:
            self._waiting.discard(answer)
            return not answer.done()

    def end(self, patience: float = _PATIENCE_SECONDS) -> bool:
        """Wait for running tasks; False when they took too long and were abandoned."""
        self._ended = True
        if not self._started:
            return True
        for _ in self._threads:
            self._tasks.put(None)
        deadline = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._own.answer, work = task
            if not self._own.answer.done():
                answer_with(self._own.answer, work)


def answer_with(answer: "asyncio.Future[Any]", work: Callable[[], Any]) -> None:
    """In a thread: let a future of an event loop have the result of the work, or its failure."""
    result, error = None, None
    try:
        result = work()
    except BaseException as raised:
        error = raised
    with suppress(RuntimeError):  # an abandoned thread outlives its loop
        answer.get_loop().call_soon_threadsafe(_settle, answer, result, error)


def _settle(answer: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if not answer.done():
        answer.set_result(result) if error is None else answer.set_exception(error)
