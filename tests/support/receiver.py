"""Real receivers on loopback sockets: what they were sent, and how they answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def sequence(self) -> int:
        number: int = json.loads(self.body)["sequence"]
        return number

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answering = Callable[[Received], Awaitable[web.StreamResponse]]


async def accept(_: Received) -> web.StreamResponse:
    return web.Response(status=204)


def answer(status: int, text: str = "", **headers: str) -> Answering:
    async def answering(_: Received) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=text, headers=named)

    return answering


async def hang(_: Received) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


class Receiver:
    """`answering` may be replaced at any time; `got` is everything that arrived, in order."""

    def __init__(self, answering: Answering = accept) -> None:
        self.answering = answering
        self.got: list[Received] = []
        self.connections = 0

    async def start(self, host: str = "127.0.0.1", **options: Any) -> "Receiver":
        server = web.Server(self._handle)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, 0, **options)
        await site.start()
        self.port: int = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self.url = f"http://{host}:{self.port}/hook"
        return self

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = Received(str(request.rel_url), headers, await request.read())
        self.got.append(received)
        return await self.answering(received)

    @property
    def sequences(self) -> list[int]:
        return [each.sequence for each in self.got]

    async def stop(self) -> None:
        await self._runner.cleanup()


class CountingListener:
    """A port that counts connections and never answers."""

    def __init__(self) -> None:
        self.connections = 0

    async def start(self, host: str, port: int = 0) -> "CountingListener":
        self._server = await asyncio.start_server(self._count, host, port)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def _count(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()

    async def stop(self) -> None:
        self._server.close()
