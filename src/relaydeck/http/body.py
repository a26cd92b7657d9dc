"""Reading a request body: bounded in size and time, and so that the client can read a refusal."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from relaydeck.errors import BadRequest, BodyTooLarge

Receive = Callable[[], Awaitable[dict[str, Any]]]

# A client that is still sending does not read. What it sends beyond the limit is thrown away, up to here,
# so that it gets to the refusal; past this its connection is closed on it.
_DISCARDED_AT_MOST = 64 * 1024 * 1024
_DISCARDED_SECONDS = 5.0


class BodyReader:
    def __init__(self, max_bytes: int, seconds: float) -> None:
        self._max_bytes = max_bytes
        self._seconds = seconds

    async def read(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The whole body. Raises BodyTooLarge, BadRequest when it is too slow or breaks off."""
        # The server has refused a length that is no plain number; one given twice is the same twice.
        announced = int(headers.get(b"content-length", b"0").partition(b",")[0])
        if announced > self._max_bytes:
            if b"expect" not in headers:  # else the client waits for our word before it sends
                await discard(receive)
            raise BodyTooLarge(f"the body is larger than {self._max_bytes} bytes")
        # asyncio.timeout does the same at more than twice the cost (5.5 against 2.2 µs), on each request with a body.
        reading, late = asyncio.current_task(), False
        assert reading is not None

        def cut_off() -> None:
            nonlocal late
            late = reading.cancel()

        timer = asyncio.get_running_loop().call_later(self._seconds, cut_off)
        try:
            return await self._read(receive)
        except asyncio.CancelledError:
            if not late:
                raise
            reading.uncancel()
            raise BadRequest("the body did not arrive in time") from None
        finally:
            timer.cancel()

    async def _read(self, receive: Receive) -> bytes:
        message = await receive()
        body = _part(message)
        if not message.get("more_body"):
            self._check(len(body))
            return body
        parts, size = [body], len(body)
        while message.get("more_body"):
            message = await receive()
            parts.append(_part(message))
            size += len(parts[-1])
            if size > self._max_bytes:
                await discard(receive)
                self._check(size)
        return b"".join(parts)

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            raise BodyTooLarge(f"the body is larger than {self._max_bytes} bytes")


def _part(message: dict[str, Any]) -> bytes:
    if message["type"] != "http.request":
        raise BadRequest("the body broke off before its end")
    part: bytes = message.get("body", b"")
    return part


async def discard(receive: Receive) -> None:
    """Throw away what the client is still sending, within bounds."""
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
