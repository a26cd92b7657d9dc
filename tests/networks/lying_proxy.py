"""A proxy in front of a real node that changes its answers: a stand-in for a node that is faulty or lies."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import web
from eth_utils.crypto import keccak

from relaydeck.networks.evm import rlp
from relaydeck.networks.evm.header import header_fields

Json = Any
LIES = (
    "lagging", "frozen", "low", "high", "low_tips", "high_tips", "low_forged", "high_forged", "gas", "gas_low", "ahead",
    "slow", "hanging", "rate_limited", "rate_limited_200", "wrong_chain",
)  # fmt: skip
SECRETS = ("sk-live-0f3a", "Bearer eyJhbGciOi", "10.20.30.40")
_SECRET_TEXT = f"upstream http://{SECRETS[2]}/v1?key={SECRETS[0]} refused {SECRETS[1]}"
_REVERT = "0x08c379a0" + f"{32:064x}{3:064x}" + b"lie".hex().ljust(64, "0")
_WILD = {"low": 1, "high": 10**16, "low_forged": 1, "high_forged": 10**16}


class LyingProxy:
    """One lie, told for as long as it runs. It answers over HTTP on loopback, or over a WebSocket."""

    def __init__(self, node: str, lie: str, behind: int = 50, *, websocket: bool = False) -> None:
        self.url = ""
        self._runner = self._make_runner() if websocket else None
        self.requests = 0
        self._node = node
        self._lie = lie
        self._behind = behind
        self._frozen_at: int | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> "LyingProxy":
        connector = aiohttp.TCPConnector(keepalive_timeout=2)  # the node ends connections that are idle for 5 s
        self._http = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(30))
        self._frozen_at = int(await self._ask("eth_blockNumber"), 16)
        if self._runner is not None:
            await self._runner.setup()
            await web.TCPSite(self._runner, "127.0.0.1", 0).start()
            self.url = f"ws://127.0.0.1:{self._runner.addresses[0][1]}"
            return self
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.close()

    def _make_runner(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/", self._serve_websocket)
        return web.AppRunner(app, shutdown_timeout=0.1)

    async def _serve_websocket(self, request: web.Request) -> web.StreamResponse:
        if self._lie == "rate_limited":
            return web.Response(status=429)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            task = asyncio.create_task(self._answer(socket, message.data))  # as a node, without waiting for the last
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return socket

    async def _answer(self, socket: web.WebSocketResponse, text: str) -> None:
        _, body = await self._respond(json.loads(text))
        with suppress(ConnectionError):
            await socket.send_str(json.dumps(body))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                status, body = await self._respond(json.loads(await reader.readexactly(length)))
                raw = json.dumps(body).encode()
                writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # a task of the server that ends in another way is logged as an error
        finally:
            writer.transport.abort()

    async def _respond(self, body: Json) -> tuple[str, Json]:
        self.requests += 1
        if self._lie == "hanging":
            await asyncio.sleep(3600)
        if self._lie == "slow":
            await asyncio.sleep(0.5)
        if self._lie == "rate_limited":
            return "429 Too Many Requests", {"error": "slow down"}
        if self._lie == "http_500_errors" and not isinstance(body, list):
            reply = await self._reply(body)
            return ("500 Internal Server Error" if "error" in reply else "200 OK"), reply
        if isinstance(body, list):
            return "200 OK", [await self._reply(call) for call in body]
        return "200 OK", await self._reply(body)

    async def _reply(self, call: Json) -> Json:
        if self._lie == "rate_limited_200":
            error = {"code": -32005, "message": "daily request count exceeded, request rate limited"}
            return {"jsonrpc": "2.0", "id": call["id"], "error": error}
        body = {**call, "params": await self._older(call["method"], call["params"])}
        reply = await self._post(body)
        if self._lie == "secret_text" and call["method"] in _EXECUTING:
            error = {"code": -32000, "message": _SECRET_TEXT, "data": {"url": _SECRET_TEXT}}
            return {"jsonrpc": "2.0", "id": call["id"], "error": error}
        if self._lie == "false_revert" and call["method"] == "eth_estimateGas":
            error = {"code": 3, "message": "execution reverted: lie", "data": _REVERT}
            return {"jsonrpc": "2.0", "id": call["id"], "error": error}
        if "result" in reply:
            reply["result"] = await self._changed(call["method"], reply["result"], call["params"])
        return reply

    async def _ask(self, method: str, *params: Json) -> Json:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await self._post(body))["result"]

    async def _post(self, body: Json) -> Json:
        async with self._http.post(self._node, json=body) as response:
            return await response.json(content_type=None)

    async def _block(self) -> int | None:
        """The block that this node believes to be the newest; None: the real one."""
        if self._lie == "frozen":
            return self._frozen_at
        if self._lie == "lagging":
            return int(await self._ask("eth_blockNumber"), 16) - self._behind
        return None

    async def _older(self, method: str, params: Json) -> Json:
        block = await self._block()
        if self._lie == "old_state" and method in (*_EXECUTING, "eth_call", "eth_getTransactionCount"):
            older = hex(int(await self._ask("eth_blockNumber"), 16) - self._behind)
            return [older if _is_block(each) else each for each in params]
        if block is None:
            return params
        return [hex(block) if each == "latest" else each for each in params]

    async def _changed(self, method: str, result: Json, params: Json) -> Json:
        change = _CHANGES.get(self._lie)
        if method == "eth_blockNumber" and (block := await self._block()) is not None:
            return hex(block)
        if method == "eth_chainId" and self._lie == "wrong_chain":
            return "0x1"
        if self._lie in _OF_CALLS and method == "eth_call":
            return _OF_CALLS[self._lie](params[0].get("data", ""), result)
        return change(self._lie, method, result) if change else result


def _is_block(param: Json) -> bool:
    return isinstance(param, str) and (param in ("latest", "pending") or len(param) < 20)


def _price(lie: str, method: str, result: Json) -> Json:
    wild = hex(_WILD[lie])
    if method in ("eth_gasPrice", "eth_maxPriorityFeePerGas"):
        return wild
    if method == "eth_feeHistory":
        return _history(result, base=wild, tip=wild)
    if lie.endswith("_forged") and method == "eth_getBlockByNumber":
        return {**result, "baseFeePerGas": wild}  # its hash does not fit any more
    return result


def _tips(lie: str, method: str, result: Json) -> Json:
    wild = "0x0" if lie == "low_tips" else hex(10**16)
    if method == "eth_feeHistory":
        return _history(result, base=None, tip=wild)
    return wild if method in ("eth_gasPrice", "eth_maxPriorityFeePerGas") else result


def _history(result: Json, base: str | None, tip: str) -> Json:
    fees = result["baseFeePerGas"]
    rewards = [[tip for _ in row] for row in result.get("reward") or []]
    return {**result, "baseFeePerGas": [base or each for each in fees], "reward": rewards}


def _gas(lie: str, method: str, result: Json) -> Json:
    wild = hex(2**63 if lie == "gas" else 100)
    if method == "eth_estimateGas":
        return wild
    if method == "eth_simulateV1":
        for block in result:
            for call in block["calls"]:
                call["gasUsed"] = wild
    return result


def _ahead(_: str, method: str, result: Json) -> Json:
    far = hex(2**50)
    if method == "eth_blockNumber":
        return far
    return {**result, "number": far} if method == "eth_getBlockByNumber" else result


def _base_fee(lie: str, method: str, result: Json) -> Json:
    """`base_fee_10`: ten percent more; `_sealed`: with a hash that fits."""
    percent = int(lie.split("_")[2])
    if method == "eth_feeHistory":
        return {**result, "baseFeePerGas": [_more(each, percent) for each in result["baseFeePerGas"]]}
    if method == "eth_getBlockByNumber":
        block = {**result, "baseFeePerGas": _more(result["baseFeePerGas"], percent)}
        return {**block, "hash": sealed(block)} if lie.endswith("_sealed") else block
    return _more(result, percent) if method == "eth_gasPrice" else result


def sealed(block: Json) -> str:
    return "0x" + keccak(rlp.encode(header_fields(block))).hex()


def _more(text: str, percent: int) -> str:
    return hex(int(text, 16) * (100 + percent) // 100)


def _many_tips(_: str, method: str, result: Json) -> Json:
    if method == "eth_feeHistory":
        rewards = [[_more(each, 1900) for each in row] for row in result.get("reward") or []]
        return {**result, "reward": rewards}
    return _more(result, 1900) if method == "eth_maxPriorityFeePerGas" else result


def _more_gas(lie: str, method: str, result: Json) -> Json:
    change: Callable[[str], str] = (lambda text: _more(text, 30)) if lie == "gas_30" else (lambda _: hex(20_000_000))
    if method == "eth_estimateGas":
        return change(result)
    if method == "eth_simulateV1":
        for block in result:
            for call in block["calls"]:
                call["gasUsed"] = change(call["gasUsed"])
    return result


def _revert(_: str, method: str, result: Json) -> Json:
    if method == "eth_simulateV1":
        for block in result:
            for call in block["calls"]:
                error = {"code": 3, "message": "execution reverted: lie", "data": _REVERT}
                call |= {"status": "0x0", "error": error, "returnData": _REVERT}
    return result


def _nonce(_: str, method: str, result: Json) -> Json:
    return "0xf4240" if method == "eth_getTransactionCount" else result


def _twice_the_price(data: str, result: str) -> str:
    if data != "0xfeaf968c":
        return result
    words = [result[2 + 64 * i : 66 + 64 * i] for i in range(5)]
    words[1] = f"{2 * int(words[1], 16):064x}"
    return "0x" + "".join(words)


def _no_l1_fee(data: str, result: str) -> str:
    return "0x" + "00" * 32 if data.startswith(("0x49948e0e", "0xf1c7a58b")) else result


_EXECUTING = ("eth_simulateV1", "eth_estimateGas")
_OF_CALLS: dict[str, Callable[[str, str], str]] = {"feed_2": _twice_the_price, "l1_fee_0": _no_l1_fee}
_CHANGES: dict[str, Callable[[str, str, Json], Json]] = {
    "low": _price,
    "high": _price,
    "low_forged": _price,
    "high_forged": _price,
    "low_tips": _tips,
    "high_tips": _tips,
    "gas": _gas,
    "gas_low": _gas,
    "ahead": _ahead,
    "base_fee_10": _base_fee,
    "base_fee_10_sealed": _base_fee,
    "base_fee_24": _base_fee,
    "tips_20": _many_tips,
    "gas_30": _more_gas,
    "gas_20M": _more_gas,
    "false_revert": _revert,
    "false_nonce": _nonce,
}
