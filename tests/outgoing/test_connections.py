"""What a server can do to us with its answers, and a name server with its silence."""

import asyncio
import errno
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address, ip_network

import pytest
from yarl import URL

from relaydeck.networks.evm.client import Client
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import UNGUARDED
from relaydeck.outgoing import connections as outgoing_connections
from relaydeck.outgoing import http_client
from relaydeck.outgoing.address_guard import ANYWHERE, AddressGuard
from relaydeck.outgoing.connections import ConnectionFailed, ConnectionFailure, NameResolver, Opener
from relaydeck.outgoing.http_client import HttpClient, Limits, Response
from tests.proofs.flooding_peer import upgrade

LOOPBACK = ANYWHERE
LIMITS = Limits(1 << 20)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
FINAL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
METADATA = [
    "169.254.169.254",
    "169.254.0.1",
    "168.63.129.16",
    "100.100.100.200",
    "fe80::1",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::ffff:0:169.254.169.254",
    "64:ff9b:1::a9fe:a9fe",
    "fd00:64::a9fe:a9fe",
    "2001:0:a9fe:a9fe::1",
    "2a00:1450::5efe:a9fe:a9fe",
    "192.0.0.192",
    "fd00:42::42",
    "fd00:c1::a9fe:a9fe",
]


@asynccontextmanager
async def answering(send: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[URL]:
    """A server that reads the head of a request and then sends what the test wants."""

    clients: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                await send(writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    yield URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    server.close()
    await asyncio.gather(*clients)


@asynccontextmanager
async def client_with(limits: Limits = LIMITS) -> AsyncIterator[HttpClient]:
    client = HttpClient(Opener(LOOPBACK), limits, {})
    yield client
    await client.close()


async def test_endless_interim_answers_are_given_up() -> None:
    sent = 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while not writer.is_closing():
            writer.write(INTERIM * 10_000)
            sent += 10_000
            await writer.drain()

    async with answering(flood) as url, client_with() as client:
        with pytest.raises(ConnectionFailed) as error:
            await client.send("GET", url, {})
    assert error.value.cause == ConnectionFailure.BAD_ANSWER
    assert sent < 1_000_000  # the server was cut off; without a bound it sends as long as it likes


async def test_a_few_interim_answers_before_the_response_are_skipped() -> None:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(INTERIM * 8 + FINAL)

    async with answering(send) as url, client_with() as client:
        for _ in range(3):  # the bound applies to each response of a kept connection
            assert await client.send("GET", url, {}) == Response(200, b"ok")


async def test_a_body_that_ends_with_the_connection_arrives_whole() -> None:
    body = b"x" * 1_000_000

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)
        writer.close()

    async with answering(send) as url, client_with() as client:
        assert await client.send("GET", url, {}) == Response(200, body)


async def test_what_follows_a_response_answers_no_later_request() -> None:
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue" + forged * 2000)

    async with answering(send) as url, client_with() as client:
        for _ in range(3):
            assert (await client.send("GET", url, {})).body == b"true"


async def test_the_beginning_of_a_response_is_enough_where_it_may_be_cut() -> None:
    """Of one that is too long, that does not end, and that breaks off."""
    ends: list[bytes] = [b"x" * 20, b"", b"gone"]

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin" + (end := ends.pop(0)))
        if end == b"gone":
            writer.close()

    async with answering(send) as url, client_with(Limits(10, cut_seconds=0.05)) as client:
        found = [await client.send("GET", url, {}) for _ in range(3)]
    assert [each.body for each in found] == [b"beginxxxxx", b"begin", b"begingone"]


async def test_no_header_begins_another_line() -> None:
    async with client_with() as client:
        with pytest.raises(ValueError, match="a header has a line break"):
            await client.send("GET", URL("http://127.0.0.1:9/"), {"X": "a\r\nHost: other"})


async def test_servers_without_a_connection_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_MOST_SERVERS", 3)
    async with client_with() as client:
        for port in range(1, 6):
            with pytest.raises(ConnectionFailed):
                await client.send("GET", URL(f"http://127.0.0.1:{port}/"), {})
        assert len(client._servers) == 2


async def count_turns(turns: list[int]) -> None:
    while True:
        await asyncio.sleep(0)
        turns[0] += 1


async def test_a_response_in_chunks_of_one_byte_is_parsed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run between two parts when the time of a turn is used up."""
    monkeypatch.setattr(outgoing_connections, "_TURN_SECONDS", 0.0)
    chunks = b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)

    turns = [0]
    counting = asyncio.create_task(count_turns(turns))
    async with answering(send) as url, client_with() as client:
        assert (await client.send("GET", url, {})).body == b"x" * 20_000
    counting.cancel()
    assert turns[0] >= len(chunks) // outgoing_connections.PART_BYTES


async def test_frames_that_arrive_with_the_handshake_keep_their_order() -> None:
    texts = [f'{{"id":{number},"x":"{"x" * 3000}"}}' for number in range(20)]
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        frames = b"".join(b"\x81\x7e" + len(text).to_bytes(2, "big") + text.encode() for text in texts)
        writer.write(upgrade(request))
        await reader.readexactly(2)  # of the first question
        writer.write(frames)
        await reader.read()
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = RpcUrl(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    connections = Client(1 << 20, UNGUARDED)
    async with server:
        found = await asyncio.gather(*(connections.send(url, b"{}", [number]) for number in range(20)))
        await connections.close()
        await ended.wait()
    assert [each.body.decode() for each in found] == texts


async def test_a_long_body_after_interim_answers_arrives_whole() -> None:
    body = b"x" * 300_000

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(INTERIM + b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async with answering(send) as url, client_with() as client:
        assert (await client.send("GET", url, {})).body == body


# Names


class HangingNames:
    """Looks up names: those that begin with `hangs` block until the end of the test."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._released = threading.Event()

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if host.startswith("hangs"):
            self._released.wait(60)
        return ["127.0.0.9"]

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def names() -> Iterator[HangingNames]:
    made = HangingNames()
    yield made
    made.release()


async def test_forty_names_that_hang_do_not_delay_another_name(names: HangingNames) -> None:
    resolver = NameResolver(names)
    waiting = [asyncio.ensure_future(resolver(f"hangs-{number}.test", 80)) for number in range(40)]
    await asyncio.sleep(0)
    assert await resolver("healthy.test", 80) == ["127.0.0.9"]
    assert not any(each.done() for each in waiting)
    names.release()
    assert await asyncio.gather(*waiting) == [["127.0.0.9"]] * 40


async def test_requests_for_a_name_that_hangs_share_one_lookup(names: HangingNames) -> None:
    resolver = NameResolver(names)
    waiting = [asyncio.ensure_future(resolver("hangs.test", 80)) for _ in range(100)]
    await asyncio.sleep(0)
    names.release()
    assert await asyncio.gather(*waiting) == [["127.0.0.9"]] * 100
    assert names.asked == ["hangs.test"]


async def test_a_name_resolves_again_after_no_thread_was_left(
    names: HangingNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    resolver = NameResolver(names)
    with monkeypatch.context() as exhausted, pytest.raises(OSError, match="no thread is left"):
        exhausted.setattr(threading.Thread, "start", start)
        await resolver("healthy.test", 80)
    assert await resolver("healthy.test", 80) == ["127.0.0.9"]


def test_a_request_line_has_no_blanks_and_control_characters() -> None:
    with pytest.raises(ValueError, match="a blank or a control character"):
        http_client.request_head("GET", URL("http://a.test/x HTTP/1.1\x0b", encoded=True), {})


async def test_a_lookup_has_a_time_limit_of_its_own(names: HangingNames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing_connections, "LOOKUP_SECONDS", 0.01)
    with pytest.raises(OSError, match="the name does not resolve in time"):
        await NameResolver(names)("hangs.test", 80)


async def test_the_number_of_lookups_is_bounded(names: HangingNames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing_connections, "MOST_LOOKUPS", 3)
    resolver = NameResolver(names)
    waiting = [asyncio.ensure_future(resolver(f"hangs-{number}.test", 80)) for number in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="too many names are being resolved") as failure:
        await resolver("one-more.test", 80)
    assert failure.value.errno == errno.ENOBUFS
    names.release()
    await asyncio.gather(*waiting)
    assert await resolver("one-more.test", 80) == ["127.0.0.9"]


async def test_nodes_with_names_that_hang_do_not_delay_another_node(
    names: HangingNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(host: str, port: int | None, *_: object, **__: object) -> list[object]:
        names(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port or 0))]

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(FINAL)

    async with answering(send) as url:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(outgoing_connections, "LOOKUP_SECONDS", 60.0)  # a busy machine is not a fault
        healthy = str(url).replace("127.0.0.1", "healthy.test")
        connections = Client(1 << 20, UNGUARDED)
        waiting = [
            asyncio.ensure_future(connections.send(RpcUrl(healthy.replace("healthy", f"hangs-{number}")), b"{}", [1]))
            for number in range(40)
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(20):  # less than the names hang
            assert (await connections.send(RpcUrl(healthy), b"{}", [1])).body == b"ok"
        assert not any(each.done() for each in waiting)
        names.release()
        assert [each.body for each in await asyncio.gather(*waiting)] == [b"ok"] * 40
        await connections.close()


# Metadata addresses


@pytest.mark.parametrize("address", METADATA)
def test_link_local_and_metadata_addresses_are_refused_with_the_guard_off(address: str) -> None:
    assert not ANYWHERE.permits(ip_address(address))


@pytest.mark.parametrize("address", METADATA)
def test_a_wide_allow_list_does_not_include_metadata_addresses(address: str) -> None:
    assert not AddressGuard([ip_network("0.0.0.0/0"), ip_network("::/0")]).permits(ip_address(address))


@pytest.mark.parametrize("address", METADATA)
def test_an_allow_list_that_names_a_metadata_address_does_not_include_it(address: str) -> None:
    assert not AddressGuard([ip_network(address)]).permits(ip_address(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "192.168.1.1", "::1", "fd12::1", "8.8.8.8"])
def test_private_addresses_are_permitted_with_the_guard_off(address: str) -> None:
    assert ANYWHERE.permits(ip_address(address))
