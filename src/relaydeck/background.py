"""Work that runs beside the requests of a worker: how it is started, repeated and ended."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, Protocol, TypeVar

from relaydeck.log import Log

Item = TypeVar("Item")
Result = TypeVar("Result")

_RETRY_SECONDS = 1.0  # after a turn that failed


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
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def cancel(self) -> None:
        """Cancel every task and wait for its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def gather_some(
    most: int, work: Callable[[Item], Coroutine[Any, Any, Result]], items: Iterable[Item]
) -> list[Result]:
    """The results of `work` for each item, with at most so many under way at the same time."""
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


class BackgroundService(Protocol):
    async def run(self) -> None:
        """Work until cancelled."""

    async def close(self) -> None:
        """Called after `run` was cancelled."""


Service = TypeVar("Service", bound=BackgroundService)


class LateService(Generic[Service]):
    """A service that is loaded and started when there is work for it, so that an idle process never loads its code.

    `load` imports that code and runs in a thread, because the event loop has requests to serve; `build` makes the
    service in the event loop.
    """

    def __init__(self, load: Callable[[], Any], build: Callable[[], Service]) -> None:
        self._load = load
        self._build = build
        self._task: asyncio.Task[None] | None = None
        self.service: Service | None = None  # once it runs

    def start(self) -> None:
        """Does nothing when the service is started already."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await asyncio.to_thread(self._load)
        self.service = self._build()
        await self.service.run()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.service is not None:
            await self.service.close()


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
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Must be called in the event loop."""
        self._woken.set()

    async def run(self, pause: Callable[[float], Awaitable[object]] | None = None) -> None:
        """Until cancelled. `pause` replaces `wait` between turns."""
        pause = pause or self.wait
        while True:
            self._woken.clear()
            await pause(await self._guarded_turn())

    async def _guarded_turn(self) -> float:
        try:
            return await self._turn()
        except Exception as error:
            # No failure may end the loop: a full disk or an unreachable server recovers.
            self._log.event("error", self._failure, problem=f"{type(error).__name__}: {error}")
            self._reset()
            return _RETRY_SECONDS

    async def wait(self, seconds: float) -> bool:
        """Return True when woken, False after `seconds`."""
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                return await self._woken.wait()
        except TimeoutError:
            return False
