"""Strangers who hold connections to a service for as long as they may: `python -m tests.proofs.strangers PORT COUNT`.

A quarter of them send nothing, a quarter half a request, a quarter requests without reading the
responses, and a quarter requests of which they read a kilobyte of responses each second. A stranger whose connection is
closed opens another one after some seconds.
"""

import argparse
import asyncio
import resource
import socket
from contextlib import suppress

AGAIN_SECONDS = 5.0
AT_A_TIME = 200  # connections that are being opened
HALF = b"GET / HTTP/1.1\r\nX-Slow: "
READ_PER_SECOND = 1024
REQUESTS = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 50


class Strangers:
    def __init__(self, port: int) -> None:
        self._port = port
        self._opening = asyncio.Semaphore(AT_A_TIME)

    async def one(self, number: int) -> None:
        hold = (self._silent, self._half, self._deaf, self._slow)[number % 4]
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await hold()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _silent(self) -> None:
        await self._hold(b"")

    async def _half(self) -> None:
        await self._hold(HALF)

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
        async with self._opening:
            try:
                await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self._port))
            except BaseException:
                connection.close()
                raise
            return await asyncio.open_connection(sock=connection, limit=1024)


async def main(port: int, count: int) -> None:
    strangers = Strangers(port)
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(strangers.one(number))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("count", type=int)
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(given.port, given.count))
