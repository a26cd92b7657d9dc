"""Live updates: server-sent events with the revision of the database, one for each change.

A page that learns of a newer revision loads itself again in the background. A stream ends after a while and the
browser opens another: so a closed browser, an ended session or a stopping service does not hold one for long.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from relaydeck.errors import TooManyRequests

_POLL_SECONDS = 0.25
_STREAM_SECONDS = 20.0
_RETRY_MILLISECONDS = 500
_RETRY_AFTER_SECONDS = 30


class LiveUpdates:
    """One task looks for changes, however many streams are open, and none while there is no stream.

    The server waits for open responses before it stops the worker, so `is_stopping` ends the streams.
    """

    def __init__(
        self,
        revision: Callable[[], int],
        is_stopping: Callable[[], bool],
        most: int,
        seconds: float = _STREAM_SECONDS,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._revision = revision
        self._is_stopping = is_stopping
        self._most = most
        self._seconds = seconds
        self._poll_seconds = poll_seconds
        self._open = 0
        self._changed = asyncio.Event()
        self._stopping = False
        self._watch: asyncio.Task[None] | None = None

    def open(self) -> AsyncIterator[bytes]:
        """A new stream. Raises TooManyRequests when there are too many."""
        if self._open >= self._most:
            raise TooManyRequests(_RETRY_AFTER_SECONDS)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look_for_changes(self._revision()))
        return self._stream()

    async def _stream(self) -> AsyncIterator[bytes]:
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
