"""`relaydeck relayer why` and `GET /admin/v1/relayers/{id}/why`: the same explanation, with nothing secret in it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from relaydeck.fees.estimator import Estimator
from relaydeck.networks import network_rows
from relaydeck.networks.evm.node import Fault
from relaydeck.networks.evm.node_figures import NodeFigures, fault_key, write_figures
from relaydeck.networks.model import Network
from relaydeck.relayers import balance_history, snapshots, why
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.model import DisabledReason
from relaydeck.relayers.snapshots import StoredRunway
from relaydeck.scheduling.schedule import next_check_at
from relaydeck.settings.model import Settings
from tests.relayers.conftest import ETHER, INTERVAL, Watching
from tests.support.fault_node import fault_nodes
from tests.support.running import Running, run_command
from tests.support.seeding import ADDRESS, fill, issue, opened, relayer
from tests.support.stored_rows import update_row

OFF = {"monitor_interval_seconds": "0"}


async def explained(scene: Watching, name: str, interval: float = INTERVAL) -> dict[str, Any]:
    estimator = Estimator(scene.options)
    known = why.read(scene.store.database.read, scene.store.vault, name, 3)
    try:
        found = await why.explain(known, estimator.pool, interval=interval, now=scene.clock())
        shown: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
        return shown
    finally:
        await estimator.close()


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    """Without what a busy machine decides."""
    for node in found["nodes"]:
        assert node.pop("milliseconds") >= 0
    return found


async def test_a_relayer_that_is_well(scene: Watching) -> None:
    node = await scene.node()
    scene.add("r1", node)
    monitor = scene.process()
    await scene.rounds(monitor, 1)
    assert timeless(await explained(scene, "r1")) == {
        "id": "r1",
        "address": ADDRESS,
        "network": "dev",
        "states": [],
        "nodes": [
            {
                "node": f"http://127.0.0.1:{node.port}",
                "weight": 1,
                "ok": True,
                "problem": None,
                "chain_id": 31337,
                "block": 100,
                "blocks_behind": 0,
                "last_fault": None,
                "last_fault_at": None,
                "last_problem": None,
                "last_problem_at": None,
            }
        ],
        "monitor": "checks every 60 s",
        "next_probe_at": "2023-11-14T22:14:37Z",
        "signer_check": None,
    }
    moment = next_check_at(1, INTERVAL, scene.clock())
    before = node.calls["eth_getTransactionCount"]
    scene.clock.now = moment - 0.01
    await monitor.turn()
    await monitor.checks.join()
    assert node.calls["eth_getTransactionCount"] == before
    scene.clock.now = moment + 0.01
    await monitor.turn()
    await monitor.checks.join()
    assert node.calls["eth_getTransactionCount"] == before + 1


async def test_a_node_that_is_behind_is_shown_with_its_distance(scene: Watching) -> None:
    nodes = await scene.node(), await scene.node(), await scene.node("dead")
    nodes[1].block = 60
    scene.add("r1", *nodes)
    found = await explained(scene, "r1")
    assert [node["blocks_behind"] for node in found["nodes"]] == [0, 40, None]


async def test_blocks_of_another_chain_do_not_count(scene: Watching) -> None:
    nodes = await scene.node(), await scene.node(), await scene.node("wrong_chain")
    nodes[1].block, nodes[2].block = 99, 20_000_000
    scene.add("r1", *nodes)
    found = await explained(scene, "r1")
    shown = [(node["ok"], node["block"], node["blocks_behind"]) for node in found["nodes"]]
    assert shown == [(True, 100, 0), (True, 99, 1), (False, 20_000_000, None)]


async def test_what_is_wrong_is_told_with_its_cause_and_beside_what_the_nodes_do_now(scene: Watching) -> None:
    gone, other = await scene.node("dead"), await scene.node(balance=5)
    scene.add("r1", gone, other, min_balance=ETHER)
    monitor = scene.process()
    await scene.rounds(monitor, 1)
    other.mood = "http_500"
    await scene.rounds(monitor, 3)
    scene.pause("r1", paused=True)
    other.mood = "healthy"
    found = timeless(await explained(scene, "r1"))
    reason = scene.relayer("r1").disabled_reason
    assert isinstance(reason, DisabledReason)
    assert found["states"] == [
        {
            "state": "paused",
            "since": "2023-11-14T22:17:20Z",
            "by": "test",
            "cause": "an operator paused it; its nodes are not checked until it is resumed",
        },
        {
            "state": "disabled",
            "since": "2023-11-14T22:16:40Z",
            "by": "monitor",
            "cause": f"NonceSyncFailed: {reason.details}",
        },
        {
            "state": "low_balance",
            "since": "2023-11-14T22:13:40Z",
            "by": "monitor",
            "cause": f"its balance is 5 Wei, and its minimum is {ETHER} Wei",
        },
    ]
    assert [(node["problem"], node["last_problem"], node["last_problem_at"]) for node in found["nodes"]] == [
        ("refused the connection", "refused the connection", "2023-11-14T22:16:40Z"),
        (None, "answered HTTP 500", "2023-11-14T22:16:40Z"),
    ]
    assert (found["monitor"], found["next_probe_at"]) == ("does not check this relayer until it is resumed", None)


async def test_rounds_that_failed_are_told_before_it_is_disabled(scene: Watching) -> None:
    scene.add("r1", await scene.node("dead"))
    await scene.rounds(scene.process(), 2)
    found = await explained(scene, "r1")
    assert found["states"] == [
        {
            "state": "failing",
            "since": "2023-11-14T22:13:40Z",
            "by": "monitor",
            "cause": "no RPC URL answered in 2 of 3 rounds; after 3 it is disabled",
        }
    ]


async def test_it_says_why_nobody_looks(scene: Watching) -> None:
    scene.add("r1")
    assert (await explained(scene, "r1", interval=0))["monitor"] == "off: RELAYDECK_MONITOR_INTERVAL_SECONDS is 0"
    with scene.store.database.transaction() as transaction:
        update_row(network_rows.TABLE, transaction, scene.store.vault, Network("dev", "evm", 31337, "ETH"))
    found = await explained(scene, "r1")
    assert (found["nodes"], found["next_probe_at"]) == ([], None)
    assert found["monitor"] == "does not check this relayer: neither it nor its network has a readable RPC URL"


@asynccontextmanager
async def served(home: Path) -> AsyncIterator[Running]:
    token = issue(home, "root", "admin")
    running = await asyncio.to_thread(lambda: Running(home, token=token, **OFF))
    try:
        yield running
    finally:
        await asyncio.to_thread(running.stop)


async def test_the_command_and_the_service_say_the_same_change_nothing_and_tell_no_secret(home: Path) -> None:
    async with fault_nodes("healthy") as (node,):
        fill(home, node=node.url, relayers=[relayer("r1")])
        async with served(home) as running:
            before = _revision(home)
            answer = await asyncio.to_thread(running.ask, "GET", "/admin/v1/relayers/r1/why")
            typed = await asyncio.to_thread(lambda: run_command(home, "relayer", "why", "r1", "--json", **OFF))
            table = await asyncio.to_thread(lambda: run_command(home, "relayer", "why", "r1", **OFF))
            assert _revision(home) == before
    assert (answer.status, typed.returncode, typed.stderr) == (200, 0, "")
    assert timeless(json.loads(typed.stdout)) == timeless(answer.json["data"])
    assert f"http://127.0.0.1:{node.port}" in table.stdout and "the relayer has no problem" in table.stdout
    for said in (answer.body.decode(), typed.stdout, table.stdout, running.log):
        assert "secret-key" not in said


def _revision(home: Path) -> int:
    with opened(home) as store:
        revision: int = store.database.read("SELECT revision FROM clock")[0][0]
        return revision


async def test_a_relayer_that_is_not_there(home: Path) -> None:
    fill(home)
    typed = await asyncio.to_thread(run_command, home, "relayer", "why", "nobody")
    assert (typed.returncode, typed.stdout) == (1, "")
    assert typed.stderr == "relaydeck: Relayer with ID nobody not found\n"
    async with served(home) as running:
        answer = await asyncio.to_thread(running.ask, "GET", "/admin/v1/relayers/nobody/why")
    assert (answer.status, answer.json["detail"]) == (404, "Relayer with ID nobody not found")


async def test_the_command_does_not_call_a_relayer_fine_whose_nodes_fail(home: Path) -> None:
    async with fault_nodes("http_500") as (node,):
        fill(home, node=node.url, relayers=[relayer("r1")])
        typed = await asyncio.to_thread(lambda: run_command(home, "relayer", "why", "r1", **OFF))
    assert typed.returncode == 0
    assert "the relayer is enabled and not paused, but 1 of its 1 nodes fails now" in typed.stdout
    assert "has no problem" not in typed.stdout and "answered HTTP 500" in typed.stdout


async def test_the_command_and_the_service_show_the_last_fault_that_a_worker_saw(home: Path) -> None:
    async with fault_nodes("healthy", "healthy") as (shaky, steady):
        fill(home, node=shaky.url, relayers=[relayer("r1")])
        faults = {
            fault_key(31337, shaky.url): Fault("timed out", 1_900_000_000.0),
            fault_key(5, shaky.url): Fault("is on chain id 31337, not 5", 1_900_000_030.0),
            fault_key(31337, f"{shaky.url}/another-path"): Fault("answered HTTP 404", 1_900_000_040.0),
            fault_key(31337, steady.url): Fault("answered HTTP 500", 1_900_000_060.0),
        }
        async with served(home) as running:
            write_figures(Settings(home=home).run_folder, NodeFigures(faults=faults))
            answer = await asyncio.to_thread(running.ask, "GET", "/admin/v1/relayers/r1/why")
            typed = await asyncio.to_thread(lambda: run_command(home, "relayer", "why", "r1", "--json", **OFF))
    for found in (answer.json["data"], json.loads(typed.stdout)):
        (reported,) = found["nodes"]
        shown = reported["ok"], reported["last_fault"], reported["last_fault_at"]
        assert shown == (True, "timed out", "2030-03-17T17:46:40Z")


async def test_a_refused_address_is_told_and_not_connected_to(home: Path) -> None:
    async with fault_nodes("healthy") as (node,):
        fill(home, node=node.url, relayers=[relayer("r1")])
        typed = await asyncio.to_thread(lambda: run_command(home, "relayer", "why", "r1", "--json", rpc_guard="on"))
    (reported,) = json.loads(typed.stdout)["nodes"]
    assert reported["problem"] == "leads to an address that RELAYDECK_RPC_GUARD refuses"
    assert node.requests == 0


async def test_a_runway_that_is_short_is_a_state(scene: Watching) -> None:
    scene.add("r1", await scene.node())
    with scene.store.database.transaction() as transaction:
        snapshots.save_runway(transaction, 1, StoredRunway(computed_at=1, minimum_at=2, low_since=1_700_000_000))
    assert (await explained(scene, "r1"))["states"] == [
        {
            "state": "low_runway",
            "since": "2023-11-14T22:13:20Z",
            "by": "monitor",
            "cause": "its balance is expected to reach its minimum at 1970-01-01T00:00:02Z",
        }
    ]
    with scene.store.database.transaction() as transaction:
        balance_history.save(transaction, [(1, BalancePeriod(2000, 2060, 0, 1))])
    (state,) = (await explained(scene, "r1"))["states"]
    assert state["cause"] == "its balance has reached its minimum"
