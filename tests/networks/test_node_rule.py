"""`RELAYDECK_RPC_GUARD`: which URLs of nodes may be set over HTTP, and that the machine's own commands may set any."""

from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from relaydeck.networks.node_rule import EVERY_NODE, NOT_PUBLIC, NodeRule
from tests.cli.test_remote import Remote
from tests.running import Running, make_token, run_command

NETWORK = {"name": "dev", "network_type": "evm", "chain_id": 31337, "native_symbol": "ETH"}
LOOPBACK = [{"url": "http://127.0.0.1:8545/secret-key"}]
PRIVATE = [{"url": "http://10.1.2.3:8545/secret-key"}]
FILE = """
[networks.filed]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{ url = "https://node.example/rpc" }, { url = "http://192.168.1.1/secret-key" }]
"""
REFUSED = [
    "http://127.0.0.1:8545",
    "http://127.1",
    "http://2130706433/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://①②⑦.0.0.1/",
    "http://127。0.0.1:8545/",
    "http://127｡0.0.1:8545/",
    "http://10。0。0.1",
    "http://a.localhost。",
    "http://node.lan。",
    "http://node.home。arpa",
    "http://localhost.localdomain",
    "http://node\u200b.example",
    "http://10.0.0.1",
    "http://172.16.0.1",
    "http://192.168.0.1",
    "http://100.64.0.1",
    "http://0.0.0.0",
    "http://169.254.169.254/latest",
    "http://[::1]:8545",
    "http://[::ffff:127.0.0.1]",
    "http://[fd00::1]",
    "http://[fe80::1]",
    "ws://localhost:8545",
    "http://LOCALHOST.",
    "http://node.localhost",
    "http://geth:8545",
    "http://geth.default.svc.cluster.local",
    "http://metadata.google.internal",
]
ACCEPTED = ["https://node.example/v2/key", "https://1.1.1.1", "wss://[2606:4700:4700::1111]", "https://node.example."]


@pytest.mark.parametrize("url", REFUSED)
def test_a_node_that_is_not_public_is_refused(url: str) -> None:
    assert NodeRule(()).problem(url) == NOT_PUBLIC


@pytest.mark.parametrize("url", ACCEPTED)
def test_a_public_node_is_accepted(url: str) -> None:
    assert NodeRule(()).problem(url) == ""


def test_the_operator_allows_addresses() -> None:
    rule = NodeRule((ip_network("10.0.0.0/8"),))
    assert [rule.problem(url) for url in ("http://10.0.0.1", "http://geth:8545")] == ["", ""]
    assert [rule.problem(url) for url in ("http://127.0.0.1", "http://169.254.169.254")] == [NOT_PUBLIC] * 2


LOOPBACK_NAMES = [
    "http://localhost:8545",
    "http://LOCALHOST.",
    "http://node.localhost",
    "http://localhost.localdomain",
    "http://localhost6.localdomain6",
    "http://ip6-localhost",
]


@pytest.mark.parametrize("allowed", ["10.1.0.0/16", "fd00::/8", "169.254.169.254"])
@pytest.mark.parametrize("url", LOOPBACK_NAMES)
def test_a_private_range_does_not_allow_names_of_the_machine(url: str, allowed: str) -> None:
    assert NodeRule((ip_network(allowed),)).problem(url) == NOT_PUBLIC


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "http://127.0.0.1:99999", "http:///x", "http://%6cocalhost/", "http://example.com\\@localhost/"],
)
def test_a_url_that_the_client_cannot_read_is_never_allowed(url: str) -> None:
    assert NodeRule((ip_network("10.0.0.0/8"),)).problem(url) == NOT_PUBLIC


@pytest.mark.parametrize("allowed", ["127.0.0.0/8", "127.0.0.1", "::1"])
@pytest.mark.parametrize("url", LOOPBACK_NAMES)
def test_an_allowed_loopback_address_allows_names_of_the_machine(url: str, allowed: str) -> None:
    assert NodeRule((ip_network(allowed),)).problem(url) == ""


def test_without_a_rule_every_url_may_be_set() -> None:
    assert [EVERY_NODE.problem(url) for url in REFUSED] == [""] * len(REFUSED)


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """A service with the guard as it is by default, except that one private range is allowed."""
    home = tmp_path_factory.mktemp("guarded") / "home"
    token = make_token(home, "ops", "--kind", "admin")
    settings = {"rpc_guard": "http", "rpc_allow": "10.0.0.0/8", "monitor_interval_seconds": "0"}
    with Running(home, token=token, **settings) as running:
        yield Remote(running, home.parent / "elsewhere")


def test_a_loopback_node_set_over_http_is_refused(remote: Remote) -> None:
    refused = remote.service.ask("POST", "/admin/v1/networks", NETWORK | {"rpc_urls": LOOPBACK})
    assert (refused.status, refused.json["detail"]) == (400, f"rpc_urls[0].url: {NOT_PUBLIC}")
    assert b"secret-key" not in refused.body
    assert remote.service.ask("GET", "/admin/v1/networks/dev").status == 404


def test_a_document_applied_over_http_with_a_private_node_is_refused(remote: Remote) -> None:
    refused = remote.there("apply", "-", stdin=FILE)
    assert refused.returncode == 1
    assert f"networks.filed.rpc_urls[1].url: {NOT_PUBLIC}" in refused.stderr
    assert remote.service.ask("GET", "/admin/v1/networks/filed").status == 404


def test_an_allowed_private_node_is_set_over_http(remote: Remote) -> None:
    created = remote.service.ask("POST", "/admin/v1/networks", NETWORK | {"name": "allowed", "rpc_urls": PRIVATE})
    assert created.status == 201


def test_a_loopback_node_set_by_a_command_on_the_machine_stays(remote: Remote) -> None:
    here = remote.service.home
    done = run_command(here, "apply", "-", stdin=FILE.replace("filed", "local"), rpc_guard="http")
    assert (done.returncode, done.stdout) == (0, "created: 1 network\n")
    created = run_command(
        here,
        *("network", "create", "name=cli", "network_type=evm", "chain_id:=1", "native_symbol=ETH"),
        'rpc_urls:=[{"url": "http://127.0.0.1:8545"}]',
        rpc_guard="http",
    )
    assert created.returncode == 0, created.stderr
    changed = remote.service.ask("PATCH", "/admin/v1/networks/cli", {"native_symbol": "XYZ"})
    assert changed.status == 200
    again = remote.there("apply", "-", "--plan", stdin=FILE.replace("filed", "local"))
    assert again.stdout == "nothing to change: the stored records match the file\n"
