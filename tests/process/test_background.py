"""Work beside the requests: sets of tasks, and loops of turns."""

import asyncio

import pytest

from relaydeck.log import Log
from relaydeck.process.background import Backoff, TaskSet, TimeLimit, TimeLimits, TurnLoop

LOG = Log(as_json=True, level="error")


async def test_joining_waits_for_tasks_that_a_task_starts() -> None:
    tasks, done = TaskSet(), []

    async def work(number: int) -> None:
        if number:
            tasks.start(work(number - 1))
        await asyncio.sleep(0)
        done.append(number)

    tasks.start(work(2))
    await tasks.join()
    assert (sorted(done), len(tasks)) == ([0, 1, 2], 0)


async def test_cancelling_ends_every_task() -> None:
    tasks = TaskSet()
    started = [tasks.start(asyncio.Event().wait()) for _ in range(3)]
    await tasks.cancel()
    assert ([task.cancelled() for task in started], len(tasks)) == ([True] * 3, 0)


def in_seconds(limits: TimeLimits, seconds: float) -> TimeLimit:
    return TimeLimit(limits, asyncio.get_running_loop().time() + seconds)


async def never() -> None:
    await asyncio.Event().wait()


async def test_a_block_ends_when_it_is_late_and_its_task_goes_on() -> None:
    limits = TimeLimits()
    for _ in range(2):
        with pytest.raises(TimeoutError), in_seconds(limits, 0.01):
            await never()
    task = asyncio.current_task()
    assert task is not None
    assert (task.cancelling(), limits.blocks) == (0, set())


async def test_the_first_of_many_blocks_is_the_first_to_end() -> None:
    limits, ended = TimeLimits(), []

    async def work(seconds: float) -> None:
        with pytest.raises(TimeoutError), in_seconds(limits, seconds):
            await never()
        ended.append(seconds)

    await asyncio.gather(*map(work, [0.06, 0.02, 0.04]))
    assert ended == [0.02, 0.04, 0.06]


async def test_a_block_that_is_moved_ends_at_the_new_moment() -> None:
    limits, loop = TimeLimits(), asyncio.get_running_loop()
    with pytest.raises(TimeoutError), in_seconds(limits, 600) as limit:
        limit.move(loop.time())
        await never()


async def test_what_is_done_in_time_is_not_ended_later() -> None:
    limits = TimeLimits()
    with in_seconds(limits, 0.01):
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError), in_seconds(limits, 0.03):  # the timer of the first block has fired by then
        await never()


async def test_a_task_that_somebody_cancels_stays_cancelled_even_if_it_is_late() -> None:
    limits = TimeLimits()

    async def work() -> None:
        with in_seconds(limits, 0.0):
            await never()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    (limit,) = limits.blocks
    limit.end_if_late(asyncio.get_running_loop().time() + 1)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), limits.blocks) == (True, set())


async def test_another_error_of_a_late_block_is_raised_as_it_is() -> None:
    limits = TimeLimits()
    with pytest.raises(ZeroDivisionError), in_seconds(limits, 0.01):
        try:
            await never()
        except asyncio.CancelledError:
            raise ZeroDivisionError from None


async def turns_of(loop: TurnLoop, enough: asyncio.Event) -> None:
    running = asyncio.create_task(loop.run(loop.wait))
    async with asyncio.timeout(60):
        await enough.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_waking_during_a_turn_ends_the_pause_after_it() -> None:
    turns, enough = 0, asyncio.Event()

    async def turn() -> float:
        nonlocal turns
        turns += 1
        loop.wake() if turns == 1 else enough.set()
        return 3600

    loop = TurnLoop(turn, lambda: None, LOG, "turns fail")
    await turns_of(loop, enough)
    assert turns == 2


async def test_a_turn_that_fails_is_logged_reset_and_repeated(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaydeck.process.background._RETRY_SECONDS", 0)
    resets, turns, enough = [], 0, asyncio.Event()

    async def turn() -> float:
        nonlocal turns
        turns += 1
        if turns == 1:
            raise OSError("disk full")
        enough.set()
        return 3600

    await turns_of(TurnLoop(turn, lambda: resets.append(turns), LOG, "turns fail"), enough)
    assert (turns, resets) == (2, [1])
    assert '"event": "turns fail", "problem": "OSError: disk full"' in capfd.readouterr().err


@pytest.mark.parametrize(("chance", "share"), [(0.0, 0.5), (1.0, 1.0)])
def test_pauses_between_failures_grow_to_a_bound_and_are_short_again_after_a_calm_time(
    chance: float, share: float
) -> None:
    now = 0.0
    backoff = Backoff(10, 1, monotonic=lambda: now, chance=lambda: chance)
    pauses = []
    for _ in range(6):
        pauses.append(backoff.pause())
        now += pauses[-1]
    assert pauses == [each * share for each in (1, 2, 4, 8, 10, 10)]
    now += 21
    assert backoff.pause() == share
