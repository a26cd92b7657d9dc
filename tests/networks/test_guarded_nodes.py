"""`RELAYDECK_RPC_GUARD`: a node at an address that is not public is not connected to, unless it is allowed."""

import json
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

import pytest

from relaydeck.fees.errors import NodeUnreachable
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.evm.questions import CHAIN_ID
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import node_guards
from tests.support.fault_node import fault_nodes
from tests.support.fee_scene import ask, network, transaction
from tests.support.receiver import CountingListener
from tests.support.running import run_command
from tests.support.seeding import fill, relayer

LOOPBACK = (ip_network("127.0.0.0/8"),)
REFUSED = "leads to an address that RELAYDECK_RPC_GUARD refuses"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_a_refused_address_is_not_connected_to(host: str) -> None:
    listener = await CountingListener().start("127.0.0.1")
    client = Client(1 << 20, node_guards("on", ()))
    with pytest.raises(UrlFailed) as failure:
        await client.ask(RpcUrl(f"http://{host}:{listener.port}/v2/secret-key"), CHAIN_ID)
    await client.close()
    await listener.stop()
    assert (failure.value.reason, listener.connections) == (REFUSED, 0)


async def test_an_allowed_address_is_asked() -> None:
    client = Client(1 << 20, node_guards("on", LOOPBACK))
    async with fault_nodes("healthy") as (node,):
        assert await client.ask(RpcUrl(node.url), CHAIN_ID) == 31337
    await client.close()


async def loopback(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    ("host", "allow", "reached"),
    [
        ("127.0.0.1", (), False),
        ("127.0.0.1", LOOPBACK, True),
        ("localhost", (), False),
        ("localhost", (ip_network("::1"),), True),  # it has two addresses, and one is allowed
        ("geth.internal", (), False),
        ("geth.internal", (ip_network("10.0.0.0/8"),), False),
        ("geth.internal", LOOPBACK, True),
        ("node.example", (), False),
        ("NODE.example.", (), False),
        ("node.example", LOOPBACK, True),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_by_default_only_what_was_set_over_http_is_guarded(
    scheme: str, host: str, allow: tuple[IPv4Network | IPv6Network, ...], reached: bool
) -> None:
    listener = await CountingListener().start("127.0.0.1")
    client, found = Client(1 << 20, node_guards("http", allow), loopback), []
    for set_over_http in (True, False):
        before = listener.connections
        with pytest.raises(UrlFailed) as failure:
            url = RpcUrl(f"{scheme}://{host}:{listener.port}/", set_over_http=set_over_http)
            await client.ask(url, CHAIN_ID)
        found.append((failure.value.reason != REFUSED, listener.connections > before))
    await client.close()
    await listener.stop()
    assert found == [(reached, reached), (True, True)]


async def test_a_guarded_url_does_not_use_the_open_connection_of_an_unguarded_one() -> None:
    client = Client(1 << 20, node_guards("http", ()), loopback)
    async with fault_nodes("healthy") as (node,):
        url = f"http://node.example:{node.port}/v2/secret-key"
        assert await client.ask(RpcUrl(url), CHAIN_ID) == 31337
        with pytest.raises(UrlFailed, match=REFUSED):
            await client.ask(RpcUrl(url, set_over_http=True), CHAIN_ID)
        assert node.requests == 1
    await client.close()


@pytest.mark.parametrize("mode", ["http", "on", "off"])
async def test_no_mode_permits_a_metadata_service(mode: str) -> None:
    client = Client(1 << 20, node_guards(mode, (ip_network("169.254.169.254/32"),)))
    with pytest.raises(UrlFailed, match=REFUSED):
        await client.ask(RpcUrl("http://169.254.169.254/"), CHAIN_ID)
    await client.close()


async def test_an_estimate_says_what_was_refused() -> None:
    estimator = Estimator(FeeOptions(guards=node_guards("on", ())))
    async with fault_nodes("healthy") as (node,):
        with pytest.raises(NodeUnreachable) as failure:
            await ask(estimator, network(node.url), transaction())
        assert (failure.value.description, node.requests) == (f"http://127.0.0.1:{node.port} {REFUSED}", 0)
    await estimator.close()


def test_the_commands_are_guarded_too(home: Path) -> None:
    fill(home, relayers=[relayer("r1")])
    doctor = run_command(home, "doctor", rpc_guard="on")
    assert doctor.returncode == 1
    assert doctor.stdout.splitlines()[-1] == (
        "FAIL  node http://127.0.0.1:9 of the network 'dev':"
        " it leads to an address that RELAYDECK_RPC_GUARD refuses; no connection was made;"
        " see RELAYDECK_RPC_GUARD and RELAYDECK_RPC_ALLOW"
    )
    estimate = run_command(home, "estimate", "r1", transaction(), "--json", rpc_guard="on", rpc_allow="10.0.0.0/8")
    assert json.loads(estimate.stdout)["error"]["description"] == f"http://127.0.0.1:9 {REFUSED}"


def test_the_commands_tell_apart_where_the_same_url_was_set(home: Path) -> None:
    own = RpcUrl("http://127.0.0.1:9/rpc", set_over_http=True)
    fill(home, relayers=[relayer("r1", custom_rpc_urls=(own,)), relayer("r2")])
    doctor = run_command(home, "doctor", rpc_guard="http").stdout.splitlines()
    assert [each.partition(";")[0] for each in doctor if "node http" in each] == [
        "FAIL  node http://127.0.0.1:9 of the network 'dev': it refused the connection",
        f"FAIL  node http://127.0.0.1:9 of the relayer 'r1': it {REFUSED}",
    ]
    estimates = [
        run_command(home, "estimate", each, transaction(), "--json", rpc_guard="http") for each in ("r1", "r2")
    ]
    assert [json.loads(each.stdout)["error"]["description"] for each in estimates] == [
        f"http://127.0.0.1:9 {REFUSED}",
        "http://127.0.0.1:9 refused the connection",
    ]
