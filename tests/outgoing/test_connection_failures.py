"""Each way an outgoing request can fail has its own words: for nodes, receivers and key systems, over real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network

import pytest

from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import node_guards
from relaydeck.notifications.sender import Sender
from relaydeck.process.background import TaskSet
from relaydeck.settings.model import Settings
from relaydeck.signers.drivers.driver_errors import KeySystemUnreachable
from relaydeck.signers.drivers.http_client import KeySystemClient

LOOPBACK = (ip_network("127.0.0.0/8"),)
SHORT = 0.2
LONG = 20.0  # for what fails by itself

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(talk: Talk) -> AsyncIterator[int]:
    """Every connection is closed before the test ends."""
    tasks = TaskSet()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await talk(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    running = await asyncio.start_server(lambda r, w: tasks.start(handle(r, w)) and None, "127.0.0.1", 0)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        running.close()
        await tasks.join()


async def speak_plain_text(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")


async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def speak_no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"220 mail.example.com ESMTP\r\n")


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@asynccontextmanager
async def failing_url(cause: str) -> AsyncIterator[str]:
    """A URL that fails for this cause and no other."""
    talks = {"tls": speak_plain_text, "silence": stay_silent, "no http": speak_no_http, "hang-up": hang_up}
    if cause == "name":
        yield "https://node.invalid/"
    elif cause == "no route":
        yield "https://224.0.0.1/"  # TCP has no route to a multicast address
    elif cause == "refusal":
        yield f"http://127.0.0.1:{closed_port()}/"
    else:
        async with server(talks[cause]) as port:
            yield f"{'https' if cause == 'tls' else 'http'}://127.0.0.1:{port}/"


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("name", "has a host name that does not resolve"),
        ("tls", "failed the TLS handshake"),
        ("refusal", "refused the connection"),
        ("silence", "timed out"),
        ("no http", "did not answer in HTTP"),
        ("hang-up", "closed the connection early"),
    ],
)
async def test_a_node_that_fails(cause: str, words: str, guarded: bool) -> None:
    client = Client(100_000, node_guards("on" if guarded else "off", LOOPBACK))
    async with failing_url(cause) as url:
        seconds = SHORT if cause == "silence" else LONG
        pool = NodePool([RpcUrl(url)], 1, client, PoolOptions(try_timeout=seconds, deadline=seconds))
        (evidence,) = await pool.probe_each()
        await pool.close()
        await client.close()
    assert (evidence.ok, evidence.error) == (False, words)


@pytest.mark.parametrize(
    ("cause", "word"),
    [
        ("name", "name_not_resolved"),
        ("tls", "tls_failed"),
        ("refusal", "connection_refused"),
        ("silence", "timed_out"),
        ("no http", "bad_answer"),
        ("hang-up", "connection_lost"),
    ],
)
async def test_a_receiver_that_fails(cause: str, word: str) -> None:
    sender = Sender(LOOPBACK, SHORT if cause == "silence" else LONG)
    async with failing_url(cause) as url:
        response = await sender.post(url, {}, b"{}")
        await sender.close()
    assert (response.status, response.problem) == (None, word)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("name", "the key system has a host name that does not resolve"),
        ("no route", "the key system cannot be reached"),
        ("tls", "the key system failed the TLS handshake"),
        ("refusal", "the key system refused the connection"),
        ("no http", "the key system did not answer in HTTP"),
        ("hang-up", "the key system closed the connection early"),
    ],
)
async def test_a_key_system_that_fails(cause: str, words: str) -> None:
    client = KeySystemClient(Settings(), private=True)
    async with failing_url(cause) as url:
        with pytest.raises(KeySystemUnreachable) as failure:
            await client.send("GET", url, {})
        await client.close()
    assert str(failure.value) == words
