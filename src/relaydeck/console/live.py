"""Live updates: server-sent events with the revision of the database, one for each change.

A page that learns of a newer revision loads itself again in the background. A stream ends after a while and the
browser opens another: so a closed browser, an ended session or a stopping service does not hold one for long.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from relaydeck.errors import TooManyRequests
from relaydeck.secret import Secret

_POLL_SECONDS = 0.25
_STREAM_SECONDS = 20.0
_RETRY_MILLISECONDS = 500
_RETRY_AFTER_SECONDS = 30
_MOST_OF_SESSION = 8  # browsers open six connections to a host


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


class LiveUpdates:
    """One task looks for changes, however many streams are open, and none while there is no stream.

    The server waits for open responses before it stops the worker, so `is_stopping` ends the streams.
    """

    def __init__(
        self,
        revision: Callable[[], int],
        is_stopping: Callable[[], bool],
        seconds: float = _STREAM_SECONDS,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._revision = revision
        self._is_stopping = is_stopping
        self._seconds = seconds
        self._poll_seconds = poll_seconds
        self._open = 0
        self._changed = asyncio.Event()
        self._stopping = False
        self._watch: asyncio.Task[None] | None = None

    def open(self) -> AsyncGenerator[bytes]:
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look_for_changes(self._revision()))
        return self._stream()

    async def _stream(self) -> AsyncGenerator[bytes]:
        self._open += 1
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._seconds
        try:
            yield _message(self._revision())
            while not self._stopping and await self._change_before(ends - loop.time()):
                yield _message(self._revision())
        finally:
            self._open -= 1

    async def _change_before(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        return not self._stopping

    async def _look_for_changes(self, seen: int) -> None:
        while not self._stopping:
            await asyncio.sleep(self._poll_seconds)
            if not self._open:
                return
            self._stopping = self._is_stopping()
            if (now := self._revision()) != seen or self._stopping:
                seen = now
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()


def _message(revision: int) -> bytes:
    return f"retry: {_RETRY_MILLISECONDS}\ndata: {revision}\n\n".encode()
