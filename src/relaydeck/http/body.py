"""Read the body of a request, bounded in size and time, so that the client can still read a refusal."""

import asyncio
from collections.abc import Mapping
from typing import Any

from relaydeck.errors import BadRequest, BodyTooLarge
from relaydeck.http.asgi import Receive

# A client that is still sending does not read the response. The service discards what the client sends beyond the
# limit, up to this bound, so that the client reaches the refusal; beyond it the service closes the connection.
_DISCARDED_AT_MOST = 64 * 1024 * 1024
_DISCARDED_SECONDS = 5.0


class BodyReader:
    """Reads many bodies at once. One timer serves them all: one for each would cost more than the reading."""

    def __init__(self, max_bytes: int, seconds: float) -> None:
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._reading: dict[asyncio.Task[Any], float] = {}  # when each began, oldest first
        self._late: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()
        self._timer_is_set = False

    async def read(self, headers: Mapping[bytes, bytes], receive: Receive, most: int = 0) -> bytes:
        """The whole body, of at most so many bytes (0: the usual number).

        Raises BodyTooLarge, or BadRequest when the body is late or incomplete.
        """
        announced, most = _announced_length(headers), most or self._max_bytes
        if announced > most:
            if b"expect" not in headers:  # such a client waits for a response before it sends
                await discard(receive)
            raise BodyTooLarge(f"the body is larger than {most} bytes")
        reading = asyncio.current_task(self._loop)
        assert reading is not None
        self._reading[reading] = self._loop.time()
        if not self._timer_is_set:
            self._set_timer(self._seconds)
        try:
            message = await receive()
            body = _part(message)
            # Asking the server for an end that is already known costs as much as asking for the body.
            if message.get("more_body") and len(body) != announced:
                return await self._read_on(body, receive, reading, most)
        except asyncio.CancelledError:
            if reading not in self._late:
                raise
            reading.uncancel()
            raise BadRequest("the body did not arrive in time") from None
        finally:
            self._reading.pop(reading, None)
            self._late.discard(reading)
        _check(len(body), most)
        return body

    def _set_timer(self, seconds: float) -> None:
        self._timer_is_set = True
        self._loop.call_later(seconds, self._cancel_late)

    def _cancel_late(self) -> None:
        """Cancel the readings that are late, and set the timer for the next one."""
        self._timer_is_set = False
        now = self._loop.time()
        for reading, since in self._reading.items():
            if (left := since + self._seconds - now) > 0:
                self._set_timer(left)
                return
            if reading not in self._late:
                self._late.add(reading)
                reading.cancel()

    async def _read_on(self, body: bytes, receive: Receive, reading: asyncio.Task[Any], most: int) -> bytes:
        parts, size, more = [body], len(body), True
        while more:
            message = await receive()
            parts.append(_part(message))
            size += len(parts[-1])
            if size > most:
                del self._reading[reading]  # the refusal is certain: being slow does not change it
                await discard(receive)
                _check(size, most)
            more = message.get("more_body", False)
        return b"".join(parts)


def _check(size: int, most: int) -> None:
    if size > most:
        raise BodyTooLarge(f"the body is larger than {most} bytes")


def _announced_length(headers: Mapping[bytes, bytes]) -> int:
    """The length of the body; -1 when it arrives in chunks or there is none."""
    length = headers.get(b"content-length", b"-1")
    # The server refuses a length that is not a plain number, and two that differ.
    return int(length if b"," not in length else length.partition(b",")[0])


def _part(message: dict[str, Any]) -> bytes:
    if message["type"] != "http.request":
        raise BadRequest("the body is incomplete")
    part: bytes = message.get("body", b"")
    return part


async def discard(receive: Receive) -> None:
    """Read and drop what the client is still sending, within bounds."""
    size = 0
    try:
        async with asyncio.timeout(_DISCARDED_SECONDS):
            while size < _DISCARDED_AT_MOST:
                message = await receive()
                size += len(_part(message))
                if not message.get("more_body"):
                    return
    except (TimeoutError, BadRequest):
        return
