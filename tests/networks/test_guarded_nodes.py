"""`RELAYDECK_RPC_GUARD`: a node at an address that is not public is not connected to, unless it is allowed."""

import json
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

import pytest

from relaydeck.address_guard import AddressGuard
from relaydeck.fees import Estimator, FeeOptions
from relaydeck.fees.errors import NodeUnreachable
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.evm.questions import CHAIN_ID
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import node_guard
from tests.fees.scene import ask, network, transaction
from tests.networks.fault_node import fault_nodes
from tests.notifications.receiver import CountingListener
from tests.running import run_command
from tests.seeding import fill, relayer

LOOPBACK = (ip_network("127.0.0.0/8"),)
REFUSED = "leads to an address that RELAYDECK_RPC_GUARD refuses"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_a_refused_address_is_not_connected_to(host: str) -> None:
    listener = await CountingListener().start("127.0.0.1")
    client = Client(1 << 20, AddressGuard())
    with pytest.raises(UrlFailed) as failure:
        await client.ask(RpcUrl(f"http://{host}:{listener.port}/v2/secret-key"), CHAIN_ID)
    await client.close()
    await listener.stop()
    assert (failure.value.reason, listener.connections) == (REFUSED, 0)


async def test_an_allowed_address_is_asked() -> None:
    client = Client(1 << 20, AddressGuard(LOOPBACK))
    async with fault_nodes("healthy") as (node,):
        assert await client.ask(RpcUrl(node.url), CHAIN_ID) == 31337
    await client.close()


async def loopback(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    ("host", "allow", "reached"),
    [
        ("127.0.0.1", (), True),  # only a command on the machine can have set these
        ("localhost", (), True),
        ("localhost", (ip_network("::1"),), True),  # it has two addresses, and one is allowed
        ("geth.internal", (), True),
        ("geth.internal", (ip_network("10.0.0.0/8"),), False),  # somebody may have set it over HTTP
        ("node.example", (), False),
        ("NODE.example.", (), False),
        ("node.example", LOOPBACK, True),
        ("geth.internal", LOOPBACK, True),
    ],
)
async def test_by_default_a_name_that_can_be_set_over_http_must_lead_to_a_public_address(
    host: str, allow: tuple[IPv4Network | IPv6Network, ...], reached: bool
) -> None:
    listener = await CountingListener().start("127.0.0.1")
    client = Client(1 << 20, node_guard("http", allow), loopback)
    with pytest.raises(UrlFailed) as failure:
        await client.ask(RpcUrl(f"http://{host}:{listener.port}/"), CHAIN_ID)
    await client.close()
    await listener.stop()
    assert (failure.value.reason != REFUSED, listener.connections > 0) == (reached, reached)


@pytest.mark.parametrize("mode", ["http", "on", "off"])
async def test_no_mode_permits_a_metadata_service(mode: str) -> None:
    client = Client(1 << 20, node_guard(mode, (ip_network("169.254.169.254/32"),)))
    with pytest.raises(UrlFailed, match=REFUSED):
        await client.ask(RpcUrl("http://169.254.169.254/"), CHAIN_ID)
    await client.close()


async def test_an_estimate_says_what_was_refused() -> None:
    estimator = Estimator(FeeOptions(guard=AddressGuard()))
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
