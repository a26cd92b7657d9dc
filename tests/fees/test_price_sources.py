"""Prices from the answers of feeds and pools, at the bounds of each rule. No node takes part."""

from decimal import Decimal
from typing import Any

import pytest

from relaydeck.fees.errors import InternalFailure, InvalidParams, NoFreshRate
from relaydeck.fees.exact import Exact
from relaydeck.fees.feeds import Feed, Round, Sequencer, check_move, feeds_of, read_round, read_sequencer
from relaydeck.fees.rates import find_token, value_of
from relaydeck.fees.twap import Observation, Place, observe_data, pool_of, price_at, read_observation
from relaydeck.networks.model import CrossedRate, FeedRate, MedianRate, PoolRate
from tests.fees.chain import call_data
from tests.fees.scene import network, token
from tests.networks.fault_node import words

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
    Feed(A, 1, Decimal(2), Decimal(3), Decimal(4)),
    Feed(B, 5, Decimal(6), Decimal(7), Decimal(8)),
)


def answer(price: int, decimals: int = 0, feed: str = A) -> Round:
    return Round(feed, decimals, price, 9, 1000, 60)


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
            (Feed(C, 60), Feed(B, 5, Decimal(6), Decimal(7), Decimal(8)), Feed(A, 7), *CROSSED_FEEDS),
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
            (Feed(A, 3600, Decimal(2), Decimal(3), Decimal(4)),),
        ),
    ],
)
def test_the_feeds_of_a_rate(source: Any, feeds: tuple[Feed, ...]) -> None:
    assert feeds_of(source) == feeds


MEDIAN: dict[str, Any] = {"feeds": (A,), "max_age": 60, "max_spread_percent": Decimal(1)}


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (FeedRate(feed=A, max_age=60), None),
        (PoolRate(pool=C, window=60, min_liquidity=Decimal(7)), Place(C, 60, Decimal(7))),
        (MedianRate(**MEDIAN), None),
        (MedianRate(**MEDIAN, dex_pool=C), Place(C, 1800, Decimal(0))),
        (MedianRate(**MEDIAN, dex_pool=C, dex_window=60, dex_min_liquidity=Decimal(7)), Place(C, 60, Decimal(7))),
    ],
)
def test_the_pool_of_a_rate(source: Any, place: Place | None) -> None:
    assert pool_of(source) == place


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
    assert price_at(0, 18, 6) == Exact(10**12, 0)
    assert price_at(0, 6, 18) == Exact(1, 12)


LATER = Round(A, 0, 2000, 9, 10_000, 60)


@pytest.mark.parametrize("before", [(1, 10_000), (2000, 1), (1905, 10_000), (1800, 2800), (2000, 10_000)])
def test_a_move_within_its_bound(before: tuple[int, int]) -> None:
    """Of 1905 five percent are 95.25. 7200 s after 1800, twice five percent and a half are 199.98 and a bit."""
    price, updated_at = before
    most = {1: Decimal(199_900), 1800: Decimal("5.5556")}.get(price, Decimal(5))
    check_move(LATER, [8, price, 0, updated_at, 8], most)


def test_a_move_of_exactly_its_bound() -> None:
    check_move(LATER, [8, 1600, 0, 10_000, 8], Decimal(25))
    with pytest.raises(NoFreshRate) as failure:
        check_move(LATER, [8, 1600, 0, 10_000, 8], Decimal("24.99"))
    moved = "moved from 1600 to 2000, more than max_move_percent 24.99 per hour"
    assert failure.value.description == f"feed {A} {moved}"


@pytest.mark.parametrize("before", [(0, 5000), (-1, 5000), (2000, 0), (2000, 10_001)])
def test_an_earlier_round_that_cannot_be_compared(before: tuple[int, int]) -> None:
    price, updated_at = before
    with pytest.raises(NoFreshRate) as failure:
        check_move(LATER, [8, price % (1 << 256), 0, updated_at, 8], Decimal(5))
    assert failure.value.description == f"feed {A} has no usable round before 9"


def test_the_first_second_of_a_chain_counts() -> None:
    assert read_sequencer([1, 0, 1, 1, 1], 60) == Sequencer(True, 1, 60)


def test_a_bound_that_is_no_number() -> None:
    with pytest.raises(InternalFailure) as failure:
        read_round(Feed(A, 60, min_price=Decimal("Infinity")), 0, [9, 2000, 0, 1000, 9])
    assert failure.value.description == "a bound of a feed is not a usable number"


POOL = PoolRate(pool=C, window=60, min_liquidity=Decimal(1))


@pytest.mark.parametrize(
    ("rounds", "rate"),
    [([], Exact(2000, 0)), ([answer(3)], Exact(6000, 0)), ([answer(35, 1), answer(7)], Exact(7000, 0))],
)
def test_the_rate_of_a_pool(rounds: list[Round], rate: Exact) -> None:
    facts = {"pool": C, "other_tokens_for_one_fee_token": "0.0005", "window": 60}
    assert value_of(POOL, rounds, Exact(5, 4)) == (rate, facts)


def median(spread: str, *rounds: Round, feeds: int = 3, twap: Exact | None = None) -> tuple[Exact, dict[str, Any]]:
    source = MedianRate(feeds=(A,) * feeds, max_age=60, max_spread_percent=Decimal(spread))
    return value_of(source, list(rounds), twap)


def test_rates_of_different_decimals_are_compared() -> None:
    found = median("1.5", answer(2000), answer(20_150, 1), answer(203_000, 2))
    assert found == (Exact(201_500, 2), {"sources": ["2000", "2015", "2030"]})


def test_a_spread_with_a_fraction_is_exact() -> None:
    """1.5 % of the lowest are 300, of the others 304."""
    with pytest.raises(NoFreshRate) as failure:
        median("1.5", answer(20_000), answer(20_302), answer(20_302))
    listed = "20000, 20302, 20302"
    assert failure.value.description == f"the sources disagree by more than max_spread_percent 1.5: {listed}"


def test_crossed_pairs_and_a_pool_in_a_median() -> None:
    crossed = [answer(4000, 0, A), answer(2, 0, B), answer(6030, 0, A), answer(30, 1, B)]
    found = median("1", answer(2005), *crossed, feeds=1, twap=Exact(5, 4))
    assert found == (Exact(2005, 0), {"sources": ["2000", "2000", "2005", "2010"]})


def test_bounded_feeds_in_a_median() -> None:
    """Between the plain feeds and the pairs; one of them returns coins for one token."""
    bounded = FeedRate(feed=B, max_age=60), FeedRate(feed=C, max_age=60, inverse=True)
    source = MedianRate(
        feeds=(A,),
        bounded_feeds=bounded,
        crossed=(CrossedRate(native_usd=A, token_usd=B, max_age=60),),
        max_age=60,
        max_spread_percent=Decimal(1),
    )
    rounds = [answer(2005), answer(2015, 0, B), answer(5, 4, C), answer(4020, 0, A), answer(2, 0, B)]
    assert value_of(source, rounds, None) == (Exact(2010, 0), {"sources": ["2000", "2005", "2010", "2015"]})


def test_a_median_of_nothing() -> None:
    with pytest.raises(InternalFailure) as failure:
        median("1", feeds=0)
    assert failure.value.description == "the rate has no sources"


def test_an_unknown_fee_token() -> None:
    with pytest.raises(InvalidParams) as failure:
        find_token(network("http://127.0.0.1:1", tokens=(token(),)), "DAI")
    assert failure.value.description == "fee_token is neither the network's native symbol nor one of its fee tokens"
