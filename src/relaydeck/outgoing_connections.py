"""Connections to servers that Relaydeck does not control: receivers of events, nodes and key systems.

The check of an address happens where the connection is made. A connector resolves a name once, refuses the name when
any of its addresses is refused, and checks again each address that it opens a socket for. No spelling of a host, no
second response of a name server and no literal address bypasses it. The Host header and the TLS name remain those of
the URL. Of the interim (1xx) answers before a response, only a few are read, and what a server sends is parsed in
parts, so that no server can hold the event loop.
"""

import asyncio
import errno
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from relaydeck.address_guard import AddressGuard

Resolve = Callable[[str, int], Awaitable[list[str]]]
LookUp = Callable[[str], list[str]]
LOOKUP_SECONDS = 4.0
MOST_LOOKUPS = 512  # at the same time, those of names that hang included
MOST_INTERIM_ANSWERS = 8
# Set while traces are on: makes the tracing of a client session whose spans have this name.
trace_with: Callable[[str], aiohttp.TraceConfig] | None = None
PART_BYTES = 4096  # parsed at once: about a millisecond for chunks or frames of one byte
_TURN_SECONDS = 0.005


def _look_up(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(where[0]) for _, _, _, _, where in found]


class NameResolver:
    """Resolves names with the system's resolver, which blocks: each name has a thread of its own.

    However many requests wait for a name, it holds one thread, and a name that hangs delays no other. The threads do
    not delay the end of the process.
    """

    def __init__(self, look_up: LookUp = _look_up) -> None:
        self._look_up = look_up
        self._lookups: dict[str, asyncio.Future[list[str]]] = {}  # those that have not ended

    async def __call__(self, host: str, port: int) -> list[str]:
        """Raises OSError when the name does not resolve in time."""
        lookup = self._lookups.get(host) or self._begin(host)
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await asyncio.shield(lookup)
        except TimeoutError:
            raise OSError("the name does not resolve in time") from None

    def _begin(self, host: str) -> "asyncio.Future[list[str]]":
        if len(self._lookups) >= MOST_LOOKUPS:
            # As for sockets: it says nothing about this name.
            raise OSError(errno.ENOBUFS, "too many names are being resolved")
        lookup = self._lookups[host] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._run, args=(host, lookup), name="lookup", daemon=True).start()
        return lookup

    def _run(self, host: str, lookup: "asyncio.Future[list[str]]") -> None:
        found, error = None, None
        try:
            found = self._look_up(host)
        except Exception as raised:
            error = raised
        with suppress(RuntimeError):  # this thread may outlive the loop
            lookup.get_loop().call_soon_threadsafe(self._end, host, lookup, found, error)

    def _end(
        self, host: str, lookup: "asyncio.Future[list[str]]", found: list[str] | None, error: Exception | None
    ) -> None:
        del self._lookups[host]
        if error is None:
            lookup.set_result(found or [])
        else:
            lookup.set_exception(error)
            lookup.exception()  # those who waited may have given up


class _GuardedResolver(AbstractResolver):
    def __init__(self, guard: AddressGuard, resolve: Resolve) -> None:
        self._guard = guard
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = await self._resolve(host, port)
        if not addresses:
            raise OSError("the name has no address")
        for address in addresses:
            self._guard.require(address)  # one refused address refuses the name
        return [_result(host, port, address) for address in addresses]

    async def close(self) -> None:
        return None


def _result(host: str, port: int, address: str) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)


class _InParts(Protocol):
    def parse_part(self) -> bool:
        """Whether the next part can be parsed, too."""


class Parsing:
    """Shares the event loop between the connections that have received more than one part.

    They take turns, part by part. In one turn of the loop they have a few milliseconds together, then others run:
    a megabyte of chunks or frames of one byte takes a second to parse.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[_InParts, None] = {}  # in their order

    def add(self, connection: _InParts) -> None:
        if not self._waiting:
            self._loop.call_soon(self._run)
        self._waiting.setdefault(connection)

    def _run(self) -> None:
        deadline = time.monotonic() + _TURN_SECONDS
        waiting, self._waiting = self._waiting, {}
        try:
            while waiting:
                connection = next(iter(waiting))
                del waiting[connection]
                if connection.parse_part():
                    waiting[connection] = None
                if time.monotonic() >= deadline:
                    break
        finally:  # a failure of one connection is none of the others
            added, self._waiting = self._waiting, {}
            for connection in (*waiting, *added):
                self.add(connection)


class _BoundedAnswers(ResponseHandler):
    """Discards interim answers, and gives up a server that sends many of them instead of a response.

    The base class queues every interim answer that has arrived, and its reader never yields between two of them. It
    also parses at once whatever has arrived: here, only a part of it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, parsing: Parsing) -> None:
        super().__init__(loop)
        self._parsing = parsing
        self._rest = bytearray()  # received, not parsed
        self._is_parsing = False
        self._loss: tuple[BaseException | None] | None = None  # how the connection ended, while a rest is parsed
        self._interim = 0
        self._has_begun = False

    def set_response_params(self, **options: Any) -> None:
        self._interim, self._has_begun = 0, False
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        has_waited = self._is_parsing or not data  # no data: the parser resumes
        if has_waited or (not self._rest and len(data) <= PART_BYTES):
            super().data_received(data)
        else:
            self._rest += data
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        self._pause_reading_for_buffer()
        self._parsing.add(self)

    def _drain_tail(self) -> None:
        """What has arrived before a WebSocket could be read precedes the rest."""
        tail, self._tail = self._tail, b""
        super()._drain_tail()
        if tail:
            self._rest[:0] = tail
            self._wait_for_turn()

    def resume_reading(self, resume_parser: bool = True) -> None:
        super().resume_reading(resume_parser)
        if self._rest:
            self._parsing.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._rest:
            self._loss = (exc,)
            self._parsing.add(self)
        else:
            super().connection_lost(exc)

    def parse_part(self) -> bool:
        """Whether the next part can be parsed, too."""
        part = bytes(self._rest[:PART_BYTES])
        del self._rest[:PART_BYTES]
        if self.transport is None or self._exception is not None:
            self._rest.clear()  # the request was given up
        else:
            self._is_parsing = True
            super().data_received(part)
            self._is_parsing = False
        if not self._rest:
            self._end_rest()
        return bool(self._rest) and (self._loss is not None or not self._reading_paused)

    def _end_rest(self) -> None:
        if self._loss is not None:
            super().connection_lost(*self._loss)
        elif not self._tail:
            self._resume_reading_for_buffer()

    @property
    def should_close(self) -> bool:
        """A rest that follows a response answers no later request."""
        return bool(self._rest) or super().should_close

    def feed_data(self, data: Any, size: int = 0) -> None:
        if self._has_begun:
            self.force_close()  # a second response answers no request
        elif not 100 <= data[0].code < 200 or data[0].code == 101:
            self._has_begun = True
            super().feed_data(data, size)
        else:
            self._count_interim()

    def _count_interim(self) -> None:
        self._interim += 1
        if self._interim > MOST_INTERIM_ANSWERS and self.is_connected():
            self.set_exception(aiohttp.ClientError("too many interim answers"))
            assert self.transport is not None
            self.transport.abort()


def traces(name: str) -> list[aiohttp.TraceConfig]:
    """For a new client session."""
    return [] if trace_with is None else [trace_with(name)]


def guarded_connector(
    guard: AddressGuard, resolve: Resolve, *, tls: ssl.SSLContext | bool = True, keep_alive_seconds: float = 30
) -> aiohttp.TCPConnector:
    """A connector that checks every connection. A connection that is kept alive was checked when it was opened."""
    connector = aiohttp.TCPConnector(
        resolver=_GuardedResolver(guard, resolve),
        use_dns_cache=False,
        socket_factory=guard.socket_for,
        limit=0,
        ssl=tls,
        keepalive_timeout=keep_alive_seconds,
    )
    loop = asyncio.get_running_loop()
    connector._factory = partial(_BoundedAnswers, loop, Parsing(loop))  # type: ignore[assignment]
    return connector
