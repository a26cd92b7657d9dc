"""Receivers of events on loopback: each a port of its own, all in one event loop; some of them bad on purpose.

As plain as a receiver can be, so that what is measured is how events are brought and not how they are taken.
"""

import asyncio
import re
import socket
import time
from collections.abc import Sequence
from enum import Enum, auto
from typing import cast

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SEQUENCE = re.compile(rb'"sequence":(\d+)')
_RESET = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # linger for no time: closing sends a reset


class Kind(Enum):
    HEALTHY = auto()
    HANGING = auto()
    FAILING = auto()
    RESETTING = auto()


class Receivers:
    """`arrived` tells when each event first came to a healthy one, by the monotonic clock."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self.kinds = kinds
        self.arrived: dict[int, float] = {}
        self.urls: list[str] = []
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> "Receivers":
        loop = asyncio.get_running_loop()
        for kind in self.kinds:
            server = await loop.create_server(lambda kind=kind: _Connection(kind, self.arrived), "127.0.0.1", 0)  # type: ignore[misc]
            self._servers.append(server)
            self.urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook")
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()


class _Connection(asyncio.Protocol):
    def __init__(self, kind: Kind, arrived: dict[int, float]) -> None:
        self._kind = kind
        self._arrived = arrived
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, end, body = self._read.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or length is None or len(body) < int(length[1]):
            return
        self._read = b""
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        match self._kind:
            case Kind.HEALTHY:
                found = _SEQUENCE.search(body)
                assert found is not None
                self._arrived.setdefault(int(found[1]), time.monotonic())
                self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            case Kind.FAILING:
                self._transport.write(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
            case Kind.RESETTING:
                self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                self._transport.abort()
            case Kind.HANGING:
                pass
