"""Reads the body of a request, bounded in size and time, and all bodies of a worker together in memory; decodes it.

The HTTP server reads a body only while somebody asks for the next part, and at most one part ahead. So a body that
nobody reads stays with its client, and what a worker holds is what this module has asked for:

- a body that announces at most 16 KiB is read at once;
- any other first waits for room. It keeps its room until the operation has answered. Bodies that are read before a
  credential or a session is known have a small room of their own, so that strangers keep no caller waiting;
- what no operation reads is dropped part by part after the response, for a bounded number of clients at a time.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, get_args

import msgspec

from relaydeck.errors import BadRequest, BodyTooLarge, NoRoom
from relaydeck.fields import invalid_field
from relaydeck.http.request import Receive
from relaydeck.process.background import TimeLimit, TimeLimits
from relaydeck.secret import decode_secret

# msgspec's messages are safe to repeat, except for two that quote the caller: a value that is not allowed, and the name
# of an unknown field. A quoted text can contain anything, even the words of msgspec itself.
_REFUSED = ("Invalid value ", "Invalid enum value ")
_UNKNOWN = "Object contains unknown field "
_NOT_ALLOWED = "value is not one of those allowed - at "
_UNKNOWN_TYPE = f"{_NOT_ALLOWED}$.type"
_POSITION = re.compile(r" \(byte [0-9]+\)$")
_SMALL_BYTES = 16 * 1024
_ROOM_BYTES = 16 * 1024 * 1024
_STRANGERS_ROOM_BYTES = 1024 * 1024
# A client that is still sending does not read the response. The service discards what it sends, within these bounds,
# so that the client reaches the response; beyond them the service closes the connection.
_DISCARDED_BYTES = 64 * 1024 * 1024
_DISCARDED_SECONDS = 5.0
_DISCARDED_AT_ONCE = 32  # bodies that are not small


class Room:
    """Bytes that large bodies may take together. Whoever finds too few waits; the first to come is the first served."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._first = asyncio.Lock()  # of the body that waits for bytes: others wait behind it
        self._left = asyncio.Event()

    async def enter(self, share: int) -> None:
        async with self._first:
            while share > self._free:
                self._left.clear()
                await self._left.wait()
            self._free -= share

    def leave(self, share: int) -> None:
        self._free += share
        self._left.set()


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
    """Reads many bodies at once."""

    def __init__(self, max_bytes: int, seconds: float) -> None:
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._room = Room(max(max_bytes, _ROOM_BYTES))
        self._strangers_room = Room(_STRANGERS_ROOM_BYTES)
        self._larger_rooms: dict[int, Room] = {}  # by the largest body of a route, where that is not the usual one
        self._discarded = 0
        self._limits = TimeLimits()
        self._loop = asyncio.get_running_loop()

    async def read(
        self, incoming: IncomingBody, most: int = 0, *, is_json: bool = False, is_strangers: bool = False
    ) -> bytes:
        """The whole body, of at most so many bytes (0: the usual number).

        Raises BodyTooLarge, BadRequest when the body is late or incomplete, or NoRoom when there is no room. A large
        body that is not JSON, where it has to be, is refused before it arrives; a small one by whoever decodes it.
        """
        announced, most = incoming.announced, most or self._max_bytes
        if announced > most:
            raise _too_large(most)
        is_small = 0 <= announced <= _SMALL_BYTES
        if is_json and not is_small and most > _SMALL_BYTES:
            require_json(incoming.headers)
        incoming.is_unread = False
        if not is_small:
            await self._wait_for_room(incoming, most, is_strangers=is_strangers)
        try:
            with TimeLimit(self._limits, self._loop.time() + self._seconds):
                message = await incoming.receive()
                body = _part(message)
                # Asking the server for an end that is already known costs as much as asking for the body.
                if len(body) == announced:
                    return body
                if message.get("more_body"):
                    return await _read_on(body, incoming, most)
        except TimeoutError:
            raise BadRequest("the body did not arrive in time") from None
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

    async def _wait_for_room(self, incoming: IncomingBody, most: int, *, is_strangers: bool) -> None:
        """Afterwards the client has its whole time: it does not answer for those before it.

        A body in chunks may become as large as any. The server would read ahead if it was asked for the first part.
        """
        share = incoming.announced if incoming.announced >= 0 else most
        room = self._room if most <= self._max_bytes else self._larger_rooms.setdefault(most, Room(most))
        room = self._strangers_room if is_strangers else room
        try:
            with TimeLimit(self._limits, self._loop.time() + self._seconds):
                await incoming.enter(room, share)
        except TimeoutError:
            raise NoRoom("too many large bodies arrive at once") from None


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


# sentence: 4-json 4.1-bad-request 4.3-bad-request 4.5-bad-request
def body_decoder(shape: Any) -> Callable[[Mapping[bytes, bytes], bytes], Any]:
    """A function that checks content type and body, and returns a `shape`. It raises BadRequest."""
    decode = msgspec.json.Decoder(shape, dec_hook=decode_secret).decode
    types = [str(each.__struct_config__.tag) for each in get_args(shape) if isinstance(each, msgspec.StructMeta)]
    unknown_type = f"type is not one of {', '.join(types)}"

    def decode_body(headers: Mapping[bytes, bytes], body: bytes) -> Any:
        require_json(headers)
        try:
            if not body.isascii():
                body.decode()  # the decoder does not check parts that it keeps undecoded
            value = decode(body)
        except msgspec.ValidationError as error:
            reason = reason_of(error)
            raise BadRequest(unknown_type if types and reason == _UNKNOWN_TYPE else reason) from None
        except msgspec.DecodeError as error:
            raise BadRequest("the body is not valid JSON" + _position_of(error, body)) from None
        except UnicodeDecodeError as error:
            raise BadRequest(f"the body is not valid JSON (byte {error.start})") from None
        except RecursionError:
            raise BadRequest("the body is nested too deep") from None
        if isinstance(value, msgspec.Struct) and (problem := invalid_field(value)):
            raise BadRequest(problem)
        return value

    return decode_body


def _position_of(error: msgspec.DecodeError, body: bytes) -> str:
    """msgspec gives no position for a body that is empty or cut off."""
    if "truncated" in str(error):
        return f" (it ends at byte {len(body)})"
    return "".join(_POSITION.findall(str(error)))


def reason_of(error: msgspec.ValidationError) -> str:
    """What msgspec found wrong, without any text of the caller."""
    text = str(error)
    if text.startswith(_UNKNOWN):
        return "config holds an unknown field" if text.endswith(" - at `$.config`") else "unknown field"
    if text.startswith(_REFUSED):
        text = _NOT_ALLOWED + text.rpartition(" - at ")[2]
    return text.replace("`", "").encode("ascii", "replace").decode()[:200]


def require_json(headers: Mapping[bytes, bytes]) -> None:
    given = headers.get(b"content-type")
    if given == b"application/json":
        return
    if given is None:
        raise BadRequest("the content type is missing")
    media_type = given.split(b";", 1)[0].strip().lower()
    if media_type != b"application/json" and not media_type.endswith(b"+json"):
        raise BadRequest("the content type is not JSON")
