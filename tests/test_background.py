"""Work beside the requests: sets of tasks, loops of turns, and services that are loaded late."""

import asyncio

import pytest

from relaydeck.background import LateService, TaskSet, TurnLoop
from relaydeck.log import Log

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


async def turns_of(loop: TurnLoop, enough: asyncio.Event) -> None:
    running = asyncio.create_task(loop.run())
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
    monkeypatch.setattr("relaydeck.background._RETRY_SECONDS", 0)
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


class Service:
    def __init__(self, calls: list[str]) -> None:
        self._calls = calls
        self.running = asyncio.Event()

    async def run(self) -> None:
        self._calls.append("run")
        self.running.set()
        await asyncio.Event().wait()

    async def close(self) -> None:
        self._calls.append("close")


async def test_a_late_service_is_loaded_built_run_and_closed_once() -> None:
    calls: list[str] = []
    service = Service(calls)

    def build() -> Service:
        calls.append("build")
        return service

    late = LateService(lambda: calls.append("load"), build)
    assert late.service is None
    late.start()
    late.start()
    await service.running.wait()
    await late.close()
    assert calls == ["load", "build", "run", "close"]


async def test_a_late_service_that_never_started_has_nothing_to_close() -> None:
    calls: list[str] = []
    await LateService(lambda: calls.append("load"), lambda: Service(calls)).close()
    assert calls == []
