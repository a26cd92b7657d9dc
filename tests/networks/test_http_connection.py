"""What a node may send over HTTP, and what becomes of the request and of the connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from relaydeck.networks.evm.connections import Connections
from relaydeck.networks.evm.endpoint import Response
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.model import RpcUrl

LIMIT = 1000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
LOST = "closed the connection early"
NOT_HTTP = "did not answer in HTTP"
TOO_LARGE = f"answered more than {LIMIT} bytes"


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
async def node_with(*responses: bytes | None) -> AsyncIterator[tuple[ScriptedNode, Connections, RpcUrl]]:
    node, clients = ScriptedNode(*responses), set[asyncio.Task[None]]()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.add(asyncio.create_task(node.serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    connections = Connections(LIMIT, None)
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
async def test_a_response_leaves_its_connection_for_the_next_request(response: bytes) -> None:
    assert await answers(response, response) == ([Response(200, b"ok")] * 2, 1)


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
async def test_a_response_after_which_the_connection_is_not_used_again(response: bytes) -> None:
    assert await answers(response, response) == ([Response(200, b"ok")] * 2, 2)


async def test_a_response_of_undeclared_length_ends_with_its_connection() -> None:
    response = b"HTTP/1.1 200 OK\r\n\r\nok" + END
    assert await answers(response, response) == ([Response(200, b"ok" + END)] * 2, 2)


async def test_a_response_in_parts_of_any_size_is_read_whole() -> None:
    body = b"x" * LIMIT
    whole = b"HTTP/1.1 200 OK\r\nX-Long: %b\r\nContent-Length: %d\r\n\r\n%b" % (b"y" * 20_000, LIMIT, body)
    assert await answers(whole, whole) == ([Response(200, body)] * 2, 1)


async def test_the_time_to_wait_is_read() -> None:
    response = b"HTTP/1.1 429 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
    assert await answers(response, requests=1) == ([Response(429, b"", 7.0)], 1)


async def test_a_connection_that_the_node_closed_is_replaced_once() -> None:
    assert await answers(OK, None, OK) == ([Response(200, b"ok")] * 2, 2)
    assert await answers(None, None, requests=1) == ([LOST], 2)


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
    ],
)
async def test_what_is_not_a_response_fails_its_request_and_closes_the_connection(
    response: bytes, problem: str
) -> None:
    assert await answers(response, OK) == ([problem, Response(200, b"ok")], 2)


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
