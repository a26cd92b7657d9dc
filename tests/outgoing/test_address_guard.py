"""Nothing that we send requests to can be used against us: no address that is not public is connected to.

Receivers of events, nodes, key systems, token endpoints and issuers: the same table of hostile URLs for each of them.
"""

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec import Raw
from msgspec.json import encode
from msgspec.structs import force_setattr

from relaydeck.credentials.json_web_tokens import IssuerFailed, TrustedIssuer
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.evm.questions import CHAIN_ID
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import node_guards
from relaydeck.notifications.sender import Sender
from relaydeck.outgoing.address_guard import AddressGuard
from relaydeck.outgoing.connections import Resolve
from relaydeck.secret import Secret
from relaydeck.settings.issuers import Issuer, Rule
from relaydeck.signers.drivers.driver_errors import ConfigUnusable, DriverError, KeySystemUnreachable
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import Config, KmsConfig, SecondKmsConfig, SecretStoreConfig, TransitConfig
from relaydeck.web_addresses import node_address_problem
from tests.support.certificates import make_certificate
from tests.support.driver_settings import bound
from tests.support.name_server import NameServer
from tests.support.receiver import CountingListener, Receiver, answer
from tests.support.running import Running, make_token, run_command

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
    "ula.test": ["fd12:3456::1"],
    "sixtofour.test": ["2002:7f00:1::1"],
    "teredo.test": ["2001:0:4136:e378:8000:63bf:80ff:fffe"],
    "compatible.test": ["::127.0.0.1"],
    "translated.test": ["::ffff:0:127.0.0.1"],
    "broadcast.test": ["255.255.255.255"],
    "any.test": ["0.0.0.0"],
    "xn--lcalhost-54a.test": ["127.0.0.1"],
    "vault.example.com": ["192.168.7.7"],
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
    "0177.1",
    "0x7f.1",
    "127.0.0.01",
    "127.0.0.0x1",
    "127.0.0.1..",
    "10.1",
    "167772161",
    "0xa.0.0.1",
    "012.0.0.1",
    "172.16.1",
    "192.168.1",
    "3232235521",
    "0xc0a80001",
    "0300.0250.0.1",
    "169.254.43518",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.254.169.254",
    "①⑥⑨.②⑤④.①⑥⑨.②⑤④",
    "１６９。２５４。１６９。２５４",
    "١٢٧.0.0.1",
    "127\u200b.0.0.1",
    "lo\u00adcalhost",
    "xn--localhost-",
    "localhost.localdomain",
    "ip6-localhost",
    "a.localhost",
    "@127.0.0.1",
    "user@[::1]",
    "a:b@localhost",
    "[::ffff:10.0.0.1]",
    "[::ffff:c0a8:1]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]",
    "[2002:c0a8:1::]",
    "[fd20:ce::254]",
    "[fd00:42::42]",
    "[::ffff:0:169.254.169.254]",
    "[febf::1]",
    "[0:0:0:0:0:0:127.0.0.1]",
    "[::ffff:127.1]",
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
    "http://127.0.0.1:{port}/x/delete-everything?a=",
    "http://127.0.0.1:{port}/../../v1/secret",
    "http://127.0.0.1:{port}/%2e%2e/",
    "http://127.0.0.1:{port}/\r\nHost: x",
]
# Addresses of key systems that are more than a scheme, a host, a port and a plain path.
NOT_PLAIN = [
    "http://127.0.0.1:{port}/x/delete-everything?a=",
    "http://127.0.0.1:{port}?",
    "http://127.0.0.1:{port}/x#",
    "http://127.0.0.1:{port}/x#y",
    "http://user:password@127.0.0.1:{port}/",
    "http://user@127.0.0.1:{port}",
    "http://@127.0.0.1:{port}",
    "http://127.0.0.1:{port}/a b",
    "http://127.0.0.1:{port}/\ta",
    "http://127.0.0.1:{port}/a\r\nX-Header: 1",
    "http://127.0.0.1:{port}/a\\b",
    " http://127.0.0.1:{port}/",
    "http://127.0.0.1:{port}/ ",
    "http://127.0.0.1:{port}/..",
    "http://127.0.0.1:{port}/a/../b",
    "http://127.0.0.1:{port}/./a",
    "http://127.0.0.1:{port}/%2e%2e/a",
    "http://127.0.0.1:{port}/a%2Fb",
    "http://127.0.0.1:{port}//a",
    "http://127.0.0.1:{port}/a;b=c",
    "http://127.0.0.1:{port}/é",
    "http://１２７.0.0.1:{port}/",
]

Allow = Sequence[IPv4Network | IPv6Network]
Call = Callable[[str], Awaitable[object]]
NO_ROLE: dict[str, Any] = {"key_name": "k", "role_id": Secret("r"), "secret_id": Secret("s")}


@asynccontextmanager
async def webhook(allow: Allow, resolve: Resolve) -> AsyncIterator[Call]:
    sender = Sender(allow, 5, resolve=resolve)
    yield lambda url: sender.post(url, {}, b"{}")
    await sender.close()


def node(scheme: str, mode: str) -> Callable[[Allow, Resolve], Any]:
    """By default, what is set over HTTP is guarded."""

    @asynccontextmanager
    async def calls(allow: Allow, resolve: Resolve) -> AsyncIterator[Call]:
        client = Client(1 << 20, node_guards(mode, tuple(allow)), resolve)

        async def call(url: str) -> None:
            url = url.replace("http", scheme, 1)
            if not node_address_problem(url):  # others cannot be set
                await client.ask(RpcUrl(url, set_over_http=mode == "http"), CHAIN_ID)

        yield call
        await client.close()

    return calls


def key_system(signer_type: str, driver: str, config: Callable[[str], Config]) -> Callable[[Allow, Resolve], Any]:
    @asynccontextmanager
    async def calls(allow: Allow, resolve: Resolve) -> AsyncIterator[Call]:
        keys = SignerKeys(bound({signer_type: driver}, driver_allow=allow), resolve=resolve)
        yield lambda url: keys.identify(signer_type, config(url))
        await keys.close()

    return calls


@cache
def service_account_key() -> str:
    key = generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def google_account(token_uri: str) -> SecondKmsConfig:
    name = "projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1"
    account = {"client_email": "a@example.com", "private_key": service_account_key(), "token_uri": token_uri}
    return SecondKmsConfig(key=Raw(encode({"name": name})), service_account=Raw(encode(account)))


def transit_key(address: str) -> TransitConfig:
    return TransitConfig(address=address, pubkey="p", **NO_ROLE)


PUBLIC = "https://issuer.example.com"


def issuer(read: Callable[[TrustedIssuer], Awaitable[object]], place: str) -> Callable[[Allow, Resolve], Any]:
    """With an address that the settings need not permit: the guard alone has to refuse it."""

    @asynccontextmanager
    async def calls(allow: Allow, resolve: Resolve) -> AsyncIterator[Call]:
        async def call(url: str) -> object:
            rule, audience, allowed = Rule(claims={"sub": "a"}, role="api"), ("relaydeck",), tuple(map(str, allow))
            given = Issuer(name="ci", url=PUBLIC, audience=audience, allow=allowed, rules=(rule,))
            force_setattr(given, place, url)
            trusted = TrustedIssuer(given, lambda name, problem: None, resolve=resolve)
            try:
                return await read(trusted)
            finally:
                await trusted.close()

        yield call

    return calls


KINDS = {
    "webhook": webhook,
    "node over HTTP": node("http", "on"),
    "node over a WebSocket": node("ws", "on"),
    "node over HTTP, by default": node("http", "http"),
    "node over a WebSocket, by default": node("ws", "http"),
    "address of a secret store": key_system(
        "provider_c", "vault-kv", lambda url: SecretStoreConfig(address=url, **NO_ROLE)
    ),
    "address of a transit engine": key_system("provider_c_transit", "vault-transit", transit_key),
    "token_uri": key_system("provider_b_kms", "google-kms", google_account),
}
KEY_SYSTEMS = [name for name in KINDS if "node" not in name and name != "webhook"]
KINDS |= {
    "discovery of an issuer": issuer(lambda trusted: trusted.read_metadata(), "url"),
    "keys of an issuer": issuer(lambda trusted: trusted.read_keys(), "jwks_uri"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


async def outcome(call: Call, url: str) -> object:
    try:
        return await call(url)
    except (UrlFailed, DriverError, IssuerFailed) as error:
        return error


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
    """As a system does: spellings of addresses are addresses, names of the machine lead to it. No other name exists."""
    if host in NAMES:
        return NAMES[host]
    if "localhost" in host.lower():
        return ["127.0.0.1"]
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)]


def test_the_table_is_long_enough() -> None:
    assert len(set(URLS)) == len(URLS) >= 150


@every_kind
async def test_no_hostile_url_is_connected_to(
    kind: str, everywhere: list[CountingListener], connects: Connects
) -> None:
    async with KINDS[kind]((), resolve) as call:
        for url in URLS:
            await outcome(call, url.format(port=everywhere[0].port))
            # Without TLS, key systems refuse most of them before the guard does.
            await outcome(call, url.replace("http:", "https:", 1).format(port=everywhere[0].port))
    assert connects.seen == []
    assert [listener.connections for listener in everywhere] == [0] * len(everywhere)


@every_kind
async def test_the_listeners_of_that_test_do_hear(
    kind: str, everywhere: list[CountingListener], connects: Connects
) -> None:
    async with KINDS[kind]([ip_network("127.0.0.0/8")], resolve) as call:
        await outcome(call, f"https://loopback.test:{everywhere[0].port}/")
    assert (everywhere[0].connections > 0, set(connects.seen)) == (True, {("127.0.0.1", everywhere[0].port)})


@every_kind
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(kind: str, status: int) -> None:
    hostile = await CountingListener().start("127.0.0.1")
    server = await Receiver(answer(status, Location=f"http://127.0.0.1:{hostile.port}/")).start("127.0.0.2")
    async with KINDS[kind]([ip_network("127.0.0.0/8")], resolve) as call:
        await outcome(call, f"http://127.0.0.2:{server.port}/")
    await server.stop()
    await hostile.stop()
    assert (len(server.got), hostile.connections) == (1, 0)


@every_kind
async def test_a_name_that_is_rebound_gets_nobody_connected(kind: str) -> None:
    good = await CountingListener().start("127.0.0.2")
    hostile = await CountingListener().start("127.0.0.1", good.port)
    names = await NameServer(["127.0.0.2"], ["127.0.0.1"]).start()
    async with KINDS[kind](LOOPBACK_2, names.resolve) as call:
        for _ in range(2):
            await outcome(call, f"https://rebind.example:{good.port}/")
    names.stop()
    await good.stop()
    await hostile.stop()
    assert (good.connections, hostile.connections, set(names.asked)) == (1, 0, {"rebind.example"})


@pytest.mark.parametrize("kind", KEY_SYSTEMS)
@pytest.mark.parametrize("url", NOT_PLAIN)
async def test_nothing_is_sent_to_a_key_system_whose_address_is_not_plain(kind: str, url: str) -> None:
    """Although its host is allowed."""
    server = await Receiver().start("127.0.0.1")
    async with KINDS[kind]([ip_network("127.0.0.0/8")], resolve) as call:
        refused = await outcome(call, url.format(port=server.port))
        assert (type(refused), server.got) == (ConfigUnusable, [])
        await outcome(call, f"http://127.0.0.1:{server.port}/a/b.c~d_e-f")
        assert len(server.got) == 1
    await server.stop()


@pytest.mark.parametrize("namespace", ["a\r\nX-Header: 1", "a\nb", " a", "a ", "\tb", "é", "a\x00b", "a\x7f"])
async def test_a_namespace_that_is_no_header_value_is_not_sent(namespace: str) -> None:
    server = await Receiver().start("127.0.0.1")
    keys = SignerKeys(bound({"provider_c": "vault-kv"}, driver_allow=(ip_network("127.0.0.0/8"),)))
    config = SecretStoreConfig(address=f"http://127.0.0.1:{server.port}", namespace=namespace, **NO_ROLE)
    with pytest.raises(ConfigUnusable, match=r"config\.namespace must"):
        await keys.identify("provider_c", config)
    await keys.close()
    await server.stop()
    assert server.got == []


@pytest.mark.parametrize(
    "region", ["127.0.0.1", "127.0.0.1:1/", "a/b", "a@127.0.0.1", "a#", "a?b", "", ".", "eu-west-1\n", "a b", "１"]
)
async def test_a_region_is_no_address(region: str, connects: Connects, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "unused")
    keys = SignerKeys(bound({"provider_a_kms": "aws-kms"}), resolve=resolve)
    with pytest.raises(ConfigUnusable, match=r"config\.region is not an AWS region"):
        await keys.identify("provider_a_kms", KmsConfig(key_id="k", region=region))
    await keys.close()
    assert connects.seen == []


async def test_an_endpoint_of_the_settings_may_be_private_and_allows_no_other_address() -> None:
    server = await Receiver().start("127.0.0.1")
    url = f"http://127.0.0.1:{server.port}"
    bindings = {"provider_c": "vault-kv", "provider_b_kms": "google-kms"}
    keys = SignerKeys(bound(bindings, dict.fromkeys(bindings, url)))
    with pytest.raises(DriverError):
        await keys.identify("provider_c", SecretStoreConfig(address="https://ignored.example", **NO_ROLE))
    assert [each.path for each in server.got] == ["/v1/auth/approle/login"]
    with pytest.raises(KeySystemUnreachable, match="neither RELAYDECK_DRIVER_ALLOW nor an endpoint"):
        await keys.identify("provider_b_kms", google_account(f"{url}/token"))
    await keys.close()
    await server.stop()
    assert len(server.got) == 1


async def test_a_metadata_service_is_refused_as_an_endpoint() -> None:
    keys = SignerKeys(bound({"provider_c": "vault-kv"}, {"provider_c": "https://169.254.169.254"}))
    with pytest.raises(KeySystemUnreachable, match="no connection was made"):
        await keys.identify("provider_c", SecretStoreConfig(address="https://ignored.example", **NO_ROLE))
    await keys.close()


async def test_a_caller_cannot_send_requests_with_a_signer(home: Path) -> None:
    """An `api` token, a bound driver, no endpoint: the finding that this guard answers."""
    server = await Receiver().start("127.0.0.1")
    plain = f"http://127.0.0.1:{server.port}/x/delete-everything"
    config = {"key_name": "k", "role_id": "r", "secret_id": "s"}
    api, admin = make_token(home, "caller"), make_token(home, "ops", "--kind", "admin")
    settings = {"driver_provider_c": "vault-kv", "signer_check_seconds": "0"}
    with Running(home, token=api, **settings) as running:
        logs = []
        for name, address in {"query": f"{plain}?a=", "plain": plain}.items():
            body = {"id": name, "type": "provider_c", "config": config | {"address": address, "namespace": " x"}}
            made = await asyncio.to_thread(running.ask, "POST", "/api/v1/signers", body)
            logs.append((made.status, [each["message"] for each in made.json["metadata"]["logs"]]))
        checked = []
        for name in ("query", "plain"):
            path = f"/admin/v1/signers/{name}/check"
            checked.append((await asyncio.to_thread(running.ask, "POST", path, token=admin)).json["data"])
        doctor = await asyncio.to_thread(run_command, home, "doctor", **settings)
    await server.stop()
    namespace = "config.namespace must not be empty, and must not begin or end with a blank: nothing is sent with it"
    not_plain = "config.address must consist of a scheme, a host, a port and a plain path: nothing is sent there"
    assert logs == [(201, [not_plain, namespace]), (201, [namespace])]
    assert [each["outcome"] for each in checked] == ["unusable_config"] * 2
    assert server.got == []
    assert (
        "FAIL  signers: nothing is sent to the config.address of 'query', 'plain': it is not public, or more than a"
        " scheme, a host, a port and a plain path; allow private addresses with RELAYDECK_DRIVER_ALLOW"
    ) in doctor.stdout.splitlines()


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
