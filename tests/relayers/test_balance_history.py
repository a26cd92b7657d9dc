"""The balance history: which balances the monitor writes, how they age, and how they are shown."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relaydeck.errors import BadRequest, RelayerNotFound
from relaydeck.provisioning.document import remove_record
from relaydeck.relayers import balance_history, relayer_rows
from relaydeck.relayers.balance_history import (
    BalancePeriod,
    BalancePoint,
    Range,
    Retention,
    TopUp,
    build_history,
    choose_range,
    next_period,
)
from relaydeck.store.changes import ChangeContext
from relaydeck.store.open_store import Store
from relaydeck.timestamps import utc
from tests.relayers.conftest import ETHER, Watching
from tests.support.running import Running
from tests.support.seeding import fill, issue, opened, relayer
from tests.support.stored_rows import create_row

START = 1_700_000_000
DAY = 86_400
HOUR = START // 3600 * 3600  # the hour that began last


def periods(store: Store, name: str = "r1") -> list[BalancePeriod]:
    rows = store.database.read(
        "SELECT since, until, balance, spent FROM balances JOIN relayers r ON r.seq = relayer_seq"
        " WHERE r.id = :name ORDER BY since",
        {"name": name},
    )
    return [balance_history.from_row(row) for row in rows]


async def test_the_first_balance_is_written_and_an_equal_one_is_not(scene: Watching) -> None:
    scene.add("r1", await scene.node(balance=2**255))
    monitor = scene.process()
    await scene.rounds(monitor, 1)
    first = periods(scene.store)
    assert [(each.balance, each.spent) for each in first] == [(2**255, 0)]
    await scene.rounds(monitor, 2)
    assert periods(scene.store) == first


async def test_an_idle_relayer_has_nothing_to_write_for_an_hour(scene: Watching) -> None:
    scene.add("r1", await scene.node())
    monitor = scene.process(lease_seconds=100_000)  # its renewals are writes too
    await scene.rounds(monitor, 1)
    before = scene.store.database.read("SELECT revision FROM clock")
    await scene.rounds(monitor, 58)
    assert scene.store.database.read("SELECT revision FROM clock") == before


async def test_a_change_is_written_with_what_was_spent(scene: Watching) -> None:
    node = await scene.node(balance=1000)
    scene.add("r1", node)
    monitor = scene.process()
    for balance in (1000, 900, 1900, 1850):
        node.answers["eth_getBalance"] = hex(balance)
        await scene.rounds(monitor, 1)
    assert [(each.balance, each.spent) for each in periods(scene.store)] == [
        (1000, 0),
        (900, 100),
        (1900, 100),
        (1850, 150),
    ]


async def test_two_changes_within_a_second_have_a_row_each(scene: Watching) -> None:
    scene.add("r1", await scene.node(balance=1000))
    monitor = scene.process()
    await scene.rounds(monitor, 1)
    (stored,) = periods(scene.store)
    now = int(scene.clock())
    for balance in (900, 850):
        monitor.recorder.note(1, stored, balance)
    await monitor.recorder.join()
    assert periods(scene.store)[1:] == [BalancePeriod(now, now, 900, 100), BalancePeriod(now + 1, now + 1, 850, 150)]


async def test_a_clock_that_was_set_back_adds_no_row(scene: Watching) -> None:
    scene.add("r1", await scene.node(balance=1000))
    monitor = scene.process()
    await scene.rounds(monitor, 1)
    (stored,) = periods(scene.store)
    scene.clock.pass_(-3600)
    monitor.recorder.note(1, stored, 900)
    await monitor.recorder.join()
    assert periods(scene.store) == [stored]


async def test_an_unchanged_balance_is_confirmed_once_an_hour_in_the_same_row(scene: Watching) -> None:
    scene.add("r1", await scene.node())
    monitor = scene.process()
    await scene.rounds(monitor, 1)
    (first,) = periods(scene.store)
    await scene.rounds(monitor, 59)
    assert periods(scene.store) == [first]
    await scene.rounds(monitor, 2)
    assert periods(scene.store) == [first._replace(until=first.since + 3600)]


async def test_a_deleted_relayer_takes_its_history_along(scene: Watching) -> None:
    scene.add("r1", await scene.node())
    await scene.rounds(scene.process(), 1)
    with scene.store.database.transaction() as transaction:
        remove_record(ChangeContext(transaction, scene.audit, "test", START), "relayers", "r1")
    assert scene.store.database.read("SELECT since FROM balances") == []


async def test_a_relayer_deleted_during_its_check_holds_up_no_other(scene: Watching) -> None:
    node = await scene.node()
    scene.add("r1", node)
    scene.add("r2", node)
    monitor = scene.process()
    monitor.recorder.note(999, None, ETHER)
    await scene.rounds(monitor, 1)
    assert (len(periods(scene.store, "r1")), len(periods(scene.store, "r2"))) == (1, 1)


def test_a_period_continues_or_a_new_one_begins() -> None:
    first = next_period(None, 100, 5)
    assert first == BalancePeriod(5, 5, 100, 0)
    assert next_period(first, 100, 65) == BalancePeriod(5, 65, 100, 0)
    assert next_period(first, 30, 65) == BalancePeriod(65, 65, 30, 70)
    assert next_period(first, 130, 65) == BalancePeriod(65, 65, 130, 0)


@pytest.fixture
def minutes(store: Store) -> Iterator[Callable[[int, Retention], list[int]]]:
    """Spends one wei a minute for so many seconds, and returns what compaction leaves: ages in seconds."""
    now = HOUR

    def spend(seconds: int, retention: Retention) -> list[int]:
        with store.database.transaction() as transaction:
            create_row(relayer_rows.TABLE, transaction, store.vault, relayer("r1"))
            ages = range(seconds, -1, -60)
            balance_history.save(
                transaction, [(1, BalancePeriod(now - ago, now - ago, ago, seconds - ago)) for ago in ages]
            )
            balance_history.compact(transaction, [1], retention, now)
            rows = transaction.all("SELECT since FROM balances ORDER BY since DESC")
        return [now - row.since for row in rows]

    yield spend


Minutes = Callable[[int, Retention], list[int]]


def test_the_history_thins_out_with_age(minutes: Minutes) -> None:
    ages = minutes(8 * DAY, Retention())
    assert [each for each in ages if each <= DAY] == list(range(0, DAY + 1, 60))
    assert [each for each in ages if DAY < each <= 7 * DAY] == list(range(DAY + 60, 7 * DAY + 1, 600))
    assert [each for each in ages if each > 7 * DAY] == list(range(7 * DAY + 60, 8 * DAY + 1, 3600))


def test_what_is_older_than_the_history_is_removed_but_for_the_newest_of_it(minutes: Minutes) -> None:
    assert minutes(3 * DAY, Retention(1, 1, 1))[-1] == DAY + 60


def test_compaction_loses_no_amount(minutes: Minutes, store: Store) -> None:
    minutes(8 * DAY, Retention())
    kept = periods(store)
    assert kept[-1] == BalancePeriod(HOUR, HOUR, 0, 8 * DAY)
    assert kept[-1].spent - kept[0].spent == kept[0].balance
    assert balance_history.top_ups(kept) == []


def at(moment: int, balance: int | None) -> BalancePoint:
    return BalancePoint(at=utc(moment), balance=balance)


def test_a_point_shows_the_balance_at_its_moment() -> None:
    shown = [BalancePeriod(100, 160, 50, 0), BalancePeriod(220, 220, 30, 20), BalancePeriod(340, 400, 80, 20)]
    history = build_history("r1", shown, Range(60, 420, 60))
    assert history.points == (
        *(at(60, None), at(120, 50), at(180, 50), at(240, 30), at(300, 30), at(360, 80), at(420, 80)),
    )
    assert (history.spent, history.top_ups) == (20, (TopUp(at=utc(340), amount=50),))


def test_a_balance_is_not_known_while_the_relayer_was_not_checked() -> None:
    shown = [BalancePeriod(0, 3600, 50, 0), BalancePeriod(DAY, DAY, 50, 0)]
    points = build_history("r1", shown, Range(3600, DAY, 3600)).points
    assert [each.balance for each in points] == [50, *[None] * 22, 50]


def test_a_top_up_and_a_payment_between_two_rows_are_told_apart() -> None:
    shown = [BalancePeriod(0, 0, 100, 0), BalancePeriod(3600, 3600, 130, 70)]
    assert balance_history.top_ups(shown) == [TopUp(at=utc(3600), amount=100)]


def test_the_range_is_the_last_day_unless_requested() -> None:
    assert choose_range(None, None, None, START) == Range(START - DAY, START, 600)
    assert choose_range(START - 90 * DAY, None, None, START) == Range(START - 90 * DAY, START, DAY)
    assert choose_range(0, 600, 60, START) == Range(0, 600, 60)


@pytest.mark.parametrize(("start", "end", "step"), [(10, 9, None), (0, 5000, 1)])
def test_an_impossible_range_is_refused(start: int, end: int, step: int | None) -> None:
    with pytest.raises(BadRequest):
        choose_range(start, end, step, START)


def test_an_unknown_relayer_has_no_history(store: Store) -> None:
    with pytest.raises(RelayerNotFound):
        balance_history.read_history(store.database.read, "nobody", Range(0, 60, 60))


def test_the_admin_api_returns_the_history(home: Path) -> None:
    now = int(time.time()) // 3600 * 3600
    fill(home, relayers=[relayer("r1")])
    with opened(home) as store, store.database.transaction() as transaction:
        paid = [BalancePeriod(now - 7200, now - 3600, 10**30), BalancePeriod(now - 3000, now, 10**30 - 1, 1)]
        balance_history.save(transaction, [(1, each) for each in paid])
    running = Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="0")
    try:
        target = f"/admin/v1/relayers/r1/balances?from={utc(now - 7200)}&to={utc(now)}&step=1h"
        answer = running.ask("GET", target)
        refused = running.ask("GET", "/admin/v1/relayers/r1/balances?from=yesterday")
    finally:
        running.stop()
    assert answer.json["data"] == {
        "relayer_id": "r1",
        "start": utc(now - 7200),
        "end": utc(now),
        "step": "1h",
        "balance": 10**30 - 1,
        "seen_at": utc(now),
        "spent": 1,
        "top_ups": [],
        "points": [
            {"at": utc(now - 7200), "balance": 10**30},
            {"at": utc(now - 3600), "balance": 10**30},
            {"at": utc(now), "balance": 10**30 - 1},
        ],
    }
    assert (refused.status, refused.json["detail"]) == (400, "from must be a moment such as 2026-03-01T00:00:00Z")
