"""Prices from the answers of feeds and pools, at the bounds of each rule. No node takes part."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from relaydeck.fees.errors import InternalFailure, InvalidParams, NoFreshRate
from relaydeck.fees.exact import scaled
from relaydeck.fees.rates import (
    Feed,
    Observation,
    Quote,
    Round,
    Sequencer,
    check_move,
    feeds_of,
    find_token,
    median_of,
    observe_data,
    price_at,
    quote_of,
    read_before,
    read_observation,
    read_round,
    read_sequencer,
    sources_of,
)
from relaydeck.networks.model import CrossedRate, FeedRate, MedianRate, PoolRate
from tests.support.fault_node import words
from tests.support.fee_chain import call_data
from tests.support.fee_scene import network, token

A, B, C = "0x" + "aa" * 20, "0x" + "bb" * 20, "0x" + "cc" * 20
BOUNDS: dict[str, Any] = {
    "native_max_age": 1,
    "native_min_price": Decimal(2),
    "native_max_price": Decimal(3),
    "native_max_move_percent": Decimal(4),
    "token_max_age": 5,
    "token_min_price": Decimal(6),
    "token_max_price": Decimal(7),
    "token_max_move_percent": Decimal(8),
}
OWN_BOUNDS: dict[str, Any] = {"min_price": Decimal(6), "max_price": Decimal(7), "max_move_percent": Decimal(8)}
CROSSED = CrossedRate(native_usd=A, token_usd=B, max_age=60, **BOUNDS)
CROSSED_FEEDS = (
    Feed(A, 1, Decimal(2), Decimal(3), Decimal(4), must_show_move=True),
    Feed(B, 5, Decimal(6), Decimal(7), Decimal(8), must_show_move=True),
)


def answer(price: int, decimals: int = 0, feed: str = A) -> Round:
    return Round(Feed(feed, 60), decimals, price, 9, 1000)


@pytest.mark.parametrize(
    ("source", "feeds"),
    [
        (FeedRate(feed=A, max_age=60), (Feed(A, 60),)),
        (CROSSED, CROSSED_FEEDS),
        (
            MedianRate(feeds=(C,), crossed=(CROSSED,), max_age=60, max_spread_percent=Decimal(1)),
            (Feed(C, 60), *CROSSED_FEEDS),
        ),
        (
            MedianRate(
                feeds=(C,),
                bounded_feeds=(FeedRate(feed=B, max_age=5, **OWN_BOUNDS), FeedRate(feed=A, max_age=7)),
                crossed=(CROSSED,),
                max_age=60,
                max_spread_percent=Decimal(1),
            ),
            (Feed(C, 60), CROSSED_FEEDS[1], Feed(A, 7), *CROSSED_FEEDS),
        ),
        (PoolRate(pool=C, window=60, min_liquidity=Decimal(1)), ()),
        (PoolRate(pool=C, window=60, min_liquidity=Decimal(1), native_feed=A), (Feed(A, 3600),)),
        (PoolRate(pool=C, window=60, min_liquidity=Decimal(1), native_feed=A, native_max_age=9), (Feed(A, 9),)),
        (
            PoolRate(
                pool=C,
                window=60,
                min_liquidity=Decimal(1),
                native_feed=A,
                native_min_price=Decimal(2),
                native_max_price=Decimal(3),
                native_max_move_percent=Decimal(4),
            ),
            (Feed(A, 3600, Decimal(2), Decimal(3), Decimal(4), must_show_move=True),),
        ),
    ],
)
def test_the_feeds_of_a_rate(source: Any, feeds: tuple[Feed, ...]) -> None:
    assert tuple(feed for each in sources_of(source) for feed in feeds_of(each)) == feeds


MEDIAN: dict[str, Any] = {"feeds": (A,), "max_age": 60, "max_spread_percent": Decimal(1)}


@pytest.mark.parametrize(
    ("fields", "pool"),
    [
        ({"dex_pool": C}, PoolRate(pool=C, window=1800, min_liquidity=Decimal(0))),
        (
            {"dex_pool": C, "dex_window": 60, "dex_min_liquidity": Decimal(7), "dex_short_window": True},
            PoolRate(pool=C, window=60, min_liquidity=Decimal(7), short_window=True),
        ),
    ],
)
def test_the_pool_of_a_median(fields: dict[str, Any], pool: PoolRate) -> None:
    assert sources_of(MedianRate(**MEDIAN)) == (FeedRate(feed=A, max_age=60),)
    assert sources_of(MedianRate(**MEDIAN, **fields)) == (FeedRate(feed=A, max_age=60), pool)


def test_the_call_of_observe() -> None:
    assert observe_data(1800) == call_data("observe(uint32[])", [1800, 0])


def observed(ticks: tuple[int, int], per_liquidity: tuple[int, int], window: int = 10) -> Observation:
    returned = words(64, 160, 2, *ticks, 2, *per_liquidity)
    return read_observation(A, bytes.fromhex(returned[2:]), window)


@pytest.mark.parametrize(
    ("ticks", "per_liquidity", "found"),
    [
        ((1000, 1070), (5, (10 << 128) // 3 + 5), Observation(7, 3)),
        ((-1070, -1000), (0, (10 << 128) // 3), Observation(7, 3)),
        ((8_872_720, 17_745_440), (0, 1 << 128), Observation(887_272, 10)),
        ((17_745_440, 8_872_720), (0, 1 << 128), Observation(-887_272, 10)),
        ((0, 0), ((1 << 160) - 1, 0), Observation(0, 10 << 128)),  # the pool's counter has started again
    ],
)
def test_averages_over_the_window(ticks: tuple[int, int], per_liquidity: tuple[int, int], found: Observation) -> None:
    assert observed(ticks, per_liquidity) == found


@pytest.mark.parametrize(
    ("ticks", "per_liquidity"),
    [((0, 8_872_730), (0, 1)), ((8_872_730, 0), (0, 1)), ((0, 0), (7, 7))],
)
def test_an_impossible_observation(ticks: tuple[int, int], per_liquidity: tuple[int, int]) -> None:
    with pytest.raises(NoFreshRate) as failure:
        observed(ticks, per_liquidity)
    assert failure.value.description == f"pool {A} answers an impossible observation"


@pytest.mark.parametrize(
    "numbers", [(64, 160, 1, 0, 0, 2, 0, 1), (64, 160, 2, 0, 0, 1, 0, 1), (64, 160, 2, 0, 0, 2, 0)]
)
def test_the_answer_of_another_contract(numbers: tuple[int, ...]) -> None:
    with pytest.raises(NoFreshRate) as failure:
        read_observation(A, bytes.fromhex(words(*numbers)[2:]), 10)
    assert failure.value.description == f"pool {A} does not answer as a Uniswap v3 pool does"


def test_a_price_without_fraction() -> None:
    assert price_at(0, 18, 6) == scaled(10**12, 0)
    assert price_at(0, 6, 18) == scaled(1, 12)


def moved(before: tuple[int, int], most: Decimal) -> Round:
    feed = Feed(A, 60, max_move_percent=most, must_show_move=True)
    return Round(feed, 0, 2000, 9, 10_000, read_before([8, before[0] % (1 << 256), 0, before[1], 8]))


@pytest.mark.parametrize("before", [(1, 10_000), (2000, 1), (1905, 10_000), (1800, 2800), (2000, 10_000)])
def test_a_move_within_its_bound(before: tuple[int, int]) -> None:
    """Of 1905 five percent are 95.25. 7200 s after 1800, twice five percent and a half are 199.98 and a bit."""
    check_move(moved(before, {1: Decimal(199_900), 1800: Decimal("5.5556")}.get(before[0], Decimal(5))))


def test_a_move_of_exactly_its_bound() -> None:
    check_move(moved((1600, 10_000), Decimal(25)))
    with pytest.raises(NoFreshRate) as failure:
        check_move(moved((1600, 10_000), Decimal("24.99")))
    problem = "moved from 1600 to 2000, more than max_move_percent 24.99 per hour"
    assert failure.value.description == f"feed {A} {problem}"


@pytest.mark.parametrize("before", [(0, 5000), (-1, 5000), (2000, 0), (2000, 10_001)])
def test_an_earlier_round_that_cannot_be_compared(before: tuple[int, int]) -> None:
    found = moved(before, Decimal(5))
    with pytest.raises(NoFreshRate) as failure:
        check_move(found)
    assert failure.value.description == f"feed {A} has no usable round before 9"
    check_move(replace(found, feed=Feed(A, 60)))  # no bound is declared


def test_a_feed_without_declared_bounds() -> None:
    """A thousandth of a price is refused as a move, and a billion times it as a price."""
    check_move(Round(Feed(A, 60), 0, 1500, 9, 10_000, (1000, 9_999)))
    with pytest.raises(NoFreshRate, match="more than max_move_percent 50 per hour"):
        check_move(Round(Feed(A, 60), 0, 1501, 9, 10_000, (1000, 9_999)))
    for price, problem in ((10**12 + 1, "more than max_price 1000000000000"), (-1, "not positive")):
        with pytest.raises(NoFreshRate, match=problem):
            read_round(Feed(A, 60), 0, [9, price % (1 << 256), 0, 1000, 9])
    with pytest.raises(NoFreshRate, match=r"less than min_price 0\.000000000001"):
        read_round(Feed(A, 60), 13, [9, 9, 0, 1000, 9])


def test_what_changed_at_a_feed() -> None:
    first = Round(Feed(A, 60), 8, 2000, (5 << 64) + 900, 1000)
    assert first.changed_since(first) == ""
    second = replace(first, round_id=(6 << 64) + 1)
    change = "its proxy answers from another aggregator: phase 6 after 5"
    assert second.changed_since(first) == change
    third = replace(second, decimals=18)
    assert third.changed_since(replace(second, change=change)) == f"{change}; it has 18 decimals after 8"


def test_the_first_second_of_a_chain_counts() -> None:
    assert read_sequencer([1, 0, 1, 1, 1], 60) == Sequencer(True, 1, 60)


POOL = PoolRate(pool=C, window=60, min_liquidity=Decimal(1))


@pytest.mark.parametrize(
    ("rounds", "rate"),
    [([], scaled(2000, 0)), ([answer(3)], scaled(6000, 0)), ([answer(35, 1), answer(7)], scaled(7000, 0))],
)
def test_the_rate_of_a_pool(rounds: list[Round], rate: Decimal) -> None:
    facts = {"pool": C, "other_tokens_for_one_fee_token": "0.0005", "window": 60}
    assert quote_of(POOL, rounds, scaled(5, 4)) == Quote(rate, tuple(rounds), facts)


def median(spread: str, *rates: Decimal, problems: tuple[str, ...] = (), **fields: Any) -> Quote:
    source = MedianRate(feeds=(A,), max_age=60, max_spread_percent=Decimal(spread), **fields)
    return median_of(source, [Quote(each) for each in rates], problems)


def test_rates_of_different_decimals_are_compared() -> None:
    found = median("1.5", scaled(2000, 0), scaled(20_150, 1), scaled(203_000, 2))
    assert found == Quote(scaled(201_500, 2), (), {"sources": ["2000", "2015", "2030"]})


def test_a_spread_with_a_fraction_is_exact() -> None:
    """1.5 % of the lowest are 300, of the others 304."""
    with pytest.raises(NoFreshRate) as failure:
        median("1.5", scaled(20_000, 0), scaled(20_302, 0), scaled(20_302, 0))
    listed = "20000, 20302, 20302"
    assert failure.value.description == f"the sources disagree by more than max_spread_percent 1.5: {listed}"


def test_a_crossed_pair_and_an_inverse_feed() -> None:
    pair = [answer(6030, 0, A), answer(30, 1, B)]
    assert quote_of(CROSSED, pair, None) == Quote(scaled(2010, 0), tuple(pair))
    inverse = answer(5, 4, C)
    assert quote_of(FeedRate(feed=C, max_age=60, inverse=True), [inverse], None) == Quote(scaled(2000, 0), (inverse,))


def test_a_median_of_those_that_are_usable() -> None:
    found = median("1", scaled(2000, 0), scaled(2010, 0), problems=("feed C is old",), at_least=2)
    assert found == Quote(
        scaled(2010, 0), (), {"sources": ["2000", "2010"], "at_least": 2, "not_usable": ["feed C is old"]}
    )
    with pytest.raises(NoFreshRate) as failure:
        median("1", scaled(2000, 0), problems=("feed B is old", "feed C is dead"), at_least=2)
    problem = "1 of 3 sources are usable, fewer than 2: feed B is old; feed C is dead"
    assert failure.value.description == problem


@pytest.mark.parametrize(
    ("rates", "fields", "problem"),
    [
        ((), {}, "the rate has no sources"),
        ((scaled(1, 0),), {"at_least": 2}, "at_least is 2, and the rate has 1 sources"),
    ],
)
def test_a_median_of_too_little(rates: tuple[Decimal, ...], fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InternalFailure) as failure:
        median("1", *rates, **fields)
    assert failure.value.description == problem


def test_an_unknown_fee_token() -> None:
    with pytest.raises(InvalidParams) as failure:
        find_token(network("http://127.0.0.1:1", tokens=(token(),)), "DAI")
    assert failure.value.description == "fee_token is neither the network's native symbol nor one of its fee tokens"
