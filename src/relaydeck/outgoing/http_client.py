"""HTTP/1.1 to servers that Relaydeck does not control: receivers of events, nodes and key systems.

A fee estimate is at least one request to a node, so what a request costs here decides what an estimate costs. The
parser is a native one; everything that a server may send is bounded in size. Redirects are not followed, because a
credential must not reach a host that the operator did not name.
"""

import asyncio
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import httptools
from yarl import URL

from relaydeck.outgoing.connections import (
    BoundedProtocol,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionFailure,
    Opener,
    ResponseTooLarge,
    Turns,
)

_MOST_INTERIM_ANSWERS = 8
_MOST_HEADER_BYTES = 65_536
_CHUNK_OVERHEAD = 8  # bytes received for each byte of a body in small chunks
_KNOWN_HEADERS = frozenset({b"content-length", b"transfer-encoding", b"retry-after", b"sec-websocket-accept"})
_MOST_SERVERS = 256  # from this number on, those without a connection are dropped when one is added


class Response(NamedTuple):
    status: int
    body: bytes
    retry_after: str = ""
    accepted: str = ""  # Sec-WebSocket-Accept


Exchange = Callable[[Mapping[str, str]], Awaitable[Response]]
# Set while traces are on: makes a span with this name around an exchange, and gives it the headers that pass it on.
trace_with: Callable[[str, str, URL, Exchange], Awaitable[Response]] | None = None


class Limits(NamedTuple):
    """`cut_seconds`: of a longer body, and of one that does not arrive in this time, the beginning is the response."""

    body_bytes: int
    idle_seconds: float = 30.0
    cut_seconds: float | None = None


class HttpConnection(BoundedProtocol):
    """It carries one request at a time."""

    def __init__(self, turns: Turns, limits: Limits) -> None:
        super().__init__(turns)
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Response] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.idle_since = 0.0

    def ask(
        self, request: bytes, on_head: Callable[[], None] | None = None, upgraded: BoundedProtocol | None = None
    ) -> "asyncio.Future[Response]":
        """The response to a request. Whoever stops waiting for it closes the connection.

        `upgraded`: what reads the connection when the server switches protocols, which has the status 101.
        """
        self._answer = answer = self._loop.create_future()
        self._received = self._interim = self._size = self._status = 0
        self._is_delimited = False
        self._retry_after = self._accepted = ""
        self._on_head, self._upgraded = on_head, upgraded
        self._body = bytearray()
        self._transport.write(request)
        return answer

    def _parse(self, data: bytes) -> None:
        if self._answer is None:
            self.close()  # what answers no request
            return
        self._received += len(data)
        # Of anything but a body, little: the parser joins a long header, or trailer, again with each part of it.
        if self._received > self._size * _CHUNK_OVERHEAD + _MOST_HEADER_BYTES:
            self._stop_reading() if self._status else self._fail(_not_http())
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._switch(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._fail(_not_http())

    # -- what the parser calls --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._answer is None:
            self.close()  # a second response answers no request

    def on_header(self, name: bytes, value: bytes) -> None:
        if (known := name.lower()) not in _KNOWN_HEADERS:
            return
        if known == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif known == b"sec-websocket-accept":
            self._accepted = value.decode("latin-1")
        else:
            self._is_delimited = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self._interim += 1
            self._is_delimited, self._retry_after = False, ""
            if self._interim > _MOST_INTERIM_ANSWERS:
                self._fail(_not_http())
            return
        self._status = status
        if self._on_head is not None:
            self._on_head()
        if self._limits.cut_seconds is not None:
            self._timer = self._loop.call_later(self._limits.cut_seconds, self._cut)

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        more = self._size - self._limits.body_bytes
        self._body += body[: len(body) - more] if more > 0 else body
        if more > 0:
            self._stop_reading()

    def on_message_complete(self) -> None:
        if self._status:
            # A rest belongs to no request: it must not be taken for the response to the next one.
            self._is_usable = self._is_usable and not self._rest and self._parser.should_keep_alive()
            self._succeed()

    # -- the end of a response --------------------------------------------------------------------

    def _take_answer(self) -> "asyncio.Future[Response] | None":
        answer, self._answer = self._answer, None
        if self._timer is not None:
            self._timer.cancel()
        return None if answer is None or answer.done() else answer

    def _succeed(self) -> None:
        if (answer := self._take_answer()) is not None:
            answer.set_result(Response(self._status, bytes(self._body), self._retry_after, self._accepted))

    def _switch(self, rest: bytes) -> None:
        """The head of the response has arrived, and another protocol begins."""
        if self._upgraded is None or self._parser.get_status_code() != 101:
            self._fail(_not_http())
            return
        self._status = 101
        self._succeed()
        rest, self._is_usable = rest + bytes(self._rest), False
        self._rest.clear()
        self._transport.set_protocol(self._upgraded)
        self._upgraded.connection_made(self._transport)
        if rest:
            self._upgraded.data_received(rest)

    def _stop_reading(self) -> None:
        """The response is longer than we read."""
        if self._limits.cut_seconds is None:
            self._fail(ResponseTooLarge())
        else:
            self._cut()

    def _cut(self) -> None:
        self._succeed()
        self.close()

    def _fail(self, error: Exception) -> None:
        if (answer := self._take_answer()) is not None:
            answer.set_exception(error)
        self.close()

    def _end(self, error: Exception | None) -> None:
        """The connection ended: so does a response of undeclared length, and one that may be cut."""
        if self._answer is None:
            return
        is_whole = not self._is_delimited and error is None
        if self._status and (is_whole or self._limits.cut_seconds is not None):
            self._cut()
        elif self._status:
            self._fail(ConnectionFailed(ConnectionFailure.CONNECTION_LOST))
        else:
            self._fail(ConnectionClosed())


def _not_http() -> ConnectionFailed:
    return ConnectionFailed(ConnectionFailure.BAD_ANSWER)


class Server:
    """The connections to one server. Those that are idle are kept for a while."""

    def __init__(self, url: URL, opener: Opener, limits: Limits, span_name: str = "") -> None:
        """`span_name`: empty if its requests are not traced."""
        self._url, self._opener, self._limits, self._span_name = url, opener, limits, span_name
        self._loop = asyncio.get_running_loop()
        self._idle: list[HttpConnection] = []  # the one used last at the end
        self._busy: set[HttpConnection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def exchange(
        self, head: bytes, body: bytes | None, on_head: Callable[[], None] | None = None
    ) -> Awaitable[Response]:
        """`head` is that of `request_head`. Raises `ConnectionFailed` and `ResponseTooLarge`."""
        end = b"\r\n" if body is None else b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        if trace_with is None or not self._span_name:
            return self._exchange(head + end, on_head)

        def send(headers: Mapping[str, str]) -> Awaitable[Response]:
            more = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
            return self._exchange(head + more + end, on_head)

        return trace_with(self._span_name, head.partition(b" ")[0].decode(), self._url, send)

    async def read(self, head: bytes, body: bytes | None) -> Response:
        """As `exchange`, for a request that changes nothing: it may be sent again, on a new connection."""
        try:
            return await self.exchange(head, body)
        except ConnectionClosed:  # the server may have closed a kept connection while we wrote, and others
            self.drop_idle()
            return await self.exchange(head, body)

    async def _exchange(self, request: bytes, on_head: Callable[[], None] | None) -> Response:
        if self._is_closed:
            raise ConnectionFailed(ConnectionFailure.CONNECTION_LOST)
        connection = self._kept() or await self._opener.open(self._url, self._make)
        self._busy.add(connection)
        try:
            response = await connection.ask(request, on_head)
        except BaseException:
            connection.close()
            raise
        finally:
            self._busy.discard(connection)
        self._keep(connection)
        return response

    def _make(self) -> HttpConnection:
        return HttpConnection(self._opener.turns, self._limits)

    @property
    def is_unused(self) -> bool:
        return not self._idle and not self._busy

    def drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def close(self, *, abort: bool = False) -> None:
        """A request that is under way is answered, unless `abort`; its connection is closed then."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.drop_idle()
        for connection in list(self._busy) if abort else ():
            connection.close()

    def _kept(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    def _keep(self, connection: HttpConnection) -> None:
        if self._is_closed or not connection.is_usable:
            connection.close()
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(self._limits.idle_seconds, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connections that were not used for long. Those used last are at the end of the list."""
        self._timer, before = None, self._loop.time() - self._limits.idle_seconds
        while self._idle and self._idle[0].idle_since <= before:
            self._idle.pop(0).close()
        if self._idle:
            self._timer = self._loop.call_later(self._idle[0].idle_since - before, self._close_idle)


class HttpClient:
    """One per event loop, for servers that are called now and then."""

    def __init__(self, opener: Opener, limits: Limits, headers: Mapping[str, str], span_name: str = "") -> None:
        """`headers` are sent with every request that does not have its own."""
        self._opener, self._limits, self._headers, self._span_name = opener, limits, headers, span_name
        self._servers: dict[tuple[str, str | None, int | None], Server] = {}

    async def send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None = None,
        on_head: Callable[[], None] | None = None,
    ) -> Response:
        """`on_head` is called when the head of the response has arrived.

        Raises `ConnectionFailed` and `ResponseTooLarge`, and ValueError for a header that cannot be sent.
        """
        return await self._server(url).exchange(self._head(method, url, headers), body, on_head)

    async def read(self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None) -> Response:
        """The same for a request that changes nothing: it may be sent twice."""
        return await self._server(url).read(self._head(method, url, headers), body)

    def _head(self, method: str, url: URL, headers: Mapping[str, str]) -> bytes:
        return request_head(method, url, {**self._headers, **headers})

    def _server(self, url: URL) -> Server:
        key = url.scheme, url.raw_host, url.port
        server = self._servers.get(key)
        if server is None:
            if len(self._servers) >= _MOST_SERVERS:
                self._servers = {key: each for key, each in self._servers.items() if not each.is_unused}
            server = self._servers[key] = Server(url, self._opener, self._limits, self._span_name)
        return server

    async def close(self) -> None:
        for server in self._servers.values():
            server.close(abort=True)
        await asyncio.sleep(0)  # in which the transports close their sockets


def request_head(method: str, url: URL, headers: Mapping[str, str]) -> bytes:
    """The request line and the headers. A user and password in the URL are sent as Basic credentials."""
    given = {"Host": url.host_port_subcomponent or "", "Accept": "*/*"}
    if url.user is not None or url.password is not None:
        credentials = b64encode(f"{url.user or ''}:{url.password or ''}".encode("latin-1"))
        given["Authorization"] = f"Basic {credentials.decode()}"
    own = {name.lower() for name in headers}
    lines = [f"{name}: {value}" for name, value in given.items() if name.lower() not in own]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if any(character in line for line in lines for character in "\r\n\0"):
        raise ValueError("a header has a line break")
    target = url.raw_path_qs
    if any(character <= " " or character == "\x7f" for character in target):
        raise ValueError("the URL has a blank or a control character")
    return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, ""]).encode("latin-1")


def requested_delay(retry_after: str, now: float | None = None) -> float | None:
    """The seconds that a `Retry-After` header requests (RFC 9110: seconds, or a date); None when it is neither."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return max(0.0, moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - (time.time() if now is None else now))
