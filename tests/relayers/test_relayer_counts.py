"""What the metrics tell about relayers: counts by network and state, what runs out first, and the monitor's rounds."""

from relaydeck.relayers import balance_history, snapshots
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.monitor import Monitor, MonitorGauges, RoundReport
from relaydeck.relayers.named_relayers import NamedRelayers, count_relayers, read_named
from relaydeck.relayers.snapshots import Incident, StoredRunway
from tests.relayers.conftest import INTERVAL, Watching

STATES = {"total", "paused", "disabled", "low_balance", "low_runway"}


async def test_relayers_are_counted_by_network_and_state(scene: Watching) -> None:
    for name in ("r1", "r2", "r3"):
        scene.add(name, paused=name == "r2")
    with scene.store.database.transaction() as transaction:
        transaction.execute("UPDATE relayers SET system_disabled = :yes WHERE id = 'r3'", {"yes": True})
        snapshots.save_incident(transaction, "r1", Incident(low_since=5, balance=1))
        snapshots.save_runway(transaction, 1, StoredRunway(1, 900, 7))
        snapshots.save_runway(transaction, 2, StoredRunway(1, 500, None))
        snapshots.save_runway(transaction, 3, StoredRunway(1, None, None))
    found = count_relayers(scene.store.database.read)
    assert found.by_state == {
        ("dev", "total"): 3,
        ("dev", "paused"): 1,
        ("dev", "disabled"): 1,
        ("dev", "low_balance"): 1,
        ("dev", "low_runway"): 1,
    }
    assert found.minimum_at == {("dev",): 500}


async def test_relayers_that_are_named_have_figures_of_their_own(scene: Watching) -> None:
    for name in ("r1", "r2", "r3"):
        scene.add(name, paused=name == "r2")
    with scene.store.database.transaction() as transaction:
        transaction.execute("UPDATE relayers SET system_disabled = :yes WHERE id = 'r1'", {"yes": True})
        snapshots.save_incident(transaction, "r1", Incident(low_since=5, balance=1))
        snapshots.save_runway(transaction, 1, StoredRunway(1, 900, 7))
        balance_history.save(transaction, [(1, BalancePeriod(5, 6, 10**30)), (1, BalancePeriod(9, 9, 10**30 - 1))])
    assert read_named(scene.store.database.read, ["r2", "gone", "r1"]) == NamedRelayers(
        balances={("dev", "r1"): 10**30 - 1},
        minimum_at={("dev", "r1"): 900},
        states={
            ("dev", "r1", "paused"): 0,
            ("dev", "r1", "disabled"): 1,
            ("dev", "r1", "low_balance"): 1,
            ("dev", "r1", "low_runway"): 1,
            ("dev", "r2", "paused"): 1,
            ("dev", "r2", "disabled"): 0,
            ("dev", "r2", "low_balance"): 0,
            ("dev", "r2", "low_runway"): 0,
        },
    )


async def test_a_thousand_relayers_can_be_named(scene: Watching) -> None:
    scene.add("r1")
    found = read_named(scene.store.database.read, [f"r{number}" for number in range(1000)])
    assert found.states.keys() == {("dev", "r1", state) for state in STATES - {"total"}}


async def test_a_network_without_relayers_has_zeros(scene: Watching) -> None:
    assert count_relayers(scene.store.database.read).by_state == {("dev", state): 0 for state in STATES}


async def test_the_monitor_reports_its_rounds_its_lag_and_every_check(scene: Watching) -> None:
    node, dead = await scene.node(), await scene.node("dead")
    scene.add("r1", node)
    scene.add("r2", dead)
    checked: list[str] = []
    rounds: list[RoundReport] = []
    monitor: Monitor = scene.process()
    monitor._gauges = MonitorGauges(checked.append, rounds.append)
    await scene.rounds(monitor, 1)
    assert sorted(checked) == ["ok", "unanswered"]
    assert rounds[0] == (0, 0, 64)
    assert rounds[-1] == (int(scene.clock()), 0, 64)
    scene.clock.pass_(INTERVAL)
    before = int(scene.clock())
    await scene.rounds(monitor, 2)
    assert rounds[-1][0] > before


async def test_a_check_that_takes_longer_than_the_interval_is_late(scene: Watching) -> None:
    node = await scene.node("hangs")
    scene.add("r1", node)
    monitor: Monitor = scene.process(lease_seconds=1000)
    await monitor.turn()
    scene.clock.pass_(INTERVAL)
    await monitor.turn()
    assert monitor.lag() == 0
    scene.clock.pass_(INTERVAL + 7)
    await monitor.turn()
    assert monitor.lag() == 7
    await monitor.checks.cancel()
