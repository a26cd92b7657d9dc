"""`RELAYDECK_RPC_GUARD`: which URLs of nodes may be set over HTTP, and that the machine's own commands may set any."""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from relaydeck.networks import network_rows
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.evm.questions import CHAIN_ID
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.networks.node_rule import EVERY_NODE, NOT_PUBLIC, NodeRule, node_guards
from relaydeck.relayers import relayer_rows
from relaydeck.store.record_table import RecordTable
from tests.cli.test_remote import Remote
from tests.support.fault_node import FaultNode, fault_nodes
from tests.support.name_server import NameServer
from tests.support.running import Running, make_token, run_command
from tests.support.seeding import fill, opened
from tests.support.stored_rows import create_row

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


@pytest.fixture
async def node() -> AsyncIterator[FaultNode]:
    async with fault_nodes("healthy") as (node,):
        yield node


def named(node: FaultNode) -> str:
    """A URL that everybody may set. Its name leads to the node, which is on this machine."""
    return f"http://node.infra.example:{node.port}/secret-key"


def in_file(network: str, *nodes: dict[str, object]) -> str:
    urls = ", ".join(f'{{ url = "{each["url"]}" }}' for each in nodes)
    return FILE.replace("filed", network).replace(FILE.splitlines()[-1], f"rpc_urls = [{urls}]")


async def reached(remote: Remote, table: RecordTable[Any], *records: str) -> list[bool]:
    """Whether each node of the stored records answers. One client asks all of them, as one process would."""
    urls: list[RpcUrl] = []
    with opened(remote.service.home) as store:
        for record in records:
            sql = f"SELECT {table.columns} FROM {table.name} WHERE {table.identity} = :record"
            stored = table.from_row(store.database.read(sql, {"record": record})[0], store.vault)
            urls += stored.rpc_urls if table is network_rows.TABLE else stored.custom_rpc_urls
    names, found = await NameServer(["127.0.0.1"]).start(), []
    client = Client(1 << 20, node_guards("http", ()), names.resolve)
    for url in urls:
        try:
            found.append(await client.ask(url, CHAIN_ID) == 31337)
        except UrlFailed as failure:
            assert failure.reason == "leads to an address that RELAYDECK_RPC_GUARD refuses"
            found.append(False)
    await client.close()
    names.stop()
    return found


Step = Callable[[Remote, str, str], None]  # with the name of a network and the URL of its node


def post(remote: Remote, name: str, url: str) -> None:
    body = NETWORK | {"name": name, "rpc_urls": [{"url": url}]}
    assert remote.service.ask("POST", "/admin/v1/networks", body).status == 201


def patch(change: Callable[[str], dict[str, object]]) -> Step:
    def step(remote: Remote, name: str, url: str) -> None:
        changed = remote.service.ask("PATCH", f"/admin/v1/networks/{name}", change(url))
        assert changed.status == 200, changed.body

    return step


def apply_there(remote: Remote, name: str, url: str) -> None:
    remote.run("apply", "-", stdin=in_file(name, {"url": url}))


def here(remote: Remote, *arguments: str, stdin: str = "") -> None:
    done = run_command(remote.service.home, *arguments, stdin=stdin, rpc_guard="http")
    assert done.returncode == 0, done.stderr


def apply_here(remote: Remote, name: str, url: str) -> None:
    here(remote, "apply", "-", stdin=in_file(name, {"url": url}))


def create_here(remote: Remote, name: str, url: str) -> None:
    fields = [f"name={name}", "network_type=evm", "chain_id:=31337", "native_symbol=ETH"]
    here(remote, "network", "create", *fields, f"rpc_urls:={json.dumps([{'url': url}])}")


def update_symbol_here(remote: Remote, name: str, url: str) -> None:
    here(remote, "network", "update", name, "native_symbol=XYZ")


def update_urls_here(remote: Remote, name: str, url: str) -> None:
    here(remote, "network", "update", name, f"rpc_urls:={json.dumps([{'url': url}])}")


def stored_before(remote: Remote, name: str, url: str) -> None:
    """As an earlier version stored it, whoever set it."""
    network = Network(name, "evm", 31337, "ETH", (RpcUrl(url),))
    with opened(remote.service.home) as store, store.database.transaction() as transaction:
        create_row(network_rows.TABLE, transaction, store.vault, network)


NUMBERS = itertools.count()
patch_symbol = patch(lambda url: {"native_symbol": "XYZ"})
patch_same = patch(lambda url: {"rpc_urls": [{"url": url, "weight": 1}]})
patch_weight = patch(lambda url: {"rpc_urls": [{"url": url, "weight": 5}]})
patch_url = patch(lambda url: {"rpc_urls": [{"url": f"{url}/other"}]})


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([post], False),
        ([apply_there], False),
        ([post, patch_symbol], False),
        ([post, patch_same], False),
        ([post, apply_there], False),
        ([post, update_symbol_here], False),  # it does not set the URL
        ([post, update_urls_here], True),
        ([post, apply_here], True),
        ([create_here], True),
        ([apply_here], True),
        ([stored_before], True),
        ([stored_before, patch_symbol], True),
        ([create_here, patch_symbol], True),
        ([create_here, patch_same], True),
        ([create_here, patch_weight], True),
        ([create_here, apply_there], True),
        ([create_here, patch_url], False),
        ([stored_before, patch_url], False),
        ([create_here, patch_url, patch_same], False),
    ],
    ids=lambda each: "-".join(getattr(step, "__name__", "") for step in each) if isinstance(each, list) else "",
)
async def test_a_public_name_may_lead_to_this_machine_unless_it_was_set_over_http(
    remote: Remote, node: FaultNode, steps: list[Step], expected: bool
) -> None:
    name = f"named-{next(NUMBERS)}"  # not by its port, which a later node may have again
    for step in steps:
        step(remote, name, named(node))
    assert await reached(remote, network_rows.TABLE, name) == [expected]


async def test_of_two_relayers_with_the_same_url_only_the_one_of_a_command_reaches_it(
    remote: Remote, node: FaultNode
) -> None:
    fill(remote.service.home, node="https://node.example/rpc")
    new = {"name": "R", "network": "dev", "network_type": "evm", "signer_id": "ops"}
    nodes = [{"url": named(node)}]
    fields = [f"{name}={value}" for name, value in new.items()]
    here(remote, "relayer", "create", "id=commanded", *fields, f"custom_rpc_urls:={json.dumps(nodes)}")
    created = remote.service.ask("POST", "/admin/v1/relayers", new | {"id": "asked", "custom_rpc_urls": nodes})
    assert created.status == 201
    changed = remote.service.ask("PATCH", "/admin/v1/relayers/commanded", {"policies": {"min_balance": 1}})
    assert changed.status == 200
    assert await reached(remote, relayer_rows.TABLE, "commanded", "asked", "commanded") == [True, False, True]


def test_a_change_over_http_keeps_a_list_with_and_without_secret_headers(remote: Remote) -> None:
    headers = [{"name": "Authorization", "value": "Bearer secret-key"}]
    nodes = [{"url": "https://a.example"}, {"url": "https://b.example", "headers": headers}]
    created = remote.service.ask("POST", "/admin/v1/networks", NETWORK | {"name": "headers", "rpc_urls": nodes})
    assert created.status == 201
    changed = remote.service.ask("PATCH", "/admin/v1/networks/headers", {"native_symbol": "XYZ"})
    assert (changed.status, changed.json["data"]["rpc_urls"]) == (200, created.json["data"]["rpc_urls"])


def test_where_a_url_was_set_is_shown_nowhere(remote: Remote) -> None:
    post(remote, "shown", "https://node.example/secret-key")
    shown = remote.service.ask("GET", "/admin/v1/networks/shown").json["data"]["rpc_urls"]
    assert shown == [{"url": "https://node.example/secret-key", "weight": 1}]
    for path in (*(f"/admin/v1/{each}" for each in ("export", "networks", "audit", "openapi.json")), "/openapi.json"):
        answer = remote.service.ask("GET", path)
        assert (answer.status, b"set_over_http" in answer.body) == (200, False), path
