"""When relayers are looked at: evenly, whatever their numbers, and once a lap."""

import random
from collections import Counter

import pytest

from relaydeck.scheduling.schedule import Schedule, next_check_at, phase, sorted_phases

INTERVAL = 60.0
START = 1_700_000_000.0


def schedule(numbers: "range | list[int]", start: float = START) -> Schedule:
    made = Schedule(INTERVAL)
    made.add(numbers)
    made.reached = made.position(start)
    return made


def due(made: Schedule, now: float, most: int) -> list[int]:
    return [number for _, number in made.due(now, most)]


def walked(made: Schedule, ticks: list[float], most: int = 10**9) -> list[list[int]]:
    made.reached = made.position(ticks[0])
    return [due(made, tick, most) for tick in ticks[1:]]


def seconds(count: int) -> list[float]:
    return [START + tick for tick in range(count + 1)]


NUMBERINGS = {
    "from one on": list(range(1, 10_001)),
    "every seventh": list(range(7, 70_001, 7)),
    "far up": list(range(10**12, 10**12 + 10_000)),
    "what is left of many": random.Random(1).sample(range(1_000_000), 10_000),
}


@pytest.mark.parametrize("numbers", NUMBERINGS.values(), ids=NUMBERINGS)
def test_ten_thousand_relayers_make_an_even_load(numbers: list[int]) -> None:
    """10,000 in 60 seconds are 167 a second; numbers picked at random spread as a random pick does."""
    each_second = [len(some) for some in walked(schedule(numbers), seconds(60))]
    assert sum(each_second) == 10_000
    assert min(each_second) > 110 and max(each_second) < 225


def test_consecutive_numbers_are_spread_almost_perfectly() -> None:
    each_second = [len(some) for some in walked(schedule(range(1, 10_001)), seconds(60))]
    assert set(each_second) <= {164, 165, 166, 167, 168, 169}


def test_each_is_due_once_a_lap_however_time_is_cut() -> None:
    numbers = list(range(1, 501))
    dice = random.Random(2)
    ticks = sorted(START + dice.uniform(0, 600) for _ in range(300))
    ticks = [START, *ticks, START + 600]
    times = Counter(number for some in walked(schedule(numbers), ticks) for number in some)
    assert times == dict.fromkeys(numbers, 10)


def test_anybody_can_tell_when_one_is_due() -> None:
    numbers = list(range(1, 101))
    walk = schedule(numbers)
    for number in numbers:
        moment = next_check_at(number, INTERVAL, START)
        assert START < moment <= START + INTERVAL
    for moment, number in sorted((next_check_at(number, INTERVAL, START), number) for number in numbers):
        assert walk.until_next(moment - 0.001) == pytest.approx(0.001, abs=1e-4)
        assert due(walk, moment + 0.001, 10) == [number]


def test_who_cannot_keep_up_walks_slower_and_leaves_nobody_out() -> None:
    """500 a lap are due, 100 are taken: everybody has a turn in five laps, and none comes twice before that."""
    numbers = list(range(1, 501))
    taken = walked(schedule(numbers), [START + 60 * tick for tick in range(6)], most=100)
    assert [len(some) for some in taken] == [100] * 5
    assert sorted(number for some in taken for number in some) == numbers


def test_laps_that_were_missed_are_not_made_up_for() -> None:
    (found,) = walked(schedule(range(1, 501)), [START, START + 86_400.0 + 59])
    assert len(found) == len(set(found)) <= 500


def test_a_clock_that_is_set_back_stops_nothing_for_longer_than_a_lap() -> None:
    walk = schedule(range(1, 501))
    due(walk, START - 7200, 1000)
    assert len(due(walk, START - 7140, 1000)) == 500


def test_relayers_come_and_go() -> None:
    made = schedule(range(1, 11))
    made.add([3, 11])
    made.remove([1, 2, 99])
    assert (len(made), bool(schedule([]))) == (9, False)
    (found,) = walked(made, [START, START + 60])
    assert sorted(found) == [3, 4, 5, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("added", [1, 4, 5, 300])
def test_numbers_join_others_in_the_order_of_their_phases_and_once(added: int) -> None:
    made = Schedule(60.0)
    made.replace(sorted_phases(range(0, 2000, 2)))
    for _ in range(2):
        made.add([2, *range(1, 2 * added, 2), 1])
    found = [number for _, number in made.due(60.0, 5000)]
    assert found == sorted({*range(0, 2000, 2), *range(1, 2 * added, 2)}, key=phase)


def test_with_nobody_there_nothing_is_ever_due() -> None:
    walk = schedule([])
    assert (due(walk, START + 3600, 10), walk.until_next(START)) == ([], float("inf"))
    assert walk.reached_at == pytest.approx(START + 3600)


def test_with_nobody_there_and_no_room_the_walk_waits() -> None:
    walk = schedule([])
    assert due(walk, START + 30, 0) == []
    assert walk.reached_at == pytest.approx(START)
