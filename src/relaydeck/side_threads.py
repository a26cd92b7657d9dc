"""Threads beside the event loop that do not delay the end of the process.

A call to a server that hangs may never return, and Python waits for the executors of the standard library when the
process ends, however long that takes. These threads are abandoned instead.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")

_PATIENCE_SECONDS = 2.0
_Task = tuple["asyncio.Future[Any]", Callable[[], Any]]


class SideThreads:
    def __init__(self, count: int, name: str, enter: Callable[[], None] = lambda: None) -> None:
        """Each thread calls `enter` first. The first task starts the threads."""
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._lock = threading.Lock()
        self._own = threading.local()  # the task of each thread, as `answer`
        self._threads = [
            threading.Thread(target=self._work, args=(enter,), name=f"{name}-{number}", daemon=True)
            for number in range(count)
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

    def _work(self, enter: Callable[[], None]) -> None:
        enter()
        while (task := self._tasks.get()) is not None:
            self._own.answer, work = task
            if not self._own.answer.done():
                _execute(self._own.answer, work)


def _execute(answer: "asyncio.Future[Any]", work: Callable[[], Any]) -> None:
    result, error = None, None
    try:
        result = work()
    except BaseException as raised:
        error = raised
    with suppress(RuntimeError):  # an abandoned thread outlives its loop
        answer.get_loop().call_soon_threadsafe(_settle, answer, result, error)


def _settle(answer: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
