"""Read the body of a request, bounded in size and time, and all bodies of a worker together in memory.

The HTTP server reads a body only while somebody asks for the next part, and at most one part ahead. So a body that
nobody reads stays with its client, and what a worker holds is what this module has asked for:

- a body that announces at most 16 KiB is read at once;
- any other first waits for room. It keeps its room until the operation has answered;
- what no operation reads is dropped part by part after the response, for a bounded number of clients at a time.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from relaydeck.errors import BadRequest, BodyTooLarge, NoRoom
from relaydeck.http.asgi import Receive

_SMALL_BYTES = 16 * 1024
_ROOM_BYTES = 16 * 1024 * 1024
# A client that is still sending does not read the response. The service discards what it sends, within these bounds,
# so that the client reaches the response; beyond them the service closes the connection.
_DISCARDED_BYTES = 64 * 1024 * 1024
_DISCARDED_SECONDS = 5.0
_DISCARDED_AT_ONCE = 32  # bodies that are not small


class Room:
    """Bytes that large bodies may take together. Whoever finds too few waits; the first to come is the first served."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, share: int) -> None:
        if not self._waiting and share <= self._free:
            self._free -= share
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((share, turn))
        try:
            await turn
        except asyncio.CancelledError:
            self.leave(0 if turn.cancelled() else share)
            raise

    def leave(self, share: int) -> None:
        self._free += share
        while self._waiting:
            wanted, turn = self._waiting[0]
            if not turn.done():
                if wanted > self._free:
                    return
                self._free -= wanted
                turn.set_result(None)
            self._waiting.popleft()


class IncomingBody:
    """The body of one request. It is unread until a reader has begun, and again when it turns out to be too large."""

    is_unread = True
    room: Room | None = None
    share = 0

    def __init__(self, headers: Mapping[bytes, bytes], receive: Receive) -> None:
        length = headers.get(b"content-length", b"-1")  # -1: it arrives in chunks
        # The server refuses a length that is not a plain number, and two that differ.
        self.announced = int(length if b"," not in length else length.partition(b",")[0])
        self.headers, self.receive = headers, receive

    @property
    def is_small(self) -> bool:
        return 0 <= self.announced <= _SMALL_BYTES

    async def enter(self, room: Room, share: int) -> None:
        await room.enter(share)
        self.room, self.share = room, share


class BodyReader:
    """Reads many bodies at once. One timer serves them all: one for each would cost more than the reading."""

    def __init__(self, max_bytes: int, seconds: float) -> None:
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._room = Room(max(max_bytes, _ROOM_BYTES))
        self._larger_rooms: dict[int, Room] = {}  # by the largest body of a route, where that is not the usual one
        self._discarded = 0
        self._reading: dict[asyncio.Task[Any], float] = {}  # when each began, oldest first
        self._late: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()
        self._timer_is_set = False

    async def read(self, incoming: IncomingBody, most: int = 0) -> bytes:
        """The whole body, of at most so many bytes (0: the usual number).

        Raises BodyTooLarge, BadRequest when the body is late or incomplete, or NoRoom when there is no room.
        """
        announced, most = incoming.announced, most or self._max_bytes
        if announced > most:
            raise _too_large(most)
        incoming.is_unread = False
        reading = asyncio.current_task(self._loop)
        assert reading is not None
        self._reading[reading] = self._loop.time()
        if not self._timer_is_set:
            self._set_timer(self._seconds)
        try:
            if not 0 <= announced <= _SMALL_BYTES:
                await self._wait_for_room(incoming, reading, most)
            message = await incoming.receive()
            body = _part(message)
            # Asking the server for an end that is already known costs as much as asking for the body.
            if message.get("more_body") and len(body) != announced:
                return await _read_on(body, incoming, most)
        except asyncio.CancelledError:
            if reading not in self._late:
                raise
            reading.uncancel()
            raise BadRequest("the body did not arrive in time") from None
        finally:
            self._reading.pop(reading, None)
            self._late.discard(reading)
        if len(body) > most:
            raise _too_large(most)
        return body

    async def discard(self, incoming: IncomingBody) -> None:
        """Drop what the client is still sending, unless too many others do so: then the server ends the connection."""
        if b"expect" in incoming.headers:  # such a client does not send before it is told to
            return
        counted = not incoming.is_small
        if counted and self._discarded >= _DISCARDED_AT_ONCE:
            return
        self._discarded += counted
        try:
            async with asyncio.timeout(_DISCARDED_SECONDS):
                await _drop(incoming.receive)
        except (TimeoutError, BadRequest):
            return
        finally:
            self._discarded -= counted

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

    async def _wait_for_room(self, incoming: IncomingBody, reading: asyncio.Task[Any], most: int) -> None:
        """Afterwards the client has its whole time: it does not answer for those before it.

        A body in chunks may become as large as any. The server would read ahead if it was asked for the first part.
        """
        share = incoming.announced if incoming.announced >= 0 else most
        room = self._room if most <= self._max_bytes else self._larger_rooms.setdefault(most, Room(most))
        try:
            await incoming.enter(room, share)
        except asyncio.CancelledError:
            if reading not in self._late:
                raise
            reading.uncancel()
            raise NoRoom("too many large bodies arrive at once") from None
        del self._reading[reading]  # so that the oldest stays the first
        self._reading[reading] = self._loop.time()


async def _read_on(body: bytes, incoming: IncomingBody, most: int) -> bytes:
    whole = BytesIO()  # unlike a list of parts, it does not need the space twice when it is joined
    size, more = whole.write(body), True
    while more and size <= most:
        message = await incoming.receive()
        size += whole.write(_part(message))
        more = message.get("more_body", False)
    if size > most:
        incoming.is_unread = more
        raise _too_large(most)
    return whole.getvalue()


def _too_large(most: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {most} bytes")


def _part(message: dict[str, Any]) -> bytes:
    if message["type"] != "http.request":
        raise BadRequest("the body is incomplete")
    part: bytes = message.get("body", b"")
    return part


async def _drop(receive: Receive) -> None:
    size, more = 0, True
    while more and size < _DISCARDED_BYTES:
        message = await receive()
        size += len(_part(message))
        more = message.get("more_body", False)
