"""How the monitor changes relayers when their nodes fail and recover, and when a balance is low."""

import asyncio
import json
from itertools import pairwise

import pytest
from msgspec import UNSET

from relaydeck.networks import network_rows
from relaydeck.networks.model import Network
from relaydeck.notifications import events
from relaydeck.provisioning.document import remove_record
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import DisabledReason
from relaydeck.relayers.snapshots import Incident, NodeProblem
from relaydeck.store.changes import ChangeContext
from tests.notifications.conftest import eventually
from tests.relayers.conftest import ETHER, Watching
from tests.support.fault_node import FaultNode
from tests.support.seeding import ADDRESS
from tests.support.statements import run_statement
from tests.support.stored_rows import update_row

START = 1_700_000_000


NO_NONCE = {"eth_getTransactionCount": {"code": -32601, "message": "the method does not exist"}}


async def revive(node: FaultNode) -> None:
    await node.start(node.port)


async def test_a_healthy_relayer_leaves_no_trace(scene: Watching) -> None:
    node = await scene.node()
    scene.add("r1", node)
    await scene.rounds(scene.process(), 3)
    assert (scene.reported(), scene.audited(), scene.incident("r1")) == ([], [], Incident())
    assert (node.calls["eth_getTransactionCount"], node.calls["eth_getBalance"]) == (3, 3)


# sentence: 3-disabled 2.4-disabled-reasons
async def test_it_is_disabled_after_three_rounds_without_an_answer_and_told_once(scene: Watching) -> None:
    node = await scene.node("dead")
    scene.add("r1", node)
    monitor = scene.process()
    await scene.rounds(monitor, 2)
    assert (scene.relayer("r1").system_disabled, scene.incident("r1").failed_rounds) == (False, 2)
    await scene.rounds(monitor, 4)
    relayer, incident = scene.relayer("r1"), scene.incident("r1")
    shown = f"http://127.0.0.1:{node.port}"
    assert relayer.disabled_reason == DisabledReason(
        f"no RPC URL returned the nonce of {ADDRESS} in 3 rounds since 2023-11-14T22:13:40Z: {shown} refused the "
        "connection. Check that the nodes run and can be reached from here. The relayer is enabled again when one "
        "returns it.",
        "NonceSyncFailed",
    )
    assert (incident.failed_rounds, incident.evidence) == (6, (NodeProblem(shown, "refused the connection"),))
    assert scene.reported() == [("relayer.disabled", "r1")]
    assert scene.audited() == [("monitor", "relayer.disabled", "r1")]


async def test_pages_learn_of_what_they_show_of_an_incident_and_of_nothing_else(scene: Watching) -> None:
    node = await scene.node("dead")
    scene.add("r1", node)
    monitor = scene.process()
    written = [0]
    for _ in range(5):
        await scene.rounds(monitor, 1)
        (row,) = scene.store.database.read("SELECT troubles_written FROM clock", {})
        written.append(row.troubles_written)
    assert [later > earlier for earlier, later in pairwise(written)] == [True, True, True, False, False]


# sentence: 3-disabled
async def test_it_is_enabled_by_itself(scene: Watching) -> None:
    node = await scene.node("dead")
    scene.add("r1", node)
    monitor = scene.process()
    await scene.rounds(monitor, 3)
    await revive(node)
    await scene.rounds(monitor, 2)
    relayer = scene.relayer("r1")
    assert (relayer.system_disabled, relayer.disabled_reason, scene.incident("r1")) == (False, UNSET, Incident())
    assert scene.reported() == [("relayer.disabled", "r1"), ("relayer.enabled", "r1")]


async def test_a_node_that_is_away_for_less_than_that_is_no_news(scene: Watching) -> None:
    node = await scene.node("dead")
    scene.add("r1", node)
    monitor = scene.process()
    for _ in range(3):
        await scene.rounds(monitor, 2)
        await revive(node)
        await scene.rounds(monitor, 1)
        await node.stop()
    assert (scene.reported(), scene.relayer("r1").system_disabled) == ([], False)


@pytest.mark.parametrize("mood", ["dead", "hangs", "wrong_chain", "garbage", "http_500", "closes"])
async def test_one_bad_url_of_two_is_no_news(scene: Watching, mood: str) -> None:
    bad, good = await scene.node(mood), await scene.node()
    scene.add("r1", bad, good)
    await scene.rounds(scene.process(), 4)
    assert (scene.reported(), scene.incident("r1"), scene.relayer("r1").system_disabled) == ([], Incident(), False)
    assert good.calls["eth_getTransactionCount"] == 4


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("hangs", "timed out"),
        ("wrong_chain", "is on chain id 1, not 31337"),
        ("wrong_type", "answered something other than a number"),
        ("http_500", "answered HTTP 500"),
    ],
)
async def test_what_a_node_did_stands_in_the_reason(scene: Watching, mood: str, words: str) -> None:
    node = await scene.node(mood)
    scene.add("r1", node)
    await scene.rounds(scene.process(rounds=1), 1)
    reason = scene.relayer("r1").disabled_reason
    assert isinstance(reason, DisabledReason)
    assert f": http://127.0.0.1:{node.port} {words}. " in reason.details
    assert "secret-key" not in reason.details


@pytest.mark.parametrize("mood", ["http_429", "limit_exceeded", "no_such_method"])
async def test_a_node_that_answers_with_an_error_has_answered(scene: Watching, mood: str) -> None:
    node = await scene.node(mood)
    if mood == "no_such_method":
        node.answers = NO_NONCE
    scene.add("r1", node)
    await scene.rounds(scene.process(rounds=2), 5)
    assert (scene.reported(), scene.incident("r1")) == ([], Incident())


async def test_a_disabled_relayer_waits_for_a_node_that_tells_the_nonce(scene: Watching) -> None:
    node = await scene.node("dead")
    scene.add("r1", node)
    monitor = scene.process()
    await scene.rounds(monitor, 3)
    await revive(node)
    reported, node.answers = node.answers, NO_NONCE
    await scene.rounds(monitor, 1)
    assert scene.relayer("r1").system_disabled
    assert scene.incident("r1").evidence == (
        NodeProblem(f"http://127.0.0.1:{node.port}", "answered error -32601 when asked for the nonce"),
    )
    node.answers = reported
    await scene.rounds(monitor, 1)
    assert not scene.relayer("r1").system_disabled


async def test_the_urls_of_the_network_are_asked_when_there_are_no_others(scene: Watching) -> None:
    scene.add("r1")
    await scene.rounds(scene.process(rounds=1), 1)
    assert scene.incident("r1").evidence == (NodeProblem("http://127.0.0.1:9", "refused the connection"),)


async def test_a_relayer_without_any_url_is_left_alone(scene: Watching) -> None:
    with scene.store.database.transaction() as transaction:
        update_row(network_rows.TABLE, transaction, scene.store.vault, Network("dev", "evm", 31337, "ETH"))
    scene.add("r1")
    await scene.rounds(scene.process(rounds=1), 3)
    assert (scene.reported(), scene.incident("r1")) == ([], Incident())


async def test_a_relayer_whose_urls_do_not_open_is_left_alone_and_holds_nobody_up(scene: Watching) -> None:
    node = await scene.node("dead")
    scene.add("r1", node)
    scene.add("r2", node)
    with scene.store.database.transaction() as transaction:
        broken = {"sealed": bytes.fromhex("0100000001")}
        transaction.execute("UPDATE relayers SET sealed_rpc_urls = :sealed WHERE id = 'r1'", broken)
    await scene.rounds(scene.process(rounds=1), 1)
    assert scene.reported() == [("relayer.disabled", "r2")]


async def test_a_paused_relayer_is_not_asked_about(scene: Watching) -> None:
    node = await scene.node()
    scene.add("r1", node, paused=True)
    await scene.rounds(scene.process(), 3)
    assert node.requests == 0


async def test_rounds_before_a_pause_do_not_count_after_it(scene: Watching) -> None:
    node = await scene.node("dead")
    scene.add("r1", node)
    monitor = scene.process()
    await scene.rounds(monitor, 2)
    scene.pause("r1", paused=True)
    await scene.rounds(monitor, 5)
    scene.pause("r1", paused=False)
    await scene.rounds(monitor, 2)
    assert (scene.incident("r1").failed_rounds, scene.relayer("r1").system_disabled) == (2, False)
    await scene.rounds(monitor, 1)
    assert scene.relayer("r1").system_disabled


async def test_a_relayer_paused_while_disabled_stays_so_until_it_was_looked_at_again(scene: Watching) -> None:
    node = await scene.node("dead")
    scene.add("r1", node)
    monitor = scene.process()
    await scene.rounds(monitor, 3)
    since = scene.incident("r1").failing_since
    scene.pause("r1", paused=True)
    await scene.rounds(monitor, 2)
    scene.pause("r1", paused=False)
    await scene.rounds(monitor, 1)
    assert (scene.relayer("r1").system_disabled, scene.incident("r1").failing_since) == (True, since)
    await revive(node)
    await scene.rounds(monitor, 1)
    assert [kind for kind, _ in scene.reported()] == [
        "relayer.disabled",
        "relayer.paused",
        "relayer.resumed",
        "relayer.enabled",
    ]


# sentence: 2.4-effects
async def test_a_low_balance_is_told_once_until_it_has_recovered(scene: Watching) -> None:
    node = await scene.node(balance=5)
    scene.add("r1", node, min_balance=ETHER)
    monitor = scene.process()
    await scene.rounds(monitor, 3)
    (event,) = events.list_events(scene.store.database.read)
    assert json.loads(event.data)["details"] == {"balance": "5", "min_balance": str(ETHER)}
    assert scene.incident("r1")[3:5] == (START + 20, 5)
    node.answers["eth_getBalance"] = hex(ETHER)
    await scene.rounds(monitor, 2)
    assert scene.incident("r1") == Incident()
    node.answers["eth_getBalance"] = hex(ETHER - 1)
    await scene.rounds(monitor, 2)
    assert scene.reported() == [("relayer.low_balance", "r1")] * 2
    assert scene.audited() == [("monitor", "relayer.low_balance", "r1")] * 2


async def test_a_least_balance_of_zero_is_never_missed(scene: Watching) -> None:
    scene.add("r1", await scene.node(balance=0))
    await scene.rounds(scene.process(), 2)
    assert scene.reported() == []


async def test_a_low_balance_outlives_a_node_that_dies(scene: Watching) -> None:
    node = await scene.node(balance=5)
    scene.add("r1", node, min_balance=ETHER)
    monitor = scene.process()
    await scene.rounds(monitor, 1)
    await node.stop()
    await scene.rounds(monitor, 3)
    await revive(node)
    await scene.rounds(monitor, 2)
    assert [kind for kind, _ in scene.reported()] == ["relayer.low_balance", "relayer.disabled", "relayer.enabled"]


async def test_a_store_that_fails_is_no_end(scene: Watching, capfd: pytest.CaptureFixture[str]) -> None:
    node = await scene.node()
    scene.add("r1", node)
    monitor = scene.process()
    run_statement(scene.store.database, "ALTER TABLE leases RENAME TO elsewhere")
    running = asyncio.create_task(monitor.run())
    await eventually(lambda: "relayers are not checked" in capfd.readouterr().err)
    run_statement(scene.store.database, "ALTER TABLE elsewhere RENAME TO leases")
    await eventually(lambda: monitor._leases.held)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await scene.rounds(monitor, 1)
    assert node.calls["eth_getTransactionCount"] == 1


async def test_only_the_holder_looks(scene: Watching) -> None:
    node = await scene.node()
    scene.add("r1", node)
    one, other = scene.process(), scene.process()
    await one.turn()
    for _ in range(6):
        scene.clock.pass_(10)
        await one.turn()
        assert 0 < await other.turn() <= 30.1
        await one.checks.join()
        await other.checks.join()
    assert node.calls["eth_getTransactionCount"] == 1


async def test_another_takes_over_within_a_lease_period_and_goes_on_counting(scene: Watching) -> None:
    node = await scene.node("dead")
    scene.add("r1", node)
    dies, heir = scene.process(), scene.process()
    await scene.rounds(dies, 2)  # and is heard of no more
    assert 0 < await heir.turn() <= 30.1
    scene.clock.pass_(30)
    await scene.rounds(heir, 1)
    assert scene.reported() == [("relayer.disabled", "r1")]


async def test_a_process_that_is_closed_lets_the_next_begin_at_once(scene: Watching) -> None:
    node = await scene.node()
    scene.add("r1", node)
    one = scene.process()
    await scene.rounds(one, 1)
    await one.close()
    await scene.rounds(scene.process(), 1)
    assert node.calls["eth_getTransactionCount"] == 2


async def test_a_look_that_ends_after_the_lease_was_lost_is_not_written_down(scene: Watching) -> None:
    node = await scene.node("dead")
    scene.add("r1", node)
    slow, heir = scene.process(rounds=1), scene.process(rounds=1)
    await slow.turn()
    slow._leases.seconds = 10_000  # it believes that it still holds it
    await slow._leases.claim(scene.store.database, scene.writer)
    with scene.store.database.transaction() as transaction:
        transaction.execute("UPDATE leases SET expires_at = 0")
    await heir.turn()
    scene.clock.pass_(60)
    await slow.turn()
    await slow.checks.join()
    assert (scene.reported(), scene.incident("r1"), slow._leases.until_claim()) == ([], Incident(), 0)


async def begun(scene: Watching, node: FaultNode) -> None:
    """A look at r1 is under way, and its node does not answer yet."""
    node.delay = 0.3
    monitor = scene.process(rounds=1, lease_seconds=1000)
    await monitor.turn()
    scene.clock.pass_(60)
    await monitor.turn()
    await eventually(lambda: node.requests > 0)


async def test_a_relayer_that_is_deleted_meanwhile_is_forgotten(scene: Watching) -> None:
    node = await scene.node("http_500")
    scene.add("r1", node)
    await begun(scene, node)
    with scene.store.database.transaction() as transaction:
        remove_record(ChangeContext(transaction, scene.audit, "test", 0), "relayers", "r1")
    await scene.monitors[0].checks.join()
    assert (scene.reported(), scene.store.database.read("SELECT * FROM troubles")) == ([], [])


async def test_a_relayer_that_is_changed_meanwhile_is_left_to_the_next_check_at(scene: Watching) -> None:
    node = await scene.node("http_500")
    scene.add("r1", node)
    await begun(scene, node)
    with scene.store.database.transaction() as transaction:
        update_row(relayer_rows.TABLE, transaction, scene.store.vault, scene.relayer("r1"))
    await scene.monitors[0].checks.join()
    assert (scene.reported(), scene.incident("r1")) == ([], Incident())


async def test_a_relayer_that_is_paused_meanwhile_is_not_disabled(scene: Watching) -> None:
    node = await scene.node("http_500")
    scene.add("r1", node)
    await begun(scene, node)
    scene.pause("r1", paused=True)
    await scene.monitors[0].checks.join()
    assert scene.reported() == [("relayer.paused", "r1")]


async def test_trouble_is_erased_with_its_relayer(scene: Watching) -> None:
    scene.add("r1", await scene.node("dead"))
    await scene.rounds(scene.process(), 1)
    with scene.store.database.transaction() as transaction:
        remove_record(ChangeContext(transaction, scene.audit, "test", 0), "relayers", "r1")
    assert scene.store.database.read("SELECT * FROM troubles") == []


async def test_relayers_that_come_and_go_are_followed(scene: Watching) -> None:
    node = await scene.node()
    scene.add("r1", node)
    monitor = scene.process()
    await scene.rounds(monitor, 1)
    scene.add("r2", node)
    await scene.rounds(monitor, 1)
    assert node.calls["eth_getTransactionCount"] == 3
    with scene.store.database.transaction() as transaction:
        remove_record(ChangeContext(transaction, scene.audit, "test", 0), "relayers", "r1")
    scene.follow(monitor, removed=True)
    await scene.rounds(monitor, 1)
    assert node.calls["eth_getTransactionCount"] == 4


async def test_with_no_relayer_left_the_lease_is_given_back(scene: Watching) -> None:
    scene.add("r1", await scene.node())
    monitor = scene.process()
    await scene.rounds(monitor, 1)
    with scene.store.database.transaction() as transaction:
        remove_record(ChangeContext(transaction, scene.audit, "test", 0), "relayers", "r1")
    scene.follow(monitor, removed=True)
    assert await monitor.turn() == 60
    assert scene.store.database.read("SELECT name FROM leases WHERE holder <> ''") == []


async def test_so_many_looks_at_once_and_no_more(scene: Watching) -> None:
    node = await scene.node("hangs")
    for number in range(20):
        scene.add(f"r{number}", node)
    monitor = scene.process(max_checks=4, together=1, lease_seconds=1000)
    await monitor.turn()
    scene.clock.pass_(60)
    await monitor.turn()
    assert len(monitor.checks) == 4
    await asyncio.sleep(0)
    await monitor.turn()
    assert len(monitor.checks) == 4
    node.mood = "healthy"


async def test_many_relayers_of_a_dead_node_do_not_ask_it_more_than_a_few_times(scene: Watching) -> None:
    node = await scene.node("http_500")
    for number in range(100):
        scene.add(f"r{number}", node)
    await scene.rounds(scene.process(), 1)
    assert len(scene.store.database.read("SELECT 1 FROM troubles WHERE failed_rounds = 1")) == 100
    assert node.requests < 40


async def test_relayers_of_one_node_share_requests(scene: Watching) -> None:
    node, other = await scene.node(), await scene.node()
    for number in range(30):
        scene.add(f"r{number}", node if number < 25 else other)
    monitor = scene.process(lease_seconds=1000, together=10)
    await monitor.turn()
    scene.clock.pass_(60)
    await monitor.turn()
    await monitor.checks.join()
    probes = 1
    assert (node.requests, other.requests) == (3 + probes, 1 + probes)
    assert (node.calls["eth_getBalance"], other.calls["eth_getBalance"]) == (25, 5)


async def test_a_node_that_takes_small_batches_only_gets_small_ones(scene: Watching) -> None:
    node = await scene.node()
    node.largest_batch = 40
    for number in range(100):
        scene.add(f"r{number}", node)
    monitor = scene.process()
    await scene.rounds(monitor, 1)
    assert len(scene.store.database.read("SELECT since FROM balances")) == 100
    before = node.requests
    await scene.rounds(monitor, 1)
    assert (scene.reported(), scene.incident("r1")) == ([], Incident())
    assert node.requests - before < 20


async def test_a_node_that_takes_no_batch_is_asked_one_by_one(scene: Watching) -> None:
    node = await scene.node("no_batch")
    for number in range(20):
        scene.add(f"r{number}", node)
    await scene.rounds(scene.process(), 1)
    assert node.calls["eth_getBalance"] == 20
    assert len(scene.store.database.read("SELECT since FROM balances")) == 20


async def test_one_refused_nonce_of_many_costs_one_relayer_its_own_question(scene: Watching) -> None:
    node = await scene.node()
    for number in range(20):
        scene.add(f"r{number}", node, address=f"0x{number:040x}")
    node.refused_address = f"0x{7:040x}"
    await scene.rounds(scene.process(), 1)
    assert node.calls["eth_getTransactionCount"] == 21
    assert (scene.reported(), scene.incident("r7"), scene.incident("r8")) == ([], Incident(), Incident())
