"""Nodes that lie about a nonce or a balance, beside honest ones: the monitor believes the majority, at one block."""

from typing import Any

import pytest

from relaydeck.networks import network_rows
from relaydeck.networks.model import Network
from relaydeck.relayers.balance_history import TABLE
from relaydeck.relayers.snapshots import Incident
from tests.relayers.conftest import ETHER, Watching
from tests.support.fault_node import FaultNode
from tests.support.seeding import ADDRESS
from tests.support.stored_rows import update_row

LATER = 9  # what the balance is one block later


class AtBlock(FaultNode):
    """It spends between two blocks: the balance depends on the block that is asked for."""

    def _result(self, mood: str, method: str, params: Any) -> Any:
        if method != "eth_getBalance":
            return super()._result(mood, method, params)
        block = self.block if params[1] == "latest" else int(params[1], 16)
        return hex(ETHER if block <= 100 else LATER)


async def a_lie_beside(scene: Watching, honest: int, **lie: Any) -> tuple[FaultNode, list[FaultNode]]:
    """The node that lies is listed first."""
    liar = await scene.node()
    liar.answers |= lie
    return liar, [await scene.node() for _ in range(honest)]


def balances(scene: Watching) -> list[int]:
    return [int(row.balance) for row in scene.store.database.read(f"SELECT balance FROM {TABLE}")]


def requests(*nodes: FaultNode) -> int:
    return sum(node.calls["eth_getBalance"] for node in nodes)


async def test_a_lie_reports_no_low_balance(scene: Watching) -> None:
    liar, honest = await a_lie_beside(scene, 2, eth_getBalance="0x1")
    scene.add("r1", liar, *honest, min_balance=ETHER // 2)
    await scene.rounds(scene.process(), 20)
    assert (scene.reported(), scene.incident("r1"), set(balances(scene))) == ([], Incident(), {ETHER})
    assert liar.calls["eth_getBalance"] < 10  # it has lost rank: the honest ones were asked 20 times each, or nearly


async def test_a_lie_hides_no_low_balance(scene: Watching) -> None:
    liar, honest = await a_lie_beside(scene, 2, eth_getBalance=hex(1000 * ETHER))
    scene.add("r1", liar, *honest, min_balance=2 * ETHER)
    await scene.rounds(scene.process(), 1)
    assert scene.reported() == [("relayer.low_balance", "r1")]
    assert scene.incident("r1").balance == ETHER


@pytest.mark.parametrize("error", [-32000, 3])
async def test_a_node_that_refuses_the_nonce_disables_nothing(scene: Watching, error: int) -> None:
    refused = {"code": error, "message": "execution reverted"}
    liar, honest = await a_lie_beside(scene, 2, eth_getTransactionCount=refused)
    scene.add("r1", liar, *honest)
    await scene.rounds(scene.process(rounds=1), 5)
    assert (scene.reported(), scene.incident("r1"), set(balances(scene))) == ([], Incident(), {ETHER})


async def test_one_node_that_is_back_enables_and_is_not_believed_about_the_balance(scene: Watching) -> None:
    nodes = [await scene.node("dead") for _ in range(3)]
    scene.add("r1", *nodes)
    monitor = scene.process()
    await scene.rounds(monitor, 3)
    assert scene.relayer("r1").system_disabled
    await nodes[0].start(nodes[0].port)
    await scene.rounds(monitor, 2)
    assert (scene.relayer("r1").system_disabled, balances(scene)) == (False, [])
    await nodes[1].start(nodes[1].port)
    await scene.rounds(monitor, 2)
    assert set(balances(scene)) == {ETHER}


async def test_a_disabled_relayer_says_that_the_only_node_refuses_the_nonce(scene: Watching) -> None:
    nodes = [await scene.node("dead") for _ in range(3)]
    scene.add("r1", *nodes)
    monitor = scene.process()
    await scene.rounds(monitor, 3)
    await nodes[0].start(nodes[0].port)
    nodes[0].answers["eth_getTransactionCount"] = {"code": -32601, "message": "the method does not exist"}
    await scene.rounds(monitor, 2)
    assert scene.relayer("r1").system_disabled
    (problem,) = scene.incident("r1").evidence
    assert f"2 nodes decide about the nonce of {ADDRESS}, and only one answers: " in problem.problem
    assert f"http://127.0.0.1:{nodes[0].port} unknown method; " in problem.problem


async def test_without_a_majority_a_balance_is_not_known(scene: Watching) -> None:
    liar, honest = await a_lie_beside(scene, 1, eth_getBalance="0x1")
    with scene.store.database.transaction() as transaction:
        update_row(network_rows.TABLE, transaction, scene.store.vault, Network("dev", "evm", 31337, "ETH", quorum=2))
    scene.add("r1", liar, *honest, min_balance=ETHER // 2)
    await scene.rounds(scene.process(), 3)
    assert (scene.reported(), scene.incident("r1"), balances(scene)) == ([], Incident(), [])


async def test_nodes_that_agree_are_asked_once_and_no_more_than_must_agree(scene: Watching) -> None:
    nodes = [await scene.node() for _ in range(5)]
    for number in range(20):
        scene.add(f"r{number}", *nodes, address=f"0x{number:040x}")
    await scene.rounds(scene.process(), 3)
    assert requests(*nodes) == 2 * 20 * 3
    assert sum(node.calls["eth_getBlockByNumber"] for node in nodes) == 5  # of the probes


async def test_nodes_that_are_a_block_apart_are_asked_about_the_same_block(scene: Watching) -> None:
    nodes = [AtBlock() for _ in range(3)]
    for node in nodes:
        await node.start()
        scene.nodes.append(node)
    nodes[0].block = 101  # two of three have block 100
    scene.add("r1", *nodes, min_balance=ETHER // 2)
    await scene.rounds(scene.process(), 4)
    assert (scene.reported(), set(balances(scene))) == ([], {ETHER})
    nodes[1].block = nodes[2].block = 101
    await scene.rounds(scene.process(), 2)
    assert (scene.reported(), scene.incident("r1").balance) == ([("relayer.low_balance", "r1")], LATER)
