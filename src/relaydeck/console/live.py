"""Server-sent events: live updates, and the progress of long work on the server.

A live update has the revision of the latest change of what a page shows: a page that learns of a newer one loads itself
again in the background. A stream ends after a while and the browser opens another: so a closed browser, an
ended session or a stopping service does not hold one for long.

What the monitor and the checks of signers measure is written often. A page that shows it learns of that with each new
stream, and of nothing if nothing was written. What nodes answer is called again with each new stream.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

import msgspec

from relaydeck.console.page_request import PageRequest
from relaydeck.console.rendering import event_stream
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.errors import TooManyRequests
from relaydeck.http.pipeline import Reply
from relaydeck.secret import Secret
from relaydeck.store.database import Row

T = TypeVar("T")

NODES = "nodes"  # what a page shows that is not stored

_POLL_SECONDS = 0.25
_POLLS = 8  # after which a stream that waits looks whether its time is over
_STREAM_SECONDS = 20.0
_RETRY_MILLISECONDS = 500
_RETRY_AFTER_SECONDS = 30
_EVERY_SECONDS = 0.2  # a step of work
_MOST_OF_SESSION = 8  # browsers open six connections to a host


# How far each table has been written that pages show.
_MARKS = {"audit": "max(seq)", "events": "max(seq)"} | dict.fromkeys(
    ("deliveries", "networks", "notifications", "relayers", "removals", "signers", "tokens"), "max(revision)"
)
_MEASURED = ("balances", "runways", "troubles", "signer_checks")  # whose marks are in the row of the clock
_NEWEST = (
    f"SELECT revision, {', '.join(f'(SELECT {mark} FROM {table}) AS {table}' for table, mark in _MARKS.items())},"
    f" {', '.join(f'{table}_written AS {table}' for table in _MEASURED)} FROM clock"
)


def shown_tables(text: str) -> list[str]:
    """Those that a page names, each once: a stream looks at them four times a second, however many a client sends."""
    named = {*text.split(",")}
    return [each for each in (*_MARKS, *_MEASURED, NODES) if each in named]


class LatestChanges:
    """At which revision each table was written last, as far as this worker knows. All streams share one query."""

    def __init__(
        self,
        revision: Callable[[], int],
        read: Callable[..., Awaitable[list[Row]]],
        is_stopping: Callable[[], bool],
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._revision, self._read, self._is_stopping = revision, read, is_stopping
        self._poll_seconds = poll_seconds
        self._polls: asyncio.Task[None] | None = None
        self._seen = -1
        self._marks: dict[str, int] = {}
        self._changed: dict[str, int] = {}
        self._reading = asyncio.Lock()  # an older answer must not replace a newer one

    async def revision(self, tables: Sequence[str]) -> int:
        """Of the latest removal or change of these tables, or a later one. Without a known one: of all of them."""
        if self._revision() != self._seen:
            async with self._reading:
                if (now := self._revision()) != self._seen:  # no other stream has looked meanwhile
                    await self._look(now)
        known = [each for each in tables if each in _MARKS]
        return max(self._changed[each] for each in (["removals", *known] if known else _MARKS))

    async def first(self, tables: Sequence[str]) -> int:
        """As `revision`, also of what is measured; with nodes, the latest of all."""
        latest = await self.revision(tables)
        if NODES in tables:
            return self._seen
        return max([latest, *(self._changed[each] for each in tables if each in _MEASURED)])

    async def wait(self) -> None:
        """Until the database was written since the last look, or for a while. One poll serves all streams."""
        if self._polls is None or self._polls.done():
            self._polls = asyncio.create_task(self._poll(self._seen))
        await asyncio.shield(self._polls)

    async def _poll(self, seen: int) -> None:
        for _ in range(_POLLS):
            if self._revision() != seen or self._is_stopping():
                return
            await asyncio.sleep(self._poll_seconds)

    async def _look(self, now: int) -> None:
        (row,) = await self._read(lambda store: store.database.read(_NEWEST, {}))
        for table in (*_MARKS, *_MEASURED):
            mark = getattr(row, table) or 0
            if table not in self._changed or self._marks[table] != mark:
                self._marks[table] = mark
                self._changed[table] = row.revision if _MARKS.get(table) == "max(seq)" else mark
        self._seen = now


class StreamLimit:
    """Bounds all streams of a worker, live updates and the progress of work, and those of each session among them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[Secret] = Counter()  # by session

    def admit(self, session: Secret, stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """The stream, which counts while it is read. Raises TooManyRequests."""
        if self._is_full(session):
            raise TooManyRequests(_RETRY_AFTER_SECONDS)
        return self._counted(session, stream)

    def _is_full(self, session: Secret) -> bool:
        return self._open[session] >= _MOST_OF_SESSION or self._open.total() >= self._most

    async def _counted(self, session: Secret, stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        async with aclosing(stream):
            if self._is_full(session):  # others that were admitted at the same time began first
                return
            self._open[session] += 1
            try:
                async for part in stream:
                    yield part
            finally:
                self._open[session] -= 1
                self._open += Counter()  # forgets sessions without a stream


async def live_updates(
    revision: Callable[[], Awaitable[int]],
    is_stopping: Callable[[], bool],
    wait: Callable[[], Awaitable[None]],
    first: int = 0,
    seconds: float = _STREAM_SECONDS,
) -> AsyncGenerator[bytes]:
    """The revision at once, or a later one as `first`, and after each change.

    The server waits for open responses before it stops the worker, so `is_stopping` ends the stream.
    """
    loop, sent = asyncio.get_running_loop(), max(first, await revision())
    ends = loop.time() + seconds
    yield _message(sent)
    while loop.time() < ends and not is_stopping():
        if sent < (now := await revision()):
            sent = now
            yield _message(sent)
        else:
            await wait()  # right after the look: nothing is written in between that nobody has looked at


def _message(revision: int) -> bytes:
    return f"retry: {_RETRY_MILLISECONDS}\ndata: {revision}\n\n".encode()


async def answer_with_result(request: PageRequest, run: SharedRun[T], show: Callable[[T], Reply]) -> Reply:
    """The page with the result; to a script that follows the work, the progress first."""
    if request.headers.get(b"accept") == b"text/event-stream":
        return event_stream(follow(run, show, request.services.is_stopping))
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
