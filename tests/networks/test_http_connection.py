"""What a node may send over HTTP, and what becomes of the request and of the connection."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import UNGUARDED
from relaydeck.outgoing.http_client import Response
from tests.support.tls import self_signed

LIMIT = 1000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
LOST = "closed the connection early"
NOT_HTTP = "did not answer in HTTP"
TOO_LARGE = f"answered more than {LIMIT} bytes"


Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """The service runs on uvloop, its commands on asyncio."""
    found: Run = request.param
    return found


class ScriptedNode:
    """Sends the next of its responses for each request, and closes the connection where one is None."""

    def __init__(self, *responses: bytes | None) -> None:
        self.responses = list(responses)
        self.connections = 0
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writer = writer
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head + await reader.readexactly(int(head.lower().split(b"content-length: ")[1])))
                response = self.responses.pop(0)
                if response is None:
                    break
                writer.write(response)
                await writer.drain()
                if response.endswith(END):
                    break
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


END = b" and the end"


@asynccontextmanager
async def node_with(*responses: bytes | None) -> AsyncIterator[tuple[ScriptedNode, Client, RpcUrl]]:
    node, clients = ScriptedNode(*responses), set[asyncio.Task[None]]()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.add(asyncio.create_task(node.serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    connections = Client(LIMIT, UNGUARDED)
    try:
        yield node, connections, RpcUrl(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/key?a=b")
    finally:
        await connections.close()
        server.close()
        await asyncio.gather(*clients)


async def answers(*responses: bytes | None, requests: int = 2) -> tuple[list[Response | str], int]:
    """Of each request, the response or the failure; and how many connections they took."""
    found: list[Response | str] = []
    async with node_with(*responses) as (node, connections, url):
        for _ in range(requests):
            try:
                found.append(await connections.send(url, b"{}", (1,)))
            except UrlFailed as failure:
                found.append(failure.reason)
        return found, node.connections


@pytest.mark.parametrize(
    "response",
    [
        OK,
        CHUNKED,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 8 + OK,
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + CHUNKED,
    ],
)
def test_a_response_leaves_its_connection_for_the_next_request(run: Run, response: bytes) -> None:
    assert run(answers(response, response)) == ([Response(200, b"ok")] * 2, 1)


async def test_a_request_has_the_path_the_headers_and_the_body() -> None:
    async with node_with(OK) as (node, connections, url):
        await connections.send(url, b'{"id":1}', (1,))
        head, _, body = node.requests[0].partition(b"\r\n\r\n")
    line, *headers = head.split(b"\r\n")
    assert line == b"POST /key?a=b HTTP/1.1"
    assert {b"Content-Type: application/json", b"Content-Length: 8"} <= set(headers)
    assert body == b'{"id":1}'


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + OK,
        OK + b"x" * 10_000,
        OK + b" " * 5_000 + OK,
    ],
)
def test_a_response_after_which_the_connection_is_not_used_again(run: Run, response: bytes) -> None:
    assert run(answers(response, response)) == ([Response(200, b"ok")] * 2, 2)


def test_a_response_of_undeclared_length_ends_with_its_connection(run: Run) -> None:
    response = b"HTTP/1.1 200 OK\r\n\r\nok" + END
    assert run(answers(response, response)) == ([Response(200, b"ok" + END)] * 2, 2)


def test_a_response_in_parts_of_any_size_is_read_whole(run: Run) -> None:
    body = b"x" * LIMIT
    whole = b"HTTP/1.1 200 OK\r\nX-Long: %b\r\nContent-Length: %d\r\n\r\n%b" % (b"y" * 20_000, LIMIT, body)
    assert run(answers(whole, whole)) == ([Response(200, body)] * 2, 1)


def test_the_time_to_wait_is_read(run: Run) -> None:
    response = b"HTTP/1.1 429 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
    assert run(answers(response, requests=1)) == ([Response(429, b"", "7")], 1)


def test_a_connection_that_the_node_closed_is_replaced_once(run: Run) -> None:
    assert run(answers(OK, None, OK)) == ([Response(200, b"ok")] * 2, 2)
    assert run(answers(None, None, requests=1)) == ([LOST], 2)


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nok" + END, LOST),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n" + END, LOST),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", NOT_HTTP),
        (b"SSH-2.0-OpenSSH_9\r\n", NOT_HTTP),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + END, NOT_HTTP),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 9 + OK, NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001, TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1001, TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 80_000, TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"x" * 80_000, TOO_LARGE),
    ],
)
def test_what_is_not_a_response_fails_its_request_and_closes_the_connection(
    run: Run, response: bytes, problem: str
) -> None:
    assert run(answers(response, OK)) == ([problem, Response(200, b"ok")], 2)


async def test_a_request_that_nobody_waits_for_closes_its_connection() -> None:
    async with node_with(b"", OK) as (node, connections, url):
        waiting = asyncio.create_task(connections.send(url, b"{}", (1,)))
        while not node.requests:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await connections.send(url, b"{}", (2,)) == Response(200, b"ok")
        assert node.connections == 2


async def test_a_request_to_a_url_that_is_dropped_meanwhile_is_answered() -> None:
    async with node_with(b"HTTP/1.1 200 OK\r\n", OK) as (node, connections, url):
        waiting = asyncio.create_task(connections.send(url, b"{}", (1,)))
        while not node.requests:
            await asyncio.sleep(0)
        await connections.drop([url])
        node.writer.write(b"Content-Length: 2\r\n\r\nok")
        assert await waiting == Response(200, b"ok")
        assert await connections.send(url, b"{}", (2,)) == Response(200, b"ok")
        assert node.connections == 2


async def test_a_request_ends_when_the_connections_are_closed() -> None:
    async with node_with(b"") as (node, connections, url):
        waiting = asyncio.create_task(connections.send(url, b"{}", (1,)))
        while not node.requests:
            await asyncio.sleep(0)
        await connections.close()
        with pytest.raises(UrlFailed):
            await waiting


OVER_TLS = """
import asyncio, ssl, sys, uvloop
from tests.networks.test_http_connection import OK, ScriptedNode
from relaydeck.networks.node_rule import UNGUARDED
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.model import RpcUrl

async def main(certificate, key):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(ScriptedNode(OK, OK, b"g" * 5000).serve, "127.0.0.1", 0, ssl=context)
    url = RpcUrl(f"https://localhost:{server.sockets[0].getsockname()[1]}/")
    connections = Client(1000, UNGUARDED)
    print([await connections.send(url, b"{}", (1,)) for _ in range(2)])
    try:
        await connections.send(url, b"{}", (1,))
    except UrlFailed as failure:
        print(failure.reason)
    await connections.close()

(uvloop if sys.argv[1] == "uvloop" else asyncio).run(main(*sys.argv[2:]))
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_node_is_asked_over_tls(loop: str, tmp_path: Path) -> None:
    """In a process of its own, because the certificates that are trusted are read once."""
    certificate, key = self_signed(tmp_path)
    command = [sys.executable, "-c", OVER_TLS, loop, str(certificate), str(key)]
    env = os.environ | {"SSL_CERT_FILE": str(certificate)}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout == f"{[Response(200, b'ok')] * 2}\n{NOT_HTTP}\n"
    assert "Turns" not in ran.stderr  # where it would have stopped for every other connection
