"""A node that fails in every way a node can: a real HTTP server on loopback, in the mood the test sets."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

CHAIN_ID = 31337
WORD = 64

MOODS = (
    "hangs", "half_closed", "wrong_chain", "wrong_id", "wrong_type", "garbage", "huge", "endless",
    "http_429", "http_500", "limit_exceeded", "closes", "redirects", "not_http", "gzip",
)  # fmt: skip


class FaultNode:
    """`mood` may be changed at any time; "healthy" and "no_batch" answer, the others fail."""

    def __init__(self, mood: str = "healthy") -> None:
        self.mood = mood
        self.calls: Counter[str] = Counter()
        self.requests = 0
        self.block = 100
        self.delay = 0.0
        self.slow_method: str | None = None  # which one the delay is for, None for every one
        self.answers: dict[str, Any] = {}  # by method, method and selector, or method, selector and address
        self.largest_batch: int | None = None  # a larger one is refused
        self.refused_address = ""  # questions about it get an error
        self.raw: dict[str, tuple[str, bytes, str]] = {}  # by method: status line, body (%ID% is the id), headers
        self.poison = ""  # requests that contain it get the raw answer "poison"
        self.url = ""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, backlog=1024)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v2/secret-key"

    async def stop(self) -> None:
        """Refuses connections from now on, and ends those there are."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                self.requests += 1
                if not await self._answer(body, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _answer(self, body: Any, writer: asyncio.StreamWriter) -> bool:
        for call in body if isinstance(body, list) else [body]:
            self.calls[call["method"]] += 1
        mood = self.mood
        if mood == "hangs":
            await asyncio.sleep(3600)
        if mood == "half_closed":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n{")
            writer.write_eof()
            await asyncio.sleep(3600)
        if mood == "closes":
            return False
        if mood == "not_http":
            writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
            return False
        if mood in ("huge", "endless"):
            return await self._flood(writer, mood == "endless")
        if self.delay and (self.slow_method is None or self.slow_method == _method(body)):
            await asyncio.sleep(self.delay)
        status, raw, more = self._response(mood, body)
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n{more}\r\n"
        writer.write(head.encode() + raw)
        return True

    async def _flood(self, writer: asyncio.StreamWriter, slowly: bool) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            chunk = b" " if slowly else b" " * 65536
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
            await asyncio.sleep(0.02 if slowly else 0)

    def _response(self, mood: str, body: Any) -> tuple[str, bytes, str]:
        if mood == "http_429":
            return "429 Too Many Requests", b"slow down", "retry-after: 1\r\n"
        if mood == "http_500":
            return "500 Oops", b"{}", ""
        if mood == "redirects":
            return "302 Found", b"", "location: http://127.0.0.1:1/\r\n"
        if mood == "garbage":
            return "200 OK", b"<html>welcome</html>", ""
        if mood == "gzip":
            return "200 OK", b"\x1f\x8b\x08\x00broken", "content-encoding: gzip\r\n"
        if found := self._raw_answer(body):
            return found
        too_large = isinstance(body, list) and self.largest_batch is not None and len(body) > self.largest_batch
        if too_large or (isinstance(body, list) and mood.startswith("no_batch")):
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no batches here"}}
            status = {"no_batch_403": "403 Forbidden", "no_batch_500": "500 Oops"}.get(mood, "200 OK")
            return status, json.dumps([error] if mood == "no_batch_list" else error).encode(), ""
        replies = [self._reply(mood, call) for call in (body if isinstance(body, list) else [body])]
        return "200 OK", json.dumps(replies if isinstance(body, list) else replies[0]).encode(), ""

    def _raw_answer(self, body: Any) -> tuple[str, bytes, str] | None:
        """What this node sends byte for byte for a method, or for a request with the poison in it."""
        if isinstance(body, list):
            return None
        key = "poison" if self.poison and self.poison in json.dumps(body) else body["method"]
        if key not in self.raw:
            return None
        status, raw, headers = self.raw[key]
        return status, raw.replace(b"%ID%", str(body["id"]).encode()), headers

    def _reply(self, mood: str, call: Any) -> dict[str, Any]:
        if mood == "limit_exceeded":
            return {
                "jsonrpc": "2.0",
                "id": call["id"],
                "error": {"code": -32005, "message": "limit exceeded"},
            }
        if mood == "wrong_type" and call["method"] not in ("eth_chainId", "eth_getBlockByNumber"):
            return {"jsonrpc": "2.0", "id": call["id"], "result": True}
        number = call["id"] + 7 if mood == "wrong_id" else call["id"]
        answer = self._result(mood, call["method"], call["params"])
        if isinstance(answer, dict) and "code" in answer:
            return {"jsonrpc": "2.0", "id": number, "error": answer}
        return {"jsonrpc": "2.0", "id": number, "result": answer}

    def _result(self, mood: str, method: str, params: Any) -> Any:
        if self.refused_address and self.refused_address in params:
            return {"code": -32000, "message": "not this one"}
        call = params[0] if method == "eth_call" else {"data": "", "to": ""}
        selector = call["data"][:10]
        for key in (f"{method} {selector} {call['to']}", f"{method} {selector}", method):
            if key in self.answers:
                return self.answers[key]
        if method == "eth_chainId":
            return hex(1 if mood == "wrong_chain" else CHAIN_ID)
        if method == "eth_blockNumber":
            return hex(self.block)
        if method == "eth_getBlockByNumber":
            return {"number": hex(self.block), "baseFeePerGas": "0x64", "gasLimit": "0x1c9c380"}
        if method == "eth_feeHistory":
            return {
                "oldestBlock": hex(self.block - 1),
                "baseFeePerGas": ["0x64", "0x64", "0x64"],
                "gasUsedRatio": [0.5, 0.5],
                "reward": [["0xa"], ["0xa"]],
            }
        return {"eth_estimateGas": "0x5208", "eth_gasPrice": "0x6e", "eth_getTransactionCount": "0x0"}.get(
            method, {"code": -32601, "message": "the method does not exist"}
        )


def _method(body: Any) -> str | None:
    return body["method"] if isinstance(body, dict) else None


def words(*numbers: int) -> str:
    """ABI-encoded integers, as `eth_call` returns them."""
    return "0x" + "".join((number % (1 << 256)).to_bytes(32, "big").hex() for number in numbers)


@asynccontextmanager
async def fault_nodes(*moods: str) -> AsyncIterator[list[FaultNode]]:
    nodes = [FaultNode(mood) for mood in moods]
    for node in nodes:
        await node.start()
        if node.mood == "dead":
            await node.stop()
    try:
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


N = TypeVar("N", bound=FaultNode)


@asynccontextmanager
async def started(node: N) -> AsyncIterator[N]:
    await node.start()
    yield node
    await node.stop()
