"""How long a balance lasts: the forecast, over a simulated year of different spending, and the warning."""

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from relaydeck.relayers import balance_history
from relaydeck.relayers.balance_history import BalancePeriod, next_period
from relaydeck.relayers.runway import DAY, WEEK, Forecast, RunwayTime, Unknown, forecast, is_low, read_recent, spending
from tests.support.seeding import fill, opened, relayer

GAS = 10**14
YEAR = 365
Payments = list[tuple[int, int]]  # when, in seconds, and how much


def steady(random: random.Random) -> Iterator[tuple[int, int]]:
    """A payment every five minutes, each of another size."""
    for moment in range(300, 2 * YEAR * DAY, 300):
        yield moment, int(GAS * random.uniform(0.7, 1.3))


def bursty(random: random.Random) -> Iterator[tuple[int, int]]:
    """About twenty payments in five minutes, then nothing for one to three hours."""
    moment = 0
    while True:
        moment += int(random.uniform(1, 3) * 3600)
        for _ in range(random.randint(15, 25)):
            moment += random.randint(5, 25)
            yield moment, int(GAS * random.uniform(0.7, 1.3))


def rhythm(random: random.Random) -> Iterator[tuple[int, int]]:
    """Many payments around noon, few at night."""
    for moment in range(240, 2 * YEAR * DAY, 240):
        hour = moment % DAY / 3600
        if random.random() < 0.02 + 0.9 * max(0.0, math.sin((hour - 6) / 12 * math.pi)):
            yield moment, int(GAS * random.uniform(0.7, 1.3))


def payments(pattern: Callable[[random.Random], Iterator[tuple[int, int]]], days: int) -> Payments:
    found: Payments = []
    for moment, amount in pattern(random.Random(14)):  # the same year in every run
        if moment > days * DAY:
            break
        found.append((moment, amount))
    return found


class Judged(NamedTuple):
    """A forecast at noon, and how long the balance really lasted without another top-up."""

    day: int
    found: Forecast | Unknown
    truth: int | None

    @property
    def ratio(self) -> float:
        """Above 1: too optimistic."""
        assert isinstance(self.found, Forecast)
        assert self.truth
        return self.found.until_zero.seconds / self.truth


def live(paid: Payments, funds: int, top_up_below: int) -> list[Judged]:
    """A year of a relayer that is checked each minute and topped up by `funds` when it has less than that."""
    moments, total = [moment for moment, _ in paid], [0]
    for _, amount in paid:
        total.append(total[-1] + amount)
    history, judged, balance, done, first = [BalancePeriod(0, 0, funds)], [], funds, 0, 0
    for day in range(YEAR):
        noon = day * DAY + DAY // 2
        while done < len(paid) and moments[done] <= noon:
            balance -= paid[done][1]
            balance += funds if balance < top_up_below else 0
            seen = -(-moments[done] // 60) * 60
            done += 1
            if done == len(paid) or -(-moments[done] // 60) * 60 > seen:
                history.append(next_period(history[-1], balance, seen))
        while first + 1 < len(history) and history[first + 1].since <= noon - WEEK:
            first += 1
        last = bisect_left(total, total[bisect_right(moments, noon)] + balance)
        truth = moments[last - 1] - noon if last < len(total) else None
        judged.append(Judged(day, forecast(history[first:], min_balance=0, now=noon), truth))
    return judged


def a_day_of(paid: Payments) -> int:
    return sum(amount for _, amount in paid) * DAY // paid[-1][0]


CASES = {
    # The pattern, the days that a top-up lasts, and the days that are left when it comes.
    "steady": (steady, 40, 10),
    "bursty": (bursty, 40, 10),
    "daily rhythm": (rhythm, 40, 10),
    "top-ups": (rhythm, 8, 1),
    "top-ups of bursty spending": (bursty, 8, 1),
}


def shown(name: str) -> list[str]:
    """What the page says of it."""
    lines = (Path(__file__).parents[2] / "docs" / "runway.md").read_text("utf-8").splitlines()
    (found,) = [line.strip("| ").split(" | ") for line in lines if line.startswith((f"| {name}: ", f"| {name} |"))]
    return found[1:]


@pytest.mark.parametrize(
    "name", ["bursty", *(pytest.param(each, marks=[pytest.mark.prove, pytest.mark.parallel]) for each in CASES)]
)
def test_a_year_of_forecasts(name: str) -> None:
    pattern, funded_days, top_up_days = CASES[name]
    paid = payments(pattern, YEAR + funded_days + 20)
    each_day = a_day_of(paid)
    judged = [each for each in live(paid, funded_days * each_day, top_up_days * each_day) if each.day >= 1]
    ratios = sorted(each.ratio for each in judged)
    within = sum(0.8 <= each <= 1.2 for each in ratios) / len(ratios)
    assert len(ratios) == YEAR - 1
    assert shown(name) == [f"{within * 100:.1f} %", f"{ratios[0]:.2f} to {ratios[-1]:.2f}"]
    assert within >= 0.9
    assert ratios[-1] < 2


def test_one_large_payment_counts_for_twice_the_next_and_a_repeated_one_counts_in_full() -> None:
    once = [*hourly(24, 1, 9000), BalancePeriod(25 * 3600, 0, 0, 1024)]
    twice = [*once, BalancePeriod(26 * 3600, 0, 0, 2024)]
    assert (spending(once, "week", 25 * 3600).total, spending(twice, "week", 26 * 3600).total) == (26, 2024)


@pytest.mark.prove
@pytest.mark.parallel
def test_one_large_payment_does_not_decide_and_is_over_after_a_week() -> None:
    """A payment of half a year's spending on day 100: the rate before and after it is the same."""
    paid = payments(steady, YEAR)
    each_day = a_day_of(paid)
    large = (100 * DAY + 7, 180 * each_day)
    judged = live(sorted([*paid, large]), 600 * each_day, 0)
    rates = [each.found.spent_per_hour * 24 / each_day for each in judged if isinstance(each.found, Forecast)]
    assert len(rates) == YEAR
    assert max(abs(rate - 1) for rate in rates) < 0.1


def test_an_idle_relayer_has_no_forecast() -> None:
    judged = live([(3 * DAY, GAS), (2 * YEAR * DAY, GAS)], 10 * GAS, 0)
    assert {each.found for each in judged} == {"nothing was spent"}


def hourly(hours: int, amount: int, funds: int) -> list[BalancePeriod]:
    return [BalancePeriod(3600 * n, 3600 * n, funds - n * amount, n * amount) for n in range(hours + 1)]


def test_the_numbers_of_an_even_spender() -> None:
    """One wei an hour, a thousand left, two hundred of them untouchable."""
    found = forecast(hourly(200, 1, 1200), min_balance=200, now=200 * 3600)
    assert found == Forecast(
        balance=1000,
        spent_per_hour=1,
        window="day",
        until_minimum=RunwayTime(800 * 3600, 800 * 3600, 800 * 3600),
        until_zero=RunwayTime(1000 * 3600, 1000 * 3600, 1000 * 3600),
    )


def test_the_shorter_of_day_and_week_counts() -> None:
    faster = [*hourly(168, 1, 1000), *(BalancePeriod(3600 * n, 0, 500, 168 + 3 * (n - 168)) for n in range(169, 193))]
    slower = [*hourly(168, 3, 1000), *(BalancePeriod(3600 * n, 0, 500, 504 + n - 168) for n in range(169, 193))]
    now = 192 * 3600
    both = [forecast(each, min_balance=0, now=now) for each in (faster, slower)]
    assert [each.window for each in both if isinstance(each, Forecast)] == ["day", "week"]


def test_the_range_is_that_of_the_heaviest_and_the_lightest_day() -> None:
    spent = [10, 20, 30, 10, 20, 30, 20]
    periods = [BalancePeriod(0, 0, 1140, 0)]
    for day, amount in enumerate(spent):
        for half in (1, 2):
            moment = day * DAY + half * DAY // 2
            periods.append(next_period(periods[-1], periods[-1].balance - amount // 2, moment))
    found = forecast(periods, min_balance=0, now=WEEK)
    assert isinstance(found, Forecast)
    assert (found.until_zero.earliest_seconds, found.until_zero.latest_seconds) == (1000 * DAY // 30, 1000 * DAY // 10)
    assert found.until_zero.earliest_seconds <= found.until_zero.seconds <= 1000 * DAY // 10


def test_a_top_up_is_not_spending() -> None:
    periods = [*hourly(24, 1, 100), BalancePeriod(25 * 3600, 0, 1076, 24)]
    assert spending(periods, "day", 25 * 3600).total == 23


def test_a_balance_at_its_minimum_has_no_time_left() -> None:
    found = forecast(hourly(48, 1, 100), min_balance=60, now=48 * 3600)
    assert isinstance(found, Forecast)
    assert found.until_minimum == RunwayTime(0, 0, 0)


@pytest.mark.parametrize(
    ("periods", "why"),
    [
        ([], "no balance was read yet"),
        ([BalancePeriod(999, 999, 5)], "the history is shorter than an hour"),
        ([BalancePeriod(-9999, 0, 5)], "nothing was spent"),
        ([BalancePeriod(-9999, 0, 5), BalancePeriod(10, 10, 4, 1)], "nothing was spent"),  # once is no rate
    ],
)
def test_what_is_not_known_is_unknown(periods: list[BalancePeriod], why: str) -> None:
    assert forecast(periods, min_balance=0, now=1000) == why


def lasting(hours: float) -> Forecast:
    span = RunwayTime(int(hours * 3600), 0, None)
    return Forecast(1, 1, "day", span, span)


@pytest.mark.parametrize(
    ("found", "was_low", "balance", "low"),
    [
        (lasting(24), False, 9, False),
        (lasting(23.9), False, 9, True),
        (lasting(35.9), True, 9, True),
        (lasting(36), True, 9, False),
        ("nothing was spent", True, 9, False),
        ("nothing was spent", True, 5, True),
        ("nothing was spent", False, 5, False),
        ("the history is shorter than an hour", True, 9, True),
    ],
)
def test_a_warning_begins_and_ends_at_different_limits(
    found: Forecast | Unknown, was_low: bool, balance: int, low: bool
) -> None:
    assert is_low(found, warn_hours=24, was_low=was_low, min_balance=5, balance=balance) is low


def test_no_hours_turn_the_warning_off() -> None:
    assert not is_low(lasting(0), warn_hours=0, was_low=True, min_balance=0, balance=0)


def test_a_forecast_reads_at_most_one_balance_of_each_quarter_of_an_hour(home: Path) -> None:
    fill(home, relayers=[relayer("r1")])
    with opened(home) as store:
        with store.database.transaction() as transaction:
            stored = [(1, BalancePeriod(since, since, since % 7, 0)) for since in range(0, 8 * DAY, 120)]
            balance_history.save(transaction, stored)
        kept = [each.since for each in read_recent(store.database.read, 1, 8 * DAY)]
    assert kept == [*range(DAY + 3480, 7 * DAY, 3600), 7 * DAY, *quarters(7 * DAY, 8 * DAY)]


def quarters(start: int, end: int) -> list[int]:
    """The last even minute of each quarter of an hour."""
    return [(each - 1) // 120 * 120 for each in range(start + 900, end + 1, 900)]
