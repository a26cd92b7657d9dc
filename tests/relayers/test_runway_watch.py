"""When the monitor forecasts, warns and takes the warning back; and how the forecast is shown."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from relaydeck.networks import network_rows
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.notifications import events
from relaydeck.relayers import balance_history, runway
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.monitor import Monitor
from relaydeck.store.open_store import Store
from relaydeck.timestamps import utc
from tests.relayers.conftest import Watching
from tests.support.fault_node import FaultNode
from tests.support.running import Running, run_command
from tests.support.seeding import fill, issue, opened, relayer
from tests.support.stored_rows import update_row

START = 1_700_000_000
HOUR = 3600


def spent_hourly(store: Store, balance: int, *, now: int = START, sequence: int = 1, hours: int = 30) -> None:
    """A history of ten wei an hour that ends with this balance."""
    periods = [
        BalancePeriod(now - ago * HOUR, now - ago * HOUR, balance + 10 * ago, 10 * (hours - ago))
        for ago in range(hours, -1, -1)
    ]
    with store.database.transaction() as transaction:
        balance_history.save(transaction, [(sequence, each) for each in periods])


def stored(scene: Watching) -> list[tuple[int | None, int | None]]:
    return [tuple(row) for row in scene.store.database.read("SELECT minimum_at, low_since FROM runways")]


def details(scene: Watching) -> list[dict[str, Any]]:
    return [json.loads(each.data)["details"] for each in events.list_events(scene.store.database.read)]


async def ten_rounds(scene: Watching, monitor: Monitor) -> None:
    await scene.rounds(monitor, 10)


async def watched(scene: Watching, balance: int, **given: Any) -> tuple[FaultNode, Monitor]:
    node = await scene.node(balance=balance)
    scene.add("r1", node, **given)
    spent_hourly(scene.store, balance + 10)
    return node, scene.process()


async def test_a_short_runway_is_reported_once(scene: Watching) -> None:
    node, monitor = await watched(scene, 230, min_balance=100)
    await ten_rounds(scene, monitor)
    assert scene.reported() == [("relayer.runway_low", "r1")]
    (found,) = details(scene)
    assert (found["balance"], found["min_balance"], found["warn_hours"]) == ("230", "100", "24")
    assert (found["spent_per_hour"], 40_000 < int(found["seconds_until_minimum"]) < 50_000) == ("10", True)
    node.answers["eth_getBalance"] = hex(220)
    await ten_rounds(scene, monitor)
    assert scene.reported() == [("relayer.runway_low", "r1")]
    assert scene.audited() == [("monitor", "relayer.runway_low", "r1")]


async def test_a_top_up_takes_the_warning_back_once(scene: Watching) -> None:
    node, monitor = await watched(scene, 130)
    await ten_rounds(scene, monitor)
    node.answers["eth_getBalance"] = hex(10_000)
    await ten_rounds(scene, monitor)
    await ten_rounds(scene, monitor)
    assert [kind for kind, _ in scene.reported()] == ["relayer.runway_low", "relayer.runway_recovered"]
    assert details(scene)[1]["balance"] == "10000"
    assert [low for _, low in stored(scene)] == [None]


async def test_a_long_runway_is_stored_and_not_reported(scene: Watching) -> None:
    _, monitor = await watched(scene, 5000)
    await ten_rounds(scene, monitor)
    ((minimum_at, low_since),) = stored(scene)
    assert (scene.reported(), low_since) == ([], None)
    assert minimum_at is not None
    assert 480 < (minimum_at - START) / HOUR < 520


async def test_an_idle_relayer_costs_no_forecast(scene: Watching) -> None:
    scene.add("r1", await scene.node())
    await ten_rounds(scene, scene.process())
    assert (stored(scene), scene.reported()) == ([], [])


@pytest.mark.parametrize(
    ("network_hours", "relayer_hours", "kinds"),
    [
        (None, None, ["relayer.runway_low"]),
        (2, None, []),
        (2, 24, ["relayer.runway_low"]),
        (24, 0, []),
    ],
)
async def test_a_relayer_or_its_network_sets_the_hours(
    scene: Watching, network_hours: int | None, relayer_hours: int | None, kinds: list[str]
) -> None:
    if network_hours is not None:
        network = Network("dev", "evm", 31337, "ETH", (RpcUrl("http://127.0.0.1:9"),), runway_warn_hours=network_hours)
        with scene.store.database.transaction() as transaction:
            update_row(network_rows.TABLE, transaction, scene.store.vault, network)
    given = {} if relayer_hours is None else {"runway_warn_hours": relayer_hours}
    _, monitor = await watched(scene, 130, **given)
    await ten_rounds(scene, monitor)
    assert [kind for kind, _ in scene.reported()] == kinds


async def test_what_runs_out_first_is_first(scene: Watching) -> None:
    node = await scene.node()
    for name in ("r1", "r2", "r3"):
        scene.add(name, node)
    for sequence, balance in ((1, 900), (2, 300), (3, 600)):
        spent_hourly(scene.store, balance, sequence=sequence)
    node.answers["eth_getBalance"] = hex(290)
    await scene.rounds(scene.process(), 20)
    found = runway.read_first(scene.store, 2, warn_hours=24, now=int(scene.clock()))
    assert len(found) == 2
    times = [each.until_minimum.seconds for each in found if each.until_minimum]
    assert times == sorted(times)


RUNWAY = {
    "relayer_id": "r1",
    "network": "dev",
    "native_symbol": "ETH",
    "balance": 1000,
    "min_balance": 0,
    "warn_hours": 24,
    "low": False,
    "unknown": None,
    "spent_per_hour": 10,
}


def test_the_service_and_the_command_show_the_same(home: Path) -> None:
    fill(home, relayers=[relayer("r1"), relayer("r2")])
    with opened(home) as store:
        spent_hourly(store, 1000, now=int(time.time()) - 60)
    running = Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="0")
    try:
        shown = running.ask("GET", "/admin/v1/relayers/r1/runway").json["data"]
        unknown = running.ask("GET", "/admin/v1/relayers/r2/runway").json["data"]
        server = {"url": f"http://127.0.0.1:{running.port}", "token": running.token}
        remote = json.loads(run_command(home, "relayer", "runway", "r1", "--json", **server).stdout)["runway"]
    finally:
        running.stop()
    typed = json.loads(run_command(home, "relayer", "runway", "r1", "--json").stdout)["runway"]
    for each in (shown, typed, remote):
        assert {name: each[name] for name in RUNWAY} == RUNWAY
        assert 355_000 < each["until_zero"]["seconds"] < 365_000
    assert (unknown["unknown"], unknown["until_zero"]) == ("no balance was read yet", None)


def test_the_command_draws_the_week(home: Path) -> None:
    fill(home, relayers=[relayer("r1"), relayer("r2")])
    with opened(home) as store, store.database.transaction() as transaction:
        now = int(time.time())
        full = BalancePeriod(now - 7 * 86_400, now, 8 * 10**18)
        balance_history.save(transaction, [(1, full), (1, BalancePeriod(now - 60, now, 9 * 10**18))])
    shown = run_command(home, "relayer", "runway", "r1").stdout
    assert "9.000000 ETH" in shown
    assert f"last 7 days  {'▇' * 42}█" in shown
    assert f"top-up       {utc(now - 60)}  1.000000 ETH" in shown
    assert "none: nothing was spent" in shown
    listed = run_command(home, "relayer", "runway", "--first", "5")
    assert "0 relayers with a forecast" in listed.stderr
