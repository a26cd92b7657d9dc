"""Opens connections to servers that Relaydeck does not control, and bounds what they can make us do.

The check of an address happens where the connection is made: a name is resolved once, and refused when any of its
addresses is refused, and each address is checked again before a socket is opened for it. No spelling of a host, no
second response of a name server and no literal address bypasses it. The Host header and the TLS name remain those of
the URL. What a server sends is parsed in parts, so that none can hold the event loop.
"""

import asyncio
import errno
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from functools import cache, partial
from ipaddress import ip_address
from typing import TypeVar, cast

from aiohappyeyeballs import start_connection
from yarl import URL

from relaydeck.outgoing.address_guard import AddressGuard, AddressRefused
from relaydeck.process.background import answer_with

Resolve = Callable[[str, int], Awaitable[list[str]]]
LookUp = Callable[[str], list[str]]
P = TypeVar("P", bound="BoundedProtocol")
LOOKUP_SECONDS = 4.0
MOST_LOOKUPS = 512  # at the same time, those of names that hang included
PART_BYTES = 4096  # parsed at once: about a millisecond for chunks or frames of one byte
_TURN_SECONDS = 0.005
_NEXT_ADDRESS_SECONDS = 0.25  # that one address of a name has before the next is tried, too (RFC 8305)


class ConnectionFailure(StrEnum):
    """`NAME = code, what happened`, in words that follow the name of the server."""

    ADDRESS_REFUSED = "address_refused", "has an address that our own guard refuses"
    BAD_URL = "bad_url", "is not a usable URL"
    NAME_NOT_RESOLVED = "name_not_resolved", "has a host name that does not resolve"
    CONNECTION_REFUSED = "connection_refused", "refused the connection"
    NOT_CONNECTED = "not_connected", "cannot be reached"  # no route, network down
    TLS_FAILED = "tls_failed", "failed the TLS handshake"
    TIMED_OUT = "timed_out", "timed out"
    CONNECTION_LOST = "connection_lost", "closed the connection early"
    BAD_ANSWER = "bad_answer", "did not answer in HTTP"

    words: str

    def __new__(cls, code: str, words: str = "") -> "ConnectionFailure":
        failure = str.__new__(cls, code)
        failure._value_, failure.words = code, words
        return failure


class ConnectionFailed(Exception):
    """`is_ours`: this machine has no socket, or no lookup of names, left. That says nothing about the server."""

    def __init__(self, cause: ConnectionFailure, *, is_ours: bool = False) -> None:
        super().__init__(cause.value)
        self.cause = cause
        self.is_ours = is_ours


class ConnectionClosed(ConnectionFailed):
    """The connection ended before any part of the response: a request that only reads can be sent again."""

    def __init__(self) -> None:
        super().__init__(ConnectionFailure.CONNECTION_LOST)


class ResponseTooLarge(Exception):
    """The response is longer than we read."""


_CAUSES = {errno.ECONNREFUSED: ConnectionFailure.CONNECTION_REFUSED, errno.ETIMEDOUT: ConnectionFailure.TIMED_OUT}


def not_connected(error: OSError) -> ConnectionFailed:
    return ConnectionFailed(_CAUSES.get(error.errno or 0, ConnectionFailure.NOT_CONNECTED), is_ours=_is_ours(error))


def _is_ours(error: OSError) -> bool:
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


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
        lookup.add_done_callback(partial(self._end, host))
        work = lookup, partial(self._look_up, host)
        try:
            threading.Thread(target=answer_with, args=work, name="lookup", daemon=True).start()
        except RuntimeError:
            del self._lookups[host]
            raise OSError(errno.ENOBUFS, "no thread is left to resolve names") from None
        return lookup

    def _end(self, host: str, lookup: "asyncio.Future[list[str]]") -> None:
        del self._lookups[host]
        lookup.exception()  # those who waited may have given up


class Opener:
    """Opens guarded connections. Uses nothing of the environment (proxies, .netrc)."""

    def __init__(self, guard: AddressGuard, resolve: Resolve | None = None, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: None trusts the authorities of the system."""
        self._guard = guard
        self._resolve = resolve or NameResolver()
        self._tls = tls
        self.turns = Turns(asyncio.get_running_loop())

    async def open(self, url: URL, make: Callable[[], P]) -> P:
        """Raises `ConnectionFailed`."""
        host, port = url.raw_host, url.port
        if not host or port is None or (host.replace(".", "").isdigit() and not _is_address(host)):
            raise ConnectionFailed(ConnectionFailure.BAD_URL)  # a resolver would read 127.1 as an address
        addresses = await self._addresses(host, port)
        tls = name = None
        if url.scheme in ("https", "wss"):
            tls, name = self._tls or await asyncio.to_thread(system_authorities), host.rstrip(".")
        try:
            infos = [_info(address, port) for address in addresses]
            connected = await start_connection(
                infos,
                happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                interleave=1,
                socket_factory=self._guard.socket_for,
            )
            loop = asyncio.get_running_loop()
            _, protocol = await loop.create_connection(make, sock=connected, ssl=tls, server_hostname=name)
        except AddressRefused as error:
            raise ConnectionFailed(ConnectionFailure.ADDRESS_REFUSED) from error
        except (ssl.SSLError, ssl.CertificateError) as error:
            raise ConnectionFailed(ConnectionFailure.TLS_FAILED) from error
        except OSError as error:
            raise not_connected(error) from error
        return protocol

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = [host] if _is_address(host) else await self._resolve(host, port)
            for address in found:
                self._guard.require(address)  # one refused address refuses the name
        except AddressRefused as error:
            raise ConnectionFailed(ConnectionFailure.ADDRESS_REFUSED) from error
        except OSError as error:
            raise ConnectionFailed(ConnectionFailure.NAME_NOT_RESOLVED, is_ours=_is_ours(error)) from error
        except ValueError as error:  # no name can be spelt like this
            raise ConnectionFailed(ConnectionFailure.BAD_URL) from error
        if not found:
            raise ConnectionFailed(ConnectionFailure.NAME_NOT_RESOLVED)
        return found


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        return bool(ip_address(host.partition("%")[0]))
    return False


def _info(address: str, port: int) -> tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]:
    """As `getaddrinfo` describes it."""
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)


@cache
def system_authorities() -> ssl.SSLContext:
    """In a thread: reading the certificates takes a tenth of a second."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Turns:
    """Shares the event loop between the connections that have received more than one part.

    They take turns, part by part. In one turn of the loop they have a few milliseconds together, then others run:
    a megabyte of chunks or frames of one byte takes a second to parse.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[BoundedProtocol, None] = {}  # in their order

    def add(self, connection: "BoundedProtocol") -> None:
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


class BoundedProtocol(asyncio.Protocol):
    """A connection that parses what it receives in parts."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._rest = bytearray()  # received, not parsed
        self._loss: tuple[Exception | None] | None = None  # how the connection ended, while a rest is parsed
        self._is_usable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own

    @property
    def is_usable(self) -> bool:
        """Whether it can carry another request."""
        return self._is_usable and not self._transport.is_closing()

    def close(self) -> None:
        self._is_usable = False
        self._rest.clear()
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._rest and len(data) <= PART_BYTES:
            self._parse(data)
            return
        self._rest += data
        if not self._transport.is_closing():
            self._transport.pause_reading()
        self._turns.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_usable = False
        if self._rest:
            self._loss = (exc,)
        else:
            self._end(exc)

    def parse_part(self) -> bool:
        """Whether the next part can be parsed, too."""
        part = bytes(self._rest[:PART_BYTES])
        del self._rest[:PART_BYTES]
        self._parse(part)
        if not self._rest:
            if self._loss is not None:
                self._end(*self._loss)
            elif not self._transport.is_closing():
                self._transport.resume_reading()
        return bool(self._rest)

    def _parse(self, data: bytes) -> None:
        raise NotImplementedError

    def _end(self, error: Exception | None) -> None:
        """The connection ended, and all that it received was parsed."""
        raise NotImplementedError
