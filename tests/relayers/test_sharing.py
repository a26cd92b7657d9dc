"""Several processes monitor together: every relayer is checked once in a round, whoever joins, leaves or dies."""

from collections import Counter

import pytest

from relaydeck.networks.model import RpcUrl
from relaydeck.relayers.monitor import Monitor
from tests.relayers.conftest import INTERVAL, Watching
from tests.support.recording_node import RecordingNode
from tests.support.seeding import relayer

RELAYERS = 200
STEPS = 12  # of a round


@pytest.fixture
async def node(scene: Watching) -> RecordingNode:
    node = RecordingNode()
    await node.start()
    scene.nodes.append(node)
    urls = (RpcUrl(node.url),)
    scene.add_all(relayer(f"r{number}", custom_rpc_urls=urls, address=f"0x{number:040x}") for number in range(RELAYERS))
    return node


async def turns(scene: Watching, monitors: list[Monitor], count: float) -> None:
    for _ in range(round(count * STEPS)):
        scene.clock.pass_(INTERVAL / STEPS)
        for each in monitors:
            await each.turn()
            await each.checks.join()
            await each.recorder.join()  # a test may write next, on the same connection


def times(node: RecordingNode) -> dict[int, int]:
    """How many relayers were checked how many times."""
    found = dict(Counter(node.asked.values()))
    node.asked.clear()
    return found


async def settled(scene: Watching, *processes: Monitor) -> list[Monitor]:
    for each in processes:
        await each.turn()
    await turns(scene, list(processes), 1)
    return list(processes)


async def test_two_processes_check_half_of_the_relayers_each(scene: Watching, node: RecordingNode) -> None:
    one, other = await settled(scene, scene.process(), scene.process())
    node.asked.clear()
    await turns(scene, [one, other], 3)
    assert times(node) == {3: RELAYERS}
    assert (len(one._leases.fences), len(other._leases.fences)) == (32, 32)


async def test_no_relayer_misses_a_round_or_is_checked_twice_when_a_process_joins(
    scene: Watching, node: RecordingNode
) -> None:
    (one,) = await settled(scene, scene.process())
    node.asked.clear()
    joined = scene.process()
    await turns(scene, [one], 0.25)
    await turns(scene, [one, joined], 2.75)
    assert times(node) == {3: RELAYERS}
    assert len(joined._leases.fences) == 32


async def test_no_relayer_misses_a_round_or_is_checked_twice_when_a_process_leaves(
    scene: Watching, node: RecordingNode
) -> None:
    one, other = await settled(scene, scene.process(), scene.process())
    node.asked.clear()
    await turns(scene, [one, other], 0.5)
    await other.close()
    await turns(scene, [one], 2.5)
    assert times(node) == {3: RELAYERS}


async def test_the_relayers_of_a_dead_process_are_checked_by_the_others_before_the_next_round(
    scene: Watching, node: RecordingNode
) -> None:
    one, _dies = await settled(scene, scene.process(), scene.process())
    node.asked.clear()
    await turns(scene, [one], 1)
    assert sum(times(node).values()) == RELAYERS  # those that became due after the death included
    await turns(scene, [one], 2)
    assert times(node) == {2: RELAYERS}


async def test_a_relayer_under_check_is_not_given_away(scene: Watching, node: RecordingNode) -> None:
    (one,) = await settled(scene, scene.process())
    node.mood = "hangs"
    scene.clock.pass_(INTERVAL / STEPS)
    await one.turn()
    under_check = {one._leases.shard_of(each) for each in one._under_check}
    joined = scene.process()
    for _ in range(4):
        await joined.turn()
        scene.clock.pass_(INTERVAL / STEPS)
        await one.turn()
    busy = {shard for shard in under_check if shard >= 32}
    assert busy and busy <= one._leases.fences.keys()
    assert not busy & joined._leases.fences.keys()
    assert joined._leases.fences
    await one.checks.cancel()


async def test_a_new_relayer_is_checked_by_the_process_that_has_its_shard(scene: Watching, node: RecordingNode) -> None:
    processes = await settled(scene, scene.process(), scene.process())
    scene.add("new", node, address=f"0x{RELAYERS:040x}")
    node.asked.clear()
    await turns(scene, processes, 2)
    assert times(node) == {2: RELAYERS + 1}


async def test_a_process_that_is_late_gives_its_due_relayers_away_at_once(scene: Watching, node: RecordingNode) -> None:
    late = scene.process(max_checks=1, together=1)
    await settled(scene, late)
    node.mood = "hangs"
    for _ in range(6):  # one check is under way, and the others wait for it
        scene.clock.pass_(INTERVAL / STEPS)
        await late.turn()
    joined = scene.process()
    await joined.turn()
    scene.clock.pass_(INTERVAL / STEPS * 2)
    await late.turn()
    assert len(late._leases.fences) in (32, 33)  # one more while the check is about a relayer of a shard to release
    assert late._since.keys() == set(range(32))
    node.mood = "healthy"
    node.asked.clear()
    await joined.turn()
    await turns(scene, [joined], 1 / STEPS)
    assert node.asked.total() > RELAYERS / 2 / 2  # half of its half of a round waited
    await late.checks.cancel()
