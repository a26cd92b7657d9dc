"""A fact shared by all who need it: asked for once at a time, kept for a moment."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class CachedValue(Generic[T]):
    """Fresh for `age` seconds after it arrived, or until `head` (the newest block seen) has grown since.

    A failed fetch is not kept, but those who waited for it share the failure.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[T]],
        age: float,
        head: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._fetch = fetch
        self._age = age
        self._head = head
        self._monotonic = monotonic
        self._task: asyncio.Task[T] | None = None
        self._arrived = 0.0
        self._head_then = 0

    def take(self) -> "asyncio.Task[T]":
        """The fact, or its fetch under way, which this starts when needed. Shield it when awaiting."""
        if self._task is None or (self._task.done() and not self._fresh(self._task)):
            self._task = asyncio.ensure_future(self._fetched())
            self._task.add_done_callback(_seen_write)
        return self._task

    @property
    def seconds_old(self) -> float:
        return self._monotonic() - self._arrived

    def _fresh(self, task: "asyncio.Task[T]") -> bool:
        if task.cancelled() or task.exception() is not None:
            return False
        return self.seconds_old < self._age and self._head() <= self._head_then

    async def _fetched(self) -> T:
        fact = await self._fetch()
        self._arrived = self._monotonic()
        self._head_then = self._head()
        return fact

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _seen_write(task: "asyncio.Task[T]") -> None:
    """Whoever started it may be gone: a failure nobody waits for is no news."""
    if not task.cancelled():
        task.exception()
