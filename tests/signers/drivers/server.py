"""An HTTP server on loopback that misbehaves on request: the base of the stand-ins, and of the proxy before Vault."""

import asyncio
import os
from abc import ABC, abstractmethod

from aiohttp import web

TOO_LONG = 300_000


class FaultyServer(ABC):
    def __init__(self) -> None:
        self.fault = ""
        self.requests: list[str] = []
        self.most_at_once = 0
        self._under_way = 0
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        server = web.Server(self._handle)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.host = f"127.0.0.1:{self._runner.addresses[0][1]}"
        self.url = f"http://{self.host}"

    async def stop(self) -> None:
        self._stopping.set()
        await self._runner.cleanup()

    @abstractmethod
    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """What the system itself answers."""

    @abstractmethod
    def throttled(self) -> web.Response:
        """How this system refuses more requests."""

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            return await self._answer_or_fail(request, await request.read())
        finally:
            self._under_way -= 1

    async def _answer_or_fail(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        match self.fault:
            case "hang":
                await self._stopping.wait()
            case "garbage":
                return web.Response(body=os.urandom(200), content_type="application/json")
            case "too long":
                return web.Response(body=b"[" * TOO_LONG, content_type="application/json")
            case "unavailable":
                return web.Response(status=503)
            case "throttle":
                return self.throttled()
            case "slow":
                return await _byte_by_byte(request, await self.answer(request, body))
        return await self.answer(request, body)


async def _byte_by_byte(request: web.BaseRequest, answer: web.Response) -> web.StreamResponse:
    slow = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
    await slow.prepare(request)
    assert isinstance(answer.body, bytes)
    for byte in answer.body:
        await slow.write(bytes([byte]))
        await asyncio.sleep(0)
    await slow.write_eof()
    return slow
