"""Long work that several readers share."""

import asyncio
import threading

import pytest

from relaydeck.doctor.shared_run import SharedRun, Step
from relaydeck.store.database import ShowProgress


class Work:
    """Runs until it is released, and counts its runs."""

    def __init__(self) -> None:
        self.runs = 0
        self.released = threading.Event()
        self.entered = threading.Event()

    def __call__(self, progress: ShowProgress) -> int:
        self.runs += 1
        with progress("counting", 10) as advance:
            advance(4)
            self.entered.set()
            assert self.released.wait(60)
        return self.runs


async def test_readers_at_the_same_time_share_a_run_and_the_next_one_starts_another() -> None:
    work = Work()
    shared = SharedRun(work, "work")
    readers = [asyncio.ensure_future(shared.result()) for _ in range(3)]
    await asyncio.to_thread(work.entered.wait, 20)
    work.released.set()
    assert await asyncio.gather(*readers) == [1, 1, 1]
    assert await shared.result() == 2
    shared.close()


async def test_the_step_shows_how_far_it_is() -> None:
    work = Work()
    shared = SharedRun(work, "work")
    assert shared.step == Step()
    task = shared.start()
    await asyncio.to_thread(work.entered.wait, 20)
    assert shared.step == Step("counting", 4, 10)
    work.released.set()
    await task
    shared.close()


async def test_a_reader_that_leaves_does_not_end_the_run() -> None:
    work = Work()
    shared = SharedRun(work, "work")
    leaver, stayer = (asyncio.ensure_future(shared.result()) for _ in range(2))
    await asyncio.to_thread(work.entered.wait, 20)
    leaver.cancel()
    work.released.set()
    assert await stayer == 1
    shared.close()


async def test_a_failure_reaches_every_reader() -> None:
    def fail(_progress: ShowProgress) -> None:
        raise OSError("no disk")

    shared = SharedRun(fail, "work")
    for _ in range(2):
        with pytest.raises(OSError, match="no disk"):
            await shared.result()
    shared.close()
