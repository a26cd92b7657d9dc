"""Strangers who hold connections to a service for as long as they may: `python -m tests.proofs.strangers PORT COUNT`.

A quarter of them send nothing, a quarter half a request or TLS handshake, a quarter requests without reading the
responses, and a quarter requests of which they read a kilobyte of responses each second. A stranger whose connection is
closed opens another one after some seconds.
"""

import argparse
import asyncio
import resource
import socket
import ssl
from contextlib import suppress

AGAIN_SECONDS = 5.0
AT_A_TIME = 200  # connections that are being opened
HALF = {False: b"GET / HTTP/1.1\r\nX-Slow: ", True: b"\x16\x03\x01\x02\x00\x01\x00"}
READ_PER_SECOND = 1024
REQUESTS = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 50


class Strangers:
    def __init__(self, port: int, *, tls: bool) -> None:
        self._port = port
        self._tls = tls
        self._opening = asyncio.Semaphore(AT_A_TIME)
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    async def one(self, number: int) -> None:
        hold = (self._silent, self._half, self._deaf, self._slow)[number % 4]
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await hold()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _silent(self) -> None:
        await self._hold(b"")

    async def _half(self) -> None:
        await self._hold(HALF[self._tls])

    async def _hold(self, sent: bytes) -> None:
        async with self._opening:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(sent)
        try:
            await reader.readexactly(1)
        finally:
            writer.transport.abort()

    async def _deaf(self) -> None:
        """The reader's buffer has a bound: beyond it nothing is read."""
        _, writer = await self._connect()
        try:
            while not writer.is_closing():
                writer.write(REQUESTS)
                await writer.drain()
                await asyncio.sleep(1)
        finally:
            writer.transport.abort()

    async def _slow(self) -> None:
        reader, writer = await self._connect()
        try:
            writer.write(REQUESTS)
            while await reader.read(READ_PER_SECOND):
                await asyncio.sleep(1)
        finally:
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """With small buffers, so that the service notices what is not read."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        context, name = (self._context, "localhost") if self._tls else (None, None)
        async with self._opening:
            try:
                await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self._port))
            except BaseException:
                connection.close()
                raise
            reader, writer = await asyncio.open_connection(
                sock=connection, ssl=context, server_hostname=name, limit=1024
            )
        if self._tls:  # it would read half a megabyte ahead
            writer.transport.set_read_buffer_limits(high=4096, low=1024)  # type: ignore[attr-defined]
        return reader, writer


async def main(port: int, count: int, *, tls: bool) -> None:
    strangers = Strangers(port, tls=tls)
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(strangers.one(number))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--tls", action="store_true")
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(given.port, given.count, tls=given.tls))
