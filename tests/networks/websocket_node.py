"""A WebSocket server that answers as a node, or fails in the way that the test sets: a stand-in for faulty nodes."""

import asyncio
import json
import struct
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from aiohttp import WSMsgType, web

CHAIN_ID = 31337


class WebSocketNode:
    """`mood`: healthy, hangs, garbage, huge, floods, pings, pings_first, resets, closes, redirects, http_401 …"""

    def __init__(self, mood: str = "healthy") -> None:
        self.mood = mood
        self.url = ""
        self.connections = 0
        self.messages = 0
        self.poison = ""
        self.headers: list[dict[str, str]] = []
        self._sockets: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "WebSocketNode":
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"ws://127.0.0.1:{port}/v2/secret-key"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drop_connections()
        assert self._runner is not None
        await self._runner.cleanup()

    async def drop_connections(self) -> None:
        for socket in list(self._sockets):
            await socket.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.connections += 1
        self.headers.append(dict(request.headers))
        if self.mood.startswith("http_"):
            return web.Response(status=int(self.mood[5:]), headers={"Retry-After": "7"})
        if self.mood == "redirects":
            return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})
        socket = web.WebSocketResponse(autoping=self.mood != "pings_first")
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            async for message in socket:
                if self.mood == "pings_first" and message.type is WSMsgType.TEXT:
                    await socket.ping(message.data.encode()[:125])
                    asked = message.data
                elif self.mood == "pings_first":
                    assert (message.type, message.data) == (WSMsgType.PONG, asked.encode()[:125])
                    await self._answer(socket, asked)
                elif message.type is WSMsgType.TEXT and not await self._answer(socket, message.data):
                    break
        finally:
            self._sockets.discard(socket)
        return socket

    async def _answer(self, socket: web.WebSocketResponse, text: str) -> bool:
        self.messages += 1
        if self.mood == "hangs":
            await asyncio.sleep(3600)
        if self.mood == "closes" or (self.poison and self.poison in text):
            return False
        while self.mood == "floods":
            await socket.send_str('{"jsonrpc":"2.0","method":"eth_subscription","params":{}}')
        while self.mood == "pings":
            await socket.ping()
            await asyncio.sleep(0)  # a ping does not wait for its client
        if self.mood == "resets":
            for _ in range(3):  # the client notices with the second answer
                await socket.ping()
            _reset(socket)
            return False
        if self.mood in ("garbage", "huge"):
            await socket.send_str("<html>" if self.mood == "garbage" else " " * 2_000_000)
            return True
        body = json.loads(text)
        replies = [self._reply(call) for call in (body if isinstance(body, list) else [body])]
        await socket.send_str(json.dumps(replies if isinstance(body, list) else replies[0]))
        return True

    def _reply(self, call: Any) -> dict[str, Any]:
        results: dict[str, Any] = {
            "eth_chainId": hex(1 if self.mood == "wrong_chain" else CHAIN_ID),
            "eth_getBlockByNumber": {"number": "0x64", "baseFeePerGas": "0x64", "gasLimit": "0x1c9c380"},
            "eth_blockNumber": "0x64",
            "eth_gasPrice": "0x6e",
        }
        return {"jsonrpc": "2.0", "id": call["id"], "result": results[call["method"]]}


def _reset(socket: web.WebSocketResponse) -> None:
    """The client receives the pings and cannot answer them."""
    connected = socket._req.transport.get_extra_info("socket")  # type: ignore[union-attr]
    connected.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    socket._req.transport.abort()  # type: ignore[union-attr]
