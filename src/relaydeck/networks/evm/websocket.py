"""JSON-RPC over a WebSocket to one URL: one connection for all requests, opened with the first one.

A connection that ends takes every request on it along, although at most one of them can be the cause. Each of them is
sent once more on a connection of its own: a request that the node cannot take then fails alone.
"""

import asyncio
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha1
from typing import Any

import msgspec
from yarl import URL

from relaydeck.networks.evm.errors import AnswerTooLarge, UrlFailed, failure_of, refused
from relaydeck.outgoing.connections import BoundedProtocol, ConnectionFailed, ConnectionFailure, Opener
from relaydeck.outgoing.http_client import HttpConnection, Limits, Response, request_head, requested_delay
from relaydeck.process.background import note_failure

_OPEN_SECONDS = 10.0  # to open a connection; those that wait for it have timeouts of their own
_HEARTBEAT_SECONDS = 30.0
# Messages and pings in a row that belong to no request, within a heartbeat. A server that sends more is not a node.
_MOST_UNEXPECTED = 100
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10  # opcodes of RFC 6455
_FINAL, _MASKED = 0x80, 0x80
_MOST_CONTROL_BYTES = 125
# Of a response that opens no WebSocket, the status and the pause that it requests are enough.
_HANDSHAKE = Limits(body_bytes=0, cut_seconds=0.0)
_UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
_ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455: hashed with the key of the handshake


class _Message(msgspec.Struct):
    id: Any = None
    method: Any = None  # of a notification, which answers nothing


_messages = msgspec.json.Decoder(_Message | list[_Message])


class _Lost(Exception):
    """The connection ended before the answer came. `failure` says why, should the request be the cause."""

    def __init__(self, failure: UrlFailed) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class WebSocketEndpoint:
    def __init__(self, url: URL, headers: Mapping[str, str], opener: Opener, limit: int) -> None:
        self._url, self._opener, self._limit = url, opener, limit
        self._head = request_head("GET", url, {"User-Agent": "relaydeck", **headers})
        self._connection: _Connection | None = None
        self._alone: set[_Connection] = set()
        self._opening: asyncio.Task[_Connection] | None = None

    async def send(self, body: bytes, numbers: Sequence[int]) -> Response:
        try:
            try:
                return Response(200, await (await self._shared()).ask(body, numbers))
            except _Lost:
                return Response(200, await self._ask_alone(body, numbers))
        except _Lost as lost:
            raise lost.failure from None
        except TimeoutError:  # it was not opened in time
            raise failure_of(ConnectionFailed(ConnectionFailure.TIMED_OUT)) from None
        except ConnectionFailed as error:
            raise failure_of(error) from None

    async def _shared(self) -> "_Connection":
        if self._connection is not None and self._connection.is_usable:
            return self._connection
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open_shared())
            self._opening.add_done_callback(note_failure)
        opening = self._opening
        try:
            return await asyncio.shield(opening)  # others wait for it, too
        except asyncio.CancelledError:
            if opening.cancelled():  # by `close`: nobody cancelled this request
                raise ConnectionFailed(ConnectionFailure.CONNECTION_LOST) from None
            raise

    async def _open_shared(self) -> "_Connection":
        async with asyncio.timeout(_OPEN_SECONDS):
            self._connection = await self._open()
        return self._connection

    async def _open(self) -> "_Connection":
        """Raises `ConnectionFailed`, and `UrlFailed` for a handshake that the node refuses."""
        key = b64encode(os.urandom(16))
        http = await self._opener.open(self._url, lambda: HttpConnection(self._opener.turns, _HANDSHAKE))
        opened = _Connection(self._opener, self._limit)
        try:
            response = await http.ask(self._head + _UPGRADE + key + b"\r\n\r\n", upgraded=opened)
            _require_accepted(response, key)
        except BaseException:
            http.close()
            raise
        opened.begin()
        return opened

    async def _ask_alone(self, body: bytes, numbers: Sequence[int]) -> bytes:
        connection = await self._open()
        self._alone.add(connection)
        try:
            return await connection.ask(body, numbers)
        finally:
            self._alone.discard(connection)
            connection.close()

    def close(self, *, abort: bool = False) -> None:
        if self._opening is not None:
            self._opening.cancel()
        for connection in (self._connection, *self._alone):
            if connection is not None:
                connection.close()


class _Connection(BoundedProtocol):
    def __init__(self, opener: Opener, limit: int) -> None:
        super().__init__(opener.turns)
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._waiting: dict[int, asyncio.Future[bytes]] = {}  # by JSON-RPC id
        self._buffer = bytearray()  # of frames that are not complete
        self._message = bytearray()  # of frames before the last one of a message
        self._in_message = False
        self._received = 0  # messages
        self._unexpected = 0
        self._counted_since = 0.0
        self._is_alive = True  # something arrived since the last heartbeat
        self._heartbeat: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._heartbeat = self._loop.call_later(_HEARTBEAT_SECONDS, self._beat)

    async def ask(self, body: bytes, numbers: Sequence[int]) -> bytes:
        """Raises `_Lost`."""
        if not self.is_usable:
            raise _Lost(_closed_early())
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting.update(dict.fromkeys(numbers, answer))
        received = self._received
        try:
            self._transport.write(_frame(_TEXT, body))
            return await answer
        except asyncio.CancelledError:
            if self._received == received:
                self.close()  # nothing came while we waited: the connection may be dead
            raise
        finally:
            for number in numbers:
                self._waiting.pop(number, None)

    def _beat(self) -> None:
        if not self._is_alive:
            self._lose(_closed_early())
            return
        self._is_alive = False
        self._transport.write(_frame(_PING, b""))
        self._heartbeat = self._loop.call_later(_HEARTBEAT_SECONDS, self._beat)

    def close(self) -> None:
        super().close()
        self._buffer.clear()
        if self._heartbeat is not None:
            self._heartbeat.cancel()

    def _end(self, error: Exception | None) -> None:
        self._lose(_closed_early())

    def _lose(self, failure: UrlFailed) -> None:
        self.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(_Lost(failure))

    # -- what arrives -----------------------------------------------------------------------------

    def _parse(self, data: bytes) -> None:
        self._is_alive = True
        self._buffer += data
        while self._is_usable and self._parse_frame():
            pass

    def _parse_frame(self) -> bool:
        """Whether there was a whole frame."""
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        length, start = buffer[1] & 0x7F, 2
        if length > _MOST_CONTROL_BYTES:
            start = 4 if length == 126 else 10
            if len(buffer) < start:
                return False
            length = int.from_bytes(buffer[2:start], "big")
        kind, is_final = buffer[0] & 0x0F, bool(buffer[0] & _FINAL)
        if failure := self._frame_failure(buffer[0], buffer[1] & _MASKED, length):
            self._lose(failure)
            return False
        if len(buffer) < start + length:
            return False
        payload = bytes(buffer[start : start + length])
        del buffer[: start + length]
        if kind >= _CLOSE:
            self._answer_control(kind, payload)
        else:
            self._take_data(payload, is_final=is_final)
        return True

    def _frame_failure(self, first: int, masked: int, length: int) -> UrlFailed | None:
        kind = first & 0x0F
        is_control = kind in (_CLOSE, _PING, _PONG)
        if masked or first & 0x70 or not (is_control or kind in (_CONTINUATION, _TEXT, _BINARY)):
            return _closed_early()
        if is_control:
            return _closed_early() if length > _MOST_CONTROL_BYTES or not first & _FINAL else None
        if self._in_message != (kind == _CONTINUATION):
            return _closed_early()
        if len(self._message) + length > self._limit:
            return AnswerTooLarge(f"answered more than {self._limit} bytes")
        return None

    def _take_data(self, payload: bytes, *, is_final: bool) -> None:
        self._in_message = not is_final
        if not is_final:
            self._message += payload
            return
        if self._message:
            payload = bytes(self._message + payload)
            self._message.clear()
        self._deliver(payload)

    def _deliver(self, raw: bytes) -> None:
        self._received += 1
        answer = self._waiting.get(_number_of(raw, self._waiting))
        if answer is None or answer.done():
            self._count_unexpected()  # the request may have timed out
            return
        self._unexpected = 0
        answer.set_result(raw)

    def _answer_control(self, kind: int, payload: bytes) -> None:
        if kind == _CLOSE:
            self._lose(_closed_early())
            return
        if kind == _PING:
            self._transport.write(_frame(_PONG, payload))
        self._count_unexpected()

    def _count_unexpected(self) -> None:
        now = self._loop.time()
        if now - self._counted_since > _HEARTBEAT_SECONDS:
            self._counted_since, self._unexpected = now, 0
        self._unexpected += 1
        if self._unexpected > _MOST_UNEXPECTED:
            self._lose(UrlFailed("sends messages that answer no request"))


def _require_accepted(response: Response, key: bytes) -> None:
    """Raises `UrlFailed` for a handshake that the node refuses."""
    if response.status >= 300:
        raise refused(response.status, requested_delay(response.retry_after))
    expected = b64encode(sha1(key + _ACCEPT, usedforsecurity=False).digest()).decode()
    if response.status != 101 or response.accepted.strip() != expected:
        raise UrlFailed("did not open a WebSocket")


def _frame(kind: int, payload: bytes) -> bytes:
    """As a client sends it: whole, and masked."""
    size = len(payload)
    if size <= _MOST_CONTROL_BYTES:
        length = bytes([_MASKED | size])
    elif size < 1 << 16:
        length = bytes([_MASKED | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([_MASKED | 127]) + size.to_bytes(8, "big")
    mask = os.urandom(4)
    pattern = (mask * (size // 4 + 1))[:size]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")
    return bytes([_FINAL | kind]) + length + mask + masked.to_bytes(size, "big")


def _number_of(raw: bytes, waiting: Mapping[int, object]) -> int:
    """The id of a response, or of one in a batch. One without an id belongs to the only request there is, if any."""
    try:
        found = _messages.decode(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        found = []
    messages = found if isinstance(found, list) else [found]
    for each in messages:
        if type(each.id) is int or each.method is not None:
            return each.id if type(each.id) is int else -1
    return next(iter(waiting)) if len({id(each) for each in waiting.values()}) == 1 else -1


def _closed_early() -> UrlFailed:
    return failure_of(ConnectionFailed(ConnectionFailure.CONNECTION_LOST))
