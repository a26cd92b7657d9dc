"""Threads beside the event loop that can be left behind: a call that waits for a server that hangs has no end.

The executors of the standard library are waited for when the process ends, however long that takes.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")

_PATIENCE_SECONDS = 2.0
_Task = tuple["Future[Any]", Callable[[], Any]]


class SideThreads:
    def __init__(self, count: int, name: str, enter: Callable[[], None] = lambda: None) -> None:
        """`enter` is called first thing in each thread. They are started by the first task."""
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, args=(enter,), name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]
        self._started = False

    async def run(self, work: Callable[[], Result]) -> Result:
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        future: Future[Result] = Future()
        self._tasks.put((future, work))
        return await asyncio.wrap_future(future)

    def end(self, patience: float = _PATIENCE_SECONDS) -> bool:
        """Let what is under way come to its end; False when that took too long and it was left behind."""
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
            _carry_out(*task)


def _carry_out(future: "Future[Any]", work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
