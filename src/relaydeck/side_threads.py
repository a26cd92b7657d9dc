"""Threads beside the event loop that can be left behind: a call that waits for a server that hangs has no end.

The executors of the standard library are waited for when the process ends, however long that takes.
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
        """`enter` is called first thing in each thread. They are started by the first task."""
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._threads = [
            threading.Thread(target=self._work, args=(enter,), name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]
        self._started = self._ended = False

    async def run(self, work: Callable[[], Result]) -> Result:
        if self._ended:
            raise RuntimeError("these threads have ended")
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
        """Answer everyone who waits with an error. What has begun may go on; what has not is not done any more."""
        for answer in list(self._waiting):
            if not answer.done():
                answer.set_exception(error)

    def end(self, patience: float = _PATIENCE_SECONDS) -> bool:
        """Let what is under way come to its end; False when that took too long and it was left behind."""
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
            answer, work = task
            if not answer.done():
                _carry_out(answer, work)


def _carry_out(answer: "asyncio.Future[Any]", work: Callable[[], Any]) -> None:
    result, error = None, None
    try:
        result = work()
    except BaseException as raised:
        error = raised
    with suppress(RuntimeError):  # a thread that was left behind outlives its loop
        answer.get_loop().call_soon_threadsafe(_settle, answer, result, error)


def _settle(answer: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
