"""Long work on the server as a page follows it: its progress as server-sent events, then its result."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

import msgspec

from relaydeck.console.responses import event_stream
from relaydeck.console.visit import Visit
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.http.pipeline import Reply

T = TypeVar("T")
_EVERY_SECONDS = 0.2


async def answer_with_result(
    visit: Visit, run: SharedRun[T], show: Callable[[T], Reply], is_stopping: Callable[[], bool]
) -> Reply:
    """The page with the result; to a script that follows the work, the progress first."""
    if visit.wants_events:
        return event_stream(follow(run, show, is_stopping))
    return show(await run.result())


async def follow(
    run: SharedRun[T], show: Callable[[T], Reply], is_stopping: Callable[[], bool], every: float = _EVERY_SECONDS
) -> AsyncGenerator[bytes]:
    task = run.start()
    while not (await asyncio.wait({task}, timeout=every))[0]:
        if is_stopping():
            return
        yield _event("step", run.step._asdict())
    if task.cancelled() or task.exception() is not None:
        yield _event("failed", None)  # the page without a script shows why
    else:
        yield _event("result", show(task.result()).body.decode())


def _event(name: str, value: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(value))
