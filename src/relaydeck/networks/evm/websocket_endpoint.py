"""JSON-RPC over a WebSocket to one URL: one connection for all requests, opened with the first one.

A connection that ends takes every request on it along, although at most one of them can be the cause. Each of them is
sent once more on a connection of its own: a request that the node cannot take then fails alone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec
from aiohttp import WSMsgType
from multidict import CIMultiDict

from relaydeck.background import TaskSet
from relaydeck.networks.evm.endpoint import CONNECTION_ERRORS, Headers, Response, failure_of, refused, seconds_of
from relaydeck.networks.evm.errors import AnswerTooLarge, UrlFailed

_OPEN_SECONDS = 10.0  # to open a connection; those that wait for it have timeouts of their own
_HEARTBEAT_SECONDS = 30.0
_CLOSE = aiohttp.ClientWSTimeout(ws_close=1.0)
# Messages and pings in a row that belong to no request, within a heartbeat. A server that sends more is not a node.
_MOST_UNEXPECTED = 100
_MESSAGES = (WSMsgType.TEXT, WSMsgType.BINARY)
_CONTROL = (WSMsgType.PING, WSMsgType.PONG)
_WebSocket = aiohttp.ClientWebSocketResponse[bool]


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
    def __init__(self, url: str, headers: Headers, session: aiohttp.ClientSession, limit: int) -> None:
        self._url = url
        self._headers = headers
        self._session = session
        self._limit = limit
        self._connection: _Connection | None = None
        self._opening: asyncio.Task[_Connection] | None = None
        self._tasks = TaskSet()

    async def send(self, body: bytes, numbers: Sequence[int]) -> Response:
        try:
            try:
                return Response(200, await (await self._shared()).ask(body, numbers))
            except _Lost:
                return Response(200, await self._ask_alone(body, numbers))
        except _Lost as lost:
            raise lost.failure from None
        except aiohttp.WSServerHandshakeError as error:
            raise _refusal(error) from None
        except CONNECTION_ERRORS as error:
            raise failure_of(error) from None

    async def _shared(self) -> "_Connection":
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if self._opening is None or self._opening.done():
            self._opening = self._tasks.start(self._open())
            self._opening.add_done_callback(_retrieve)
        return await asyncio.shield(self._opening)  # others wait for it, too

    async def _open(self) -> "_Connection":
        async with asyncio.timeout(_OPEN_SECONDS):
            self._connection = await self._connect()
        return self._connection

    async def _connect(self) -> "_Connection":
        socket = await self._session.ws_connect(
            self._url,
            headers=CIMultiDict(self._headers),
            max_msg_size=self._limit + 1,
            heartbeat=_HEARTBEAT_SECONDS,
            timeout=_CLOSE,
            autoping=False,  # it answers all that have arrived before others run
            decode_text=False,
        )
        return _Connection(socket, self._limit, self._tasks)

    async def _ask_alone(self, body: bytes, numbers: Sequence[int]) -> bytes:
        connection = await self._connect()
        try:
            return await connection.ask(body, numbers)
        finally:
            connection.end()

    async def close(self) -> None:
        await self._tasks.cancel()


class _Connection:
    def __init__(self, socket: _WebSocket, limit: int, tasks: TaskSet) -> None:
        self._socket = socket
        self._limit = limit
        self._waiting: dict[int, asyncio.Future[bytes]] = {}  # by JSON-RPC id
        self._received = 0
        self._unexpected = 0
        self._counted_since = 0.0
        self._ended = False
        self._reader = tasks.start(self._read_all())
        # Also when it is cancelled before it runs. A connection that broke is not released by `close`.
        self._reader.add_done_callback(lambda _: socket._response.close())

    def end(self) -> None:
        self._reader.cancel()

    @property
    def is_open(self) -> bool:
        return not self._ended and not self._socket.closed

    async def ask(self, body: bytes, numbers: Sequence[int]) -> bytes:
        """Raises `_Lost`."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.update(dict.fromkeys(numbers, answer))
        received = self._received
        try:
            await self._send(body)
            return await answer
        except asyncio.CancelledError:
            if self._received == received:
                self.end()  # nothing came while we waited: the connection may be dead
            raise
        finally:
            for number in numbers:
                self._waiting.pop(number, None)

    async def _send(self, body: bytes) -> None:
        try:
            await self._socket.send_str(body.decode())
        except (aiohttp.ClientError, OSError) as error:
            raise _Lost(failure_of(error)) from None

    async def _read_all(self) -> None:
        """Until the connection ends, or has to end."""
        failure = failure_of(aiohttp.ServerDisconnectedError())
        try:
            while self._unexpected <= _MOST_UNEXPECTED:
                message = await self._socket.receive()
                if _is_too_large(message):
                    failure = AnswerTooLarge(f"answered more than {self._limit} bytes")
                if message.type in _CONTROL:
                    await self._answer_ping(message)
                elif message.type in _MESSAGES:
                    self._deliver(_raw(message))
                else:
                    return
            failure = UrlFailed("sends messages that answer no request")
            self._socket._response.close()  # a close would read what else it sends
        except CONNECTION_ERRORS as error:  # it broke before the answer to a ping
            failure = failure_of(error)
        finally:
            self._ended = True
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(_Lost(failure))
            await _close(self._socket)

    def _deliver(self, raw: bytes) -> None:
        self._received += 1
        answer = self._waiting.get(_number_of(raw, self._waiting))
        if answer is None or answer.done():
            self._count_unexpected()  # the request may have timed out
            return
        self._unexpected = 0
        answer.set_result(raw)

    async def _answer_ping(self, message: Any) -> None:
        self._count_unexpected()
        if message.type is WSMsgType.PING:
            await self._socket.pong(message.data)

    def _count_unexpected(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._counted_since > _HEARTBEAT_SECONDS:
            self._counted_since, self._unexpected = now, 0
        self._unexpected += 1


async def _close(socket: _WebSocket) -> None:
    with suppress(*CONNECTION_ERRORS):
        await socket.close()


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


def _raw(message: Any) -> bytes:
    data: bytes = message.data
    return data


def _is_too_large(message: Any) -> bool:
    error = message.data
    return isinstance(error, aiohttp.WebSocketError) and error.code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG


def _refusal(error: aiohttp.WSServerHandshakeError) -> UrlFailed:
    if error.status < 300:
        return UrlFailed("did not open a WebSocket")
    return refused(error.status, seconds_of(error.headers.get("Retry-After", "")) if error.headers else None)


def _retrieve(task: "asyncio.Task[_Connection]") -> None:
    """Mark a failure as retrieved: the request that opened the connection may be gone."""
    if not task.cancelled():
        task.exception()
