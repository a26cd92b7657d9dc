"""`RELAYDECK_RPC_GUARD`: a node at an address that is not public is not connected to, unless it is allowed."""

import json
from ipaddress import ip_network
from pathlib import Path

import pytest

from relaydeck.fees import Estimator, FeeOptions
from relaydeck.fees.errors import NodeUnreachable
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.evm.questions import CHAIN_ID
from relaydeck.networks.model import RpcUrl
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
    client = Client(1 << 20, ())
    with pytest.raises(UrlFailed) as failure:
        await client.ask(RpcUrl(f"http://{host}:{listener.port}/v2/secret-key"), CHAIN_ID)
    await client.close()
    await listener.stop()
    assert (failure.value.reason, listener.connections) == (REFUSED, 0)


async def test_an_allowed_address_is_asked() -> None:
    client = Client(1 << 20, LOOPBACK)
    async with fault_nodes("healthy") as (node,):
        assert await client.ask(RpcUrl(node.url), CHAIN_ID) == 31337
    await client.close()


async def test_an_estimate_says_what_was_refused() -> None:
    estimator = Estimator(FeeOptions(allow=()))
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
