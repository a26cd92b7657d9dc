"""Answers that take long to build and never change while a process runs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class BuiltOnce:
    """Built by the first request for it, and kept. Requests that come meanwhile wait for the same.

    A client that hangs up ends its request only, or many in a row would start as many threads. One that failed to be
    built is built again by the next request.
    """

    def __init__(self, build: Callable[[], Coroutine[Any, Any, bytes]]) -> None:
        """`build` leaves long work to a thread: the event loop has other requests to serve."""
        self._build = build
        self._task: asyncio.Task[bytes] | None = None

    async def get(self) -> bytes:
        if self._task is None or _has_failed(self._task):
            self._task = asyncio.create_task(self._build())
        return await asyncio.shield(self._task)


def _has_failed(task: "asyncio.Task[bytes]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
