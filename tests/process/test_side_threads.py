"""Work beside the event loop, and what becomes of it at the end."""

import asyncio
import subprocess
import sys
import threading

import pytest

from relaydeck.process.background import SideThreads

LEFT_BEHIND = """
import asyncio, threading
from relaydeck.process.background import SideThreads

entered, never = threading.Event(), threading.Event()

def hang():
    entered.set()
    never.wait()

async def main():
    threads = SideThreads(1, "stuck")
    stuck = asyncio.create_task(threads.run(hang))
    await asyncio.sleep(0)
    entered.wait()
    stuck.cancel()
    assert not threads.end(patience=0.01)

asyncio.run(main())
"""


async def test_its_result_comes_back() -> None:
    threads = SideThreads(2, "side")
    names = await asyncio.gather(*(threads.run(lambda: threading.current_thread().name) for _ in range(20)))
    assert set(names) <= {"side-0", "side-1"}
    assert threads.end()


async def test_what_it_raises_comes_back() -> None:
    threads = SideThreads(1, "side")
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(lambda: "and the thread goes on") == "and the thread goes on"
    assert threads.end()


async def test_what_was_cancelled_before_its_turn_is_not_done() -> None:
    threads, first, done = SideThreads(1, "side"), threading.Event(), list[str]()
    under_way = asyncio.create_task(threads.run(first.wait))
    waiting = asyncio.create_task(threads.run(lambda: done.append("waiting")))
    await asyncio.sleep(0)
    waiting.cancel()
    first.set()
    await under_way
    assert threads.end()
    assert done == []


async def test_who_is_given_up_is_answered_and_what_had_not_begun_is_not_done() -> None:
    threads, entered, go_on, done = SideThreads(1, "side"), threading.Event(), threading.Event(), list[str]()

    def hang() -> None:
        entered.set()
        go_on.wait()

    waiting = [asyncio.create_task(threads.run(work)) for work in (hang, lambda: done.append("begun"))]
    await asyncio.sleep(0)
    entered.wait()
    threads.give_up(TimeoutError("given up"))
    assert [str(each) for each in await asyncio.gather(*waiting, return_exceptions=True)] == ["given up"] * 2
    go_on.set()
    assert await threads.run(lambda: "and the thread goes on") == "and the thread goes on"
    assert (threads.end(), done) == (True, [])


async def test_who_has_decided_is_answered_by_the_work() -> None:
    threads, decided, go_on = SideThreads(1, "side"), threading.Event(), threading.Event()

    def work() -> bool:
        may_finish = threads.decide()
        decided.set()
        go_on.wait()
        return may_finish

    waiting = asyncio.create_task(threads.run(work))
    await asyncio.sleep(0)
    decided.wait()
    threads.give_up(TimeoutError("given up"))
    go_on.set()
    assert (await waiting, threads.end()) == (True, True)


async def test_who_was_given_up_before_learns_it_when_it_decides() -> None:
    threads, entered, go_on, decisions = SideThreads(1, "side"), threading.Event(), threading.Event(), list[bool]()

    def work() -> None:
        entered.set()
        go_on.wait()
        decisions.append(threads.decide())

    waiting = asyncio.create_task(threads.run(work))
    await asyncio.sleep(0)
    entered.wait()
    threads.give_up(TimeoutError("given up"))
    with pytest.raises(TimeoutError):
        await waiting
    go_on.set()
    assert (threads.end(), decisions) == (True, [False])


async def test_ended_threads_take_no_work() -> None:
    threads = SideThreads(1, "side")
    threads.end()
    with pytest.raises(RuntimeError):
        await threads.run(int)


def test_threads_that_never_ran_end_at_once() -> None:
    assert SideThreads(2, "side").end(patience=0)


def test_a_thread_that_hangs_does_not_keep_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_BEHIND], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
