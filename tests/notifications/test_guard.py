"""Receivers cannot be used against us: no spelling of an address that is not public is connected to."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from relaydeck.address_guard import AddressGuard
from relaydeck.notifications.retries import ReceiverResponse
from relaydeck.notifications.sender import Sender
from relaydeck.outgoing_connections import NameResolver
from tests.notifications.certificates import make_certificate
from tests.notifications.name_server import NameServer
from tests.notifications.receiver import CountingListener, Receiver, answer

LOOPBACK_2 = (ip_network("127.0.0.2/32"),)

NAMES = {
    "internal.test": ["10.0.0.5"],
    "loopback.test": ["127.0.0.1"],
    "mixed.test": ["93.184.216.34", "127.0.0.1"],
    "mixed6.test": ["2606:2800:220:1:248:1893:25c8:1946", "::1"],
    "zone.test": ["fe80::1%lo"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "nat64.test": ["64:ff9b::7f00:1"],
    "metadata.test": ["169.254.169.254"],
    "nowhere.test": [],
}

# Every one with {port} appended, where something listens on every address of this machine.
HOSTS = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "0177.0.0.01",
    "0x7f.0.0.1",
    "0x7f.0x0.0x0.0x1",
    "0x7f000001",
    "0X7F000001",
    "00000177.1",
    "127.0x0.1",
    "0",
    "0.0.0.0",
    "00.0.0.0",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "LocalHost.",
    "１２７.０.０.１",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "127．0．0．1",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "127%2e0%2e0%2e1",
    "%6c%6f%63alhost",
    "127.0.0.1%00.example.com",
    "example.com@127.0.0.1",
    "user:password@127.0.0.1",
    "127.0.0.1:1@127.0.0.1",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::1%25lo]",
    "[::1%lo]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:127.0.0.1]",
    "[0:0:0:0:0:ffff:7f00:0001]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:7f00:0001::1]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "[2a00:1450::5efe:7f00:1]",
    "[2a00:1450::200:5efe:127.0.0.1]",
    "[fe80::1]",
    "[fe80::1%25lo]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[100::1]",
    "[2001:db8::1]",
    "[5f00::1]",
    "[v1.127.0.0.1]",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "100.64.0.1",
    "100.127.255.254",
    "100.100.100.200",
    "169.254.169.254",
    "169.254.169.254.",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    *NAMES,
]
URLS = [
    *(f"http://{host}:{{port}}/" for host in HOSTS),
    "https://127.0.0.1:{port}/",
    "https://[::1]:{port}/",
    "https://localhost:{port}/",
    "http://127.0.0.1:{port}#@example.com/",
    "http://127.0.0.1:{port}?@example.com/",
    "http://127.0.0.1:{port}\\@example.com/",
    "http://127.0.0.1:{port} @example.com/",
    "http://127.0.0.1\t:{port}/",
    "http:127.0.0.1:{port}/",
    "http:/127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "ftp://127.0.0.1:{port}/",
    "gopher://127.0.0.1:{port}/",
    "ws://127.0.0.1:{port}/",
    "file:///etc/passwd",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "http://127.0.0.1:0x50/",
]

NEVER_CONNECTED = {"address_refused", "bad_url", "name_not_resolved"}


class Connects:
    """Every address this process asks the system to connect a stream to, seen by Python's audit hook."""

    def __init__(self) -> None:
        self.watching = False
        self.seen: list[Any] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.watching and event == "socket.connect":
            self.seen.append(arguments[1])


@pytest.fixture(scope="module")
def audited() -> Connects:
    return Connects()


@pytest.fixture
def connects(audited: Connects) -> Iterator[Connects]:
    audited.seen.clear()
    audited.watching = True
    yield audited
    audited.watching = False


@pytest.fixture
async def everywhere() -> AsyncIterator[list[CountingListener]]:
    """Something that listens on every address of this machine, on one port."""
    first = await CountingListener().start("0.0.0.0")
    listeners = [first]
    with suppress(OSError):  # a machine without IPv6
        listeners.append(await CountingListener().start("::", first.port))
    yield listeners
    for listener in listeners:
        await listener.stop()


async def resolve(host: str, port: int) -> list[str]:
    if host in NAMES:
        return NAMES[host]
    return await NameResolver()(host, port)


def test_the_table_is_long_enough() -> None:
    assert len(set(URLS)) == len(URLS) >= 60


async def test_no_hostile_url_is_connected_to(everywhere: list[CountingListener], connects: Connects) -> None:
    sender = Sender((), 5, resolve=resolve)
    outcomes = {}
    for url in URLS:
        outcomes[url] = await sender.post(url.format(port=everywhere[0].port), {}, b"{}")
    await sender.close()
    assert {u: each for u, each in outcomes.items() if each.problem not in NEVER_CONNECTED} == {}
    assert connects.seen == []
    assert [listener.connections for listener in everywhere] == [0] * len(everywhere)


async def test_the_listeners_of_that_test_do_hear(everywhere: list[CountingListener], connects: Connects) -> None:
    sender = Sender([ip_network("127.0.0.0/8")], 5, resolve=resolve)
    url = f"http://loopback.test:{everywhere[0].port}/"
    assert (await sender.post(url, {}, b"{}")).problem == "connection_lost"
    await sender.close()
    assert (everywhere[0].connections, connects.seen) == (1, [("127.0.0.1", everywhere[0].port)])


async def test_a_redirect_to_a_refused_address_is_not_followed(everywhere: list[CountingListener]) -> None:
    hostile = f"http://127.0.0.1:{everywhere[0].port}/"
    sender = Sender(LOOPBACK_2, 5)
    for status in (301, 302, 303, 307, 308):
        receiver = await Receiver(answer(status, Location=hostile)).start("127.0.0.2")
        assert (await sender.post(receiver.url, {}, b"{}")).status == status
        await receiver.stop()
    await sender.close()
    assert everywhere[0].connections == 0


async def test_a_rebinding_name_server_is_asked_once_a_connection_and_gets_nobody_connected() -> None:
    receiver = await Receiver(answer(200, Connection="close")).start("127.0.0.2")
    hostile = await CountingListener().start("127.0.0.1", receiver.port)
    names = await NameServer(["127.0.0.2"], ["127.0.0.1"]).start()
    sender = Sender(LOOPBACK_2, 5, resolve=names.resolve)
    url = f"http://rebind.test:{receiver.port}/hook"
    first = await sender.post(url, {}, b"{}")
    assert (first.status, names.asked, len(receiver.got)) == (200, ["rebind.test"], 1)
    second = await sender.post(url, {}, b"{}")
    assert (second, names.asked) == (ReceiverResponse(problem="address_refused"), ["rebind.test"] * 2)
    assert (len(receiver.got), hostile.connections) == (1, 0)
    assert receiver.got[0].headers["host"] == f"rebind.test:{receiver.port}"
    await sender.close()
    await hostile.stop()
    await receiver.stop()
    names.stop()


async def test_one_bad_address_among_good_ones_refuses_the_name() -> None:
    receiver = await Receiver().start("127.0.0.2")
    names = await NameServer(["127.0.0.2", "10.0.0.1"]).start()
    sender = Sender(LOOPBACK_2, 5, resolve=names.resolve)
    refused = await sender.post(f"http://mixed.test:{receiver.port}/", {}, b"{}")
    assert (refused.problem, receiver.got) == ("address_refused", [])
    await sender.close()
    await receiver.stop()
    names.stop()


async def test_a_kept_connection_is_used_without_asking_the_name_server_again() -> None:
    receiver = await Receiver().start("127.0.0.2")
    names = await NameServer(["127.0.0.2"], ["127.0.0.1"]).start()
    sender = Sender(LOOPBACK_2, 5, resolve=names.resolve)
    for _ in range(3):
        assert (await sender.post(f"http://kept.test:{receiver.port}/", {}, b"{}")).status == 204
    assert names.asked == ["kept.test"]
    await sender.close()
    await receiver.stop()
    names.stop()


async def test_tls_asks_for_the_name_of_the_url(tmp_path: Path) -> None:
    asked: list[str | None] = []
    certificate = make_certificate(tmp_path, "hooks.test")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    server.sni_callback = lambda _socket, name, _context: asked.append(name)
    receiver = await Receiver().start("127.0.0.2", ssl_context=server)
    names = await NameServer(["127.0.0.2"]).start()
    trusting = Sender(LOOPBACK_2, 5, resolve=names.resolve, tls=ssl.create_default_context(cafile=str(certificate)))
    strict = Sender(LOOPBACK_2, 5, resolve=names.resolve)
    url = f"https://hooks.test:{receiver.port}/"
    assert (await trusting.post(url, {}, b"{}")).status == 204
    assert (await trusting.post(url.replace("hooks", "other"), {}, b"{}")).problem == "tls_failed"
    assert (await strict.post(url, {}, b"{}")).problem == "tls_failed"
    assert asked == ["hooks.test", "other.test", "hooks.test"]
    await trusting.close()
    await strict.close()
    await receiver.stop()
    names.stop()


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = await CountingListener().start("127.0.0.1")
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    receiver = await Receiver().start("127.0.0.2")
    sender = Sender(LOOPBACK_2, 5)
    assert (await sender.post(receiver.url, {}, b"{}")).status == 204
    assert proxy.connections == 0
    await sender.close()
    await receiver.stop()
    await proxy.stop()


async def test_a_name_server_that_hangs_is_waited_for_no_longer_than_a_try() -> None:
    async def hang(host: str, port: int) -> list[str]:
        await asyncio.sleep(3600)
        raise AssertionError

    sender = Sender((), 0.05, resolve=hang)
    assert (await sender.post("http://hooks.test/", {}, b"{}")).problem == "timed_out"
    await sender.close()


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "2a00:1450:4001::200e"]
)
def test_public_addresses_are_permitted(address: str) -> None:
    assert AddressGuard().permits(ip_address(address))


@pytest.mark.parametrize(
    ("allowed", "address", "permitted"),
    [
        ("10.1.0.0/16", "10.1.2.3", True),
        ("10.1.0.0/16", "10.2.0.1", False),
        ("fd00::/8", "fd12::1", True),
        ("127.0.0.0/8", "::ffff:127.0.0.1", False),
        ("64:ff9b::/96", "64:ff9b::808:808", True),
    ],
)
def test_the_allow_list_covers_addresses_as_they_are(allowed: str, address: str, permitted: bool) -> None:
    assert AddressGuard([ip_network(allowed)]).permits(ip_address(address)) is permitted
