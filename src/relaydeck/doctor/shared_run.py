"""Long work for several readers at once, with its progress."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

from relaydeck.process.background import SideThreads, note_failure
from relaydeck.store.database import Advance, ShowProgress

T = TypeVar("T")


class Step(NamedTuple):
    """How far the work is. `total` is 0 where it is not known."""

    label: str = ""
    done: int = 0
    total: int = 0


class SharedRun(Generic[T]):
    """Runs the work in a thread, one run at a time: whoever asks during a run gets the result of that run."""

    def __init__(self, work: Callable[[ShowProgress], T], name: str) -> None:
        self.step = Step()
        self._work = work
        self._thread = SideThreads(1, name)
        self._task: asyncio.Task[T] | None = None

    def start(self) -> "asyncio.Task[T]":
        """The task of the run. Callers must shield it: others wait for it, too."""
        if self._task is None or self._task.done():
            self.step = Step()
            self._task = asyncio.create_task(self._thread.run(lambda: self._work(self._show_progress)))
            self._task.add_done_callback(note_failure)
        return self._task

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def result(self) -> T:
        return await asyncio.shield(self.start())

    @contextmanager
    def _show_progress(self, label: str, total: int) -> Iterator[Advance]:
        self.step = Step(label, 0, total)
        yield self._advance

    def _advance(self, steps: int) -> None:
        self.step = self.step._replace(done=min(self.step.done + steps, self.step.total))

    def close(self) -> None:
        """A run that has not ended is abandoned: it only reads."""
        self._thread.end(patience=0)
