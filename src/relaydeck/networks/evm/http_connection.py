"""One HTTP/1.1 connection to a node, which carries one request at a time.

A node answers many small requests over few connections, so what a request costs here decides what an estimate costs.
The parser is a native one; everything that a server may send is bounded in size, and parsed in parts.
"""

import asyncio

import aiohttp
import httptools
from aiohttp.connector import Connection

from relaydeck.networks.evm.endpoint import Response, seconds_of
from relaydeck.networks.evm.errors import AnswerTooLarge
from relaydeck.outgoing_connections import MOST_INTERIM_ANSWERS, PART_BYTES, Parsing

_MOST_HEADER_BYTES = 65_536
_CHUNK_OVERHEAD = 8  # bytes received for each byte of a body in small chunks


class HttpConnection(asyncio.Protocol):
    """It takes over a connection that aiohttp's connector has opened and checked."""

    def __init__(self, opened: Connection, limit: int, parsing: Parsing) -> None:
        """`limit`: the largest body, in bytes."""
        opener, transport = opened.protocol, opened.transport
        if opener is None or transport is None:
            opened.close()
            raise aiohttp.ServerDisconnectedError
        self._opened = opened
        self._opener = opener
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._parsing = parsing
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Response] | None = None
        self._rest = bytearray()  # received, not parsed
        self._loss: tuple[Exception | None] | None = None  # how the connection ended, while a rest is parsed
        self._is_usable = True
        self.idle_since = 0.0
        self._transport.set_protocol(self)

    @property
    def is_usable(self) -> bool:
        """Whether it can carry another request."""
        return self._is_usable and not self._transport.is_closing()

    def ask(self, request: bytes) -> "asyncio.Future[Response]":
        """The response to a request. Whoever stops waiting for it closes the connection."""
        self._answer = answer = self._loop.create_future()
        self._received = self._interim = self._size = self._status = 0
        self._is_delimited = False
        self._wait: float | None = None
        self._chunks: list[bytes] = []
        self._transport.write(request)
        return answer

    def close(self) -> None:
        self._is_usable = False
        self._transport.abort()
        self._opened.close()

    # -- what the transport calls -----------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if not self._rest and len(data) <= PART_BYTES:
            self._parse(data)
            return
        self._rest += data
        if not self._transport.is_closing():
            self._transport.pause_reading()
        self._parsing.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_usable = False
        self._opener.connection_lost(exc)  # the connector waits for that when it is closed
        self._opened.close()
        if self._rest:
            self._loss = (exc,)
        else:
            self._end(exc)

    # -- parsing ----------------------------------------------------------------------------------

    def parse_part(self) -> bool:
        """Whether the next part can be parsed, too."""
        part = bytes(self._rest[:PART_BYTES])
        del self._rest[:PART_BYTES]
        if self._answer is None:
            self._rest.clear()
        self._parse(part)
        if not self._rest:
            if self._loss is not None:
                self._end(*self._loss)
            elif not self._transport.is_closing():
                self._transport.resume_reading()
        return bool(self._rest)

    def _parse(self, data: bytes) -> None:
        if self._answer is None:
            self.close()  # what answers no request
            return
        self._received += len(data)
        # Of anything but a body, little: the parser joins a long header, or trailer, again with each part of it.
        if self._received > self._size * _CHUNK_OVERHEAD + _MOST_HEADER_BYTES:
            self._fail(self._too_large() if self._status else aiohttp.ClientError("not HTTP"))
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(aiohttp.ClientError("not HTTP"))

    def on_message_begin(self) -> None:
        if self._answer is None:
            self.close()  # a second response answers no request

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self._is_delimited = True
            case b"retry-after":
                self._wait = seconds_of(value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self._status = status
            return
        self._interim += 1
        if self._interim > MOST_INTERIM_ANSWERS:
            self._fail(aiohttp.ClientError("too many interim answers"))

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._limit:
            self._fail(self._too_large())
        else:
            self._chunks.append(body)

    def on_message_complete(self) -> None:
        if self._status:
            # A rest belongs to no request: it must not be taken for the response to the next one.
            self._is_usable = self._is_usable and not self._rest and self._parser.should_keep_alive()
            self._succeed()

    def _too_large(self) -> AnswerTooLarge:
        return AnswerTooLarge(f"answered more than {self._limit} bytes")

    def _succeed(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            answer.set_result(Response(self._status, body, self._wait))

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
        self.close()

    def _end(self, error: Exception | None) -> None:
        """The connection ended: so does a response of undeclared length, and no other."""
        if self._answer is None:
            return
        if self._status and not self._is_delimited and error is None:
            self._succeed()
        elif self._status:
            self._fail(aiohttp.ClientPayloadError("the response is incomplete"))
        else:
            lost = (
                aiohttp.ClientOSError(*error.args) if isinstance(error, OSError) else aiohttp.ServerDisconnectedError()
            )
            self._fail(lost)
