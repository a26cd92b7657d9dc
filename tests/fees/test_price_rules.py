"""The rules that prices must keep: ages and bounds of each feed, moves, the sequencer, pools, and several sources."""

from collections.abc import AsyncIterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import msgspec
import pytest

from relaydeck.fees.errors import InternalFailure, NoFreshRate, RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.exact import plain
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.fees.rates import price_at, read_observation
from relaydeck.networks.model import CrossedRate, FeedRate, MedianRate, Network, PoolRate
from tests.support.fault_node import FaultNode, fault_nodes, words
from tests.support.fee_chain import Chain
from tests.support.fee_scene import TOKEN, ask, network, relayer, token, transaction

NOW = 1_800_000_000
A, B, C, UPTIME = "0x" + "aa" * 20, "0x" + "bb" * 20, "0x" + "cc" * 20, "0x" + "dd" * 20
D, E = "0x" + "d1" * 20, "0x" + "e1" * 20
WETH = "0x" + "ee" * 20
OWN_LIMIT = relayer(gas_limit_estimation=False)


@pytest.fixture
async def node() -> AsyncIterator[FaultNode]:
    async with fault_nodes("healthy") as nodes:
        nodes[0].answers = {"eth_call 0x313ce567": words(6)}
        yield nodes[0]


@pytest.fixture
async def estimator() -> AsyncIterator[Estimator]:
    estimator = Estimator(FeeOptions(cache_age=0.0, deadline=60.0, try_timeout=30.0), now=lambda: NOW)
    yield estimator
    await estimator.close()


def set_price(node: FaultNode, feed: str, price: int, age: int = 0, round_id: int = 9) -> None:
    at = NOW - age
    node.answers[f"eth_call 0xfeaf968c {feed}"] = words(round_id, price * 10**6, at, at, round_id)


async def rate_of(estimator: Estimator, node: FaultNode, rate: Any, **network_fields: Any) -> str:
    where: Network = msgspec.structs.replace(network(node.url, tokens=(token(rate),)), **network_fields)
    return (await ask(estimator, where, transaction(), "USDC", who=OWN_LIMIT)).conversion_rate


async def refusal_of(estimator: Estimator, node: FaultNode, rate: Any, **network_fields: Any) -> str:
    with pytest.raises(RpcFailure) as failure:
        await rate_of(estimator, node, rate, **network_fields)
    assert failure.value.code == -32003
    return failure.value.description


async def test_each_of_two_crossed_feeds_has_its_own_age(estimator: Estimator, node: FaultNode) -> None:
    set_price(node, A, 2000, age=20 * 3600)
    set_price(node, B, 1, age=20 * 3600)
    rate = CrossedRate(native_usd=A, token_usd=B, max_age=25 * 3600)
    assert await rate_of(estimator, node, rate) == "2000"
    stricter = msgspec.structs.replace(rate, native_max_age=3600)
    assert await refusal_of(estimator, node, stricter) == f"feed {A} was updated 72000 s ago, more than 3600 s"
    stricter = msgspec.structs.replace(rate, token_max_age=3600)
    assert await refusal_of(estimator, node, stricter) == f"feed {B} was updated 72000 s ago, more than 3600 s"


@pytest.mark.parametrize(
    ("bounds", "problem"),
    [
        ({"min_price": Decimal(2000), "max_price": Decimal(2000)}, ""),
        ({"min_price": Decimal("2000.000001")}, "answers 2000, less than min_price 2000.000001"),
        ({"max_price": Decimal("1999.999999")}, "answers 2000, more than max_price 1999.999999"),
    ],
)
async def test_a_price_outside_its_bounds_is_refused(
    estimator: Estimator, node: FaultNode, bounds: dict[str, Any], problem: str
) -> None:
    set_price(node, A, 2000)
    rate = FeedRate(feed=A, max_age=60, **bounds)
    if problem:
        assert await refusal_of(estimator, node, rate) == f"feed {A} {problem}"
    else:
        assert await rate_of(estimator, node, rate) == "2000"


async def test_the_bounds_of_crossed_feeds_are_their_own(estimator: Estimator, node: FaultNode) -> None:
    set_price(node, A, 2000)
    set_price(node, B, 1)
    low = CrossedRate(native_usd=A, token_usd=B, max_age=60, token_max_price=Decimal("0.99"))
    assert await refusal_of(estimator, node, low) == f"feed {B} answers 1, more than max_price 0.99"
    high = CrossedRate(native_usd=A, token_usd=B, max_age=60, native_min_price=Decimal(3000))
    assert await refusal_of(estimator, node, high) == f"feed {A} answers 2000, less than min_price 3000"


@pytest.mark.parametrize(
    ("before", "age", "refused"),
    [(1905, 60, False), (1900, 60, True), (2105, 60, False), (2110, 60, True), (1800, 7200, False), (1800, 7100, True)],
)
async def test_a_price_that_moves_too_fast_is_refused(
    estimator: Estimator, node: FaultNode, before: int, age: int, refused: bool
) -> None:
    """At most 5 % an hour: 1800 to 2000 in two hours is 5.6 % an hour, so that case needs the higher limit below."""
    set_price(node, A, 2000)
    limit = Decimal(5) if before > 1800 else Decimal("5.56")
    node.answers[f"eth_call 0x9a6fc8f5 {A}"] = words(8, before * 10**6, NOW - age, NOW - age, 8)
    rate = FeedRate(feed=A, max_age=60, max_move_percent=limit)
    if refused:
        shown = f"moved from {before} to 2000, more than max_move_percent {limit} per hour"
        assert await refusal_of(estimator, node, rate) == f"feed {A} {shown}"
    else:
        assert await rate_of(estimator, node, rate) == "2000"


async def test_a_feed_without_an_earlier_round_cannot_show_its_move(estimator: Estimator, node: FaultNode) -> None:
    set_price(node, A, 2000)
    rate = FeedRate(feed=A, max_age=60, max_move_percent=Decimal(5))
    node.answers[f"eth_call 0x9a6fc8f5 {A}"] = words(8, 0, 0, 0, 8)
    assert await refusal_of(estimator, node, rate) == f"feed {A} has no usable round before 9"
    node.answers[f"eth_call 0x9a6fc8f5 {A}"] = "0x"
    assert await refusal_of(estimator, node, rate) == f"feed {A} has no usable round before 9"


async def test_a_feed_in_its_round_zero_cannot_show_its_move(estimator: Estimator, node: FaultNode) -> None:
    """There is no round before it to ask for: a negative number would be refused as a wrong parameter."""
    set_price(node, A, 2000, round_id=0)
    node.answers[f"eth_call 0x9a6fc8f5 {A}"] = {"code": -32602, "message": "invalid argument 0: invalid hex string"}
    assert await rate_of(estimator, node, FeedRate(feed=A, max_age=60)) == "2000"
    rate = FeedRate(feed=A, max_age=60, max_move_percent=Decimal(5))
    assert await refusal_of(estimator, node, rate) == f"feed {A} has no usable round before 0"


@pytest.mark.parametrize(
    ("answer", "since", "problem"),
    [
        (0, NOW - 3600, ""),
        (0, NOW - 3599, "the sequencer of the chain is up again for less than 3600 s"),
        (1, NOW - 9999, "the sequencer of the chain is down: prices on it are not up to date"),
        (0, 0, "the sequencer of the chain is down: prices on it are not up to date"),
    ],
)
async def test_prices_count_only_while_the_sequencer_is_up(
    estimator: Estimator, node: FaultNode, answer: int, since: int, problem: str
) -> None:
    set_price(node, A, 2000)
    node.answers[f"eth_call 0xfeaf968c {UPTIME}"] = words(1, answer, since, since, 1)
    rate = FeedRate(feed=A, max_age=60)
    if problem:
        assert await refusal_of(estimator, node, rate, sequencer_feed=UPTIME) == problem
    else:
        assert await rate_of(estimator, node, rate, sequencer_feed=UPTIME) == "2000"


async def test_a_rate_for_people_heeds_the_sequencer_too(estimator: Estimator, node: FaultNode) -> None:
    set_price(node, A, 2000)
    node.answers[f"eth_call 0xfeaf968c {UPTIME}"] = words(1, 1, NOW, NOW, 1)
    usdc = token(FeedRate(feed=A, max_age=60))
    where: Network = msgspec.structs.replace(network(node.url, tokens=(usdc,)), sequencer_feed=UPTIME)
    with pytest.raises(NoFreshRate, match="the sequencer of the chain is down"):
        await estimator.rate(where, usdc)


async def test_the_margin_is_shown_without_exponent(estimator: Estimator, node: FaultNode) -> None:
    trace = Trace()
    where = network(node.url, tokens=(token(margin="1E+1"),))
    await ask(estimator, where, transaction(), "USDC", who=OWN_LIMIT, trace=trace)
    (step,) = (step for step in trace.steps if step["step"] == "rate")
    assert (step["margin_percent"], step["conversion_rate"]) == ("10", "2750.55")


async def test_the_grace_after_an_outage_is_the_networks(estimator: Estimator, node: FaultNode) -> None:
    set_price(node, A, 2000)
    node.answers[f"eth_call 0xfeaf968c {UPTIME}"] = words(1, 0, NOW - 61, NOW - 61, 1)
    rate = FeedRate(feed=A, max_age=60)
    assert await rate_of(estimator, node, rate, sequencer_feed=UPTIME, sequencer_grace_seconds=60) == "2000"


async def test_the_median_of_three_feeds(estimator: Estimator, node: FaultNode) -> None:
    for feed, price in ((A, 2000), (B, 2010), (C, 2020)):
        set_price(node, feed, price)
    rate = MedianRate(feeds=(A, B, C), max_age=60, max_spread_percent=Decimal(1))
    assert await rate_of(estimator, node, rate) == "2010"
    assert await rate_of(estimator, node, msgspec.structs.replace(rate, feeds=(A, C))) == "2020"
    set_price(node, C, 2021)
    problem = "the sources disagree by more than max_spread_percent 1: 2000, 2010, 2021"
    assert await refusal_of(estimator, node, rate) == problem


async def test_the_median_of_a_feed_and_two_crossed_pairs(estimator: Estimator, node: FaultNode) -> None:
    for feed, price in ((A, 2020), (B, 4000), (C, 2), (D, 6030), (E, 3)):
        set_price(node, feed, price)
    pairs = (
        CrossedRate(native_usd=B, token_usd=C, max_age=60),
        CrossedRate(native_usd=D, token_usd=E, max_age=60, token_max_age=30),
    )
    rate = MedianRate(feeds=(A,), crossed=pairs, max_age=60, max_spread_percent=Decimal(1))
    assert await rate_of(estimator, node, rate) == "2010"
    assert await rate_of(estimator, node, msgspec.structs.replace(rate, feeds=())) == "2010"
    assert await rate_of(estimator, node, msgspec.structs.replace(rate, crossed=pairs[:1])) == "2020"
    set_price(node, E, 3, age=31)
    assert await refusal_of(estimator, node, rate) == f"feed {E} was updated 31 s ago, more than 30 s"


async def test_one_stale_source_of_several_fails_closed(estimator: Estimator, node: FaultNode) -> None:
    set_price(node, A, 2000)
    set_price(node, B, 2000, age=61)
    rate = MedianRate(feeds=(A, B), max_age=60, max_spread_percent=Decimal(1))
    assert await refusal_of(estimator, node, rate) == f"feed {B} was updated 61 s ago, more than 60 s"


async def test_some_sources_of_a_median_may_fail(estimator: Estimator, node: FaultNode) -> None:
    """One is old and one reverts. What is left out shows in the steps."""
    for feed, price in ((A, 2000), (B, 2010), (C, 2020)):
        set_price(node, feed, price)
    set_price(node, D, 2005, age=60)  # it would be too old while the rate is shared
    node.answers[f"eth_call 0xfeaf968c {C}"] = {"code": 3, "message": "execution reverted", "data": "0x"}
    rate = MedianRate(feeds=(A, B, C, D), max_age=60, max_spread_percent=Decimal(1), at_least=2)
    trace = Trace()
    where = network(node.url, tokens=(token(rate),))
    sharing = Estimator(FeeOptions(deadline=60.0), now=lambda: NOW)
    await ask(sharing, where, transaction(), "USDC", who=OWN_LIMIT, trace=trace)
    await sharing.close()
    (step,) = (step for step in trace.steps if step["step"] == "rate")
    problems = [
        f"{C} could not be read: execution reverts: no reason given",
        f"feed {D} was updated 61 s ago, more than 60 s",
    ]
    assert (step["sources"], step["at_least"], step["not_usable"]) == (["2000", "2010"], "2", problems)
    stricter = msgspec.structs.replace(rate, feeds=(A, C, D), at_least=3)
    problem = f"2 of 3 sources are usable, fewer than 3: {problems[0]}"
    assert await refusal_of(estimator, node, stricter) == problem


async def test_a_feed_that_changes_is_reported(estimator: Estimator, node: FaultNode) -> None:
    """The number of its aggregator is in its round, and its decimals are read with each price."""
    set_price(node, A, 2000, round_id=(5 << 64) + 700)
    usdc = token(FeedRate(feed=A, max_age=60))
    where = network(node.url, tokens=(usdc,))
    assert [each.change for each in (await estimator.rate(where, usdc)).rounds] == [""]
    node.answers[f"eth_call 0xfeaf968c {A}"] = words((6 << 64) + 1, 2000 * 10**8, NOW, NOW, (6 << 64) + 1)
    node.answers[f"eth_call 0x313ce567 {A}"] = words(8)
    changed = await estimator.rate(where, usdc)
    change = "its proxy answers from another aggregator: phase 6 after 5; it has 8 decimals after 6"
    assert (plain(changed.value), [each.change for each in changed.rounds]) == ("2000", [change])
    assert estimator.node_figures().feed_changes == {A: change}
    trace = Trace()
    await ask(estimator, where, transaction(), "USDC", who=OWN_LIMIT, trace=trace)
    (step,) = (step for step in trace.steps if step["step"] == "rate")
    assert step["rounds"][0]["changed"] == change


@pytest.mark.parametrize(("window", "meant", "refused"), [(600, False, False), (599, False, True), (599, True, False)])
async def test_a_short_window_must_be_meant(
    estimator: Estimator, node: FaultNode, window: int, meant: bool, refused: bool
) -> None:
    set_pool(node, TOKEN, WETH, 0)
    rate = PoolRate(pool=POOL, window=window, min_liquidity=Decimal(1), short_window=meant)
    if not refused:
        assert await rate_of(estimator, node, rate) == str(10**12)
        return
    with pytest.raises(InternalFailure) as failure:
        await rate_of(estimator, node, rate)
    problem = f"the window of pool {POOL} is 599 s, below 10 minutes, without short_window"
    assert failure.value.description == problem


@pytest.mark.parametrize(
    ("tick", "decimals"), [(0, (18, 6)), (200_311, (6, 18)), (-200_311, (18, 6)), (887_272, (0, 18))]
)
def test_the_price_at_a_tick(tick: int, decimals: tuple[int, int]) -> None:
    """Rounded up at 36 significant digits; compared at 120."""
    found = price_at(tick, *decimals)
    with localcontext(prec=120):
        exact = (Decimal("1.0001") ** tick).scaleb(decimals[0] - decimals[1])
        assert 0 <= found - exact < exact.scaleb(-35)


def test_an_average_tick_is_rounded_down() -> None:
    answer = bytes.fromhex(words(64, 160, 2, 0, -7, 2, 0, (10 << 128) // 5)[2:])
    found = read_observation(A, answer, 10)
    assert (found.tick, found.liquidity) == (-1, 5)


@pytest.mark.parametrize("answer", [b"", bytes(256)])
def test_a_contract_that_is_no_pool(answer: bytes) -> None:
    with pytest.raises(NoFreshRate, match="does not answer as a Uniswap v3 pool does"):
        read_observation(A, answer, 10)


POOL = "0x" + "b0" * 20
SECONDS_PER_LIQUIDITY = (1800 << 128) // 10**18


def set_pool(node: FaultNode, first: str, second: str, tick: int, decimals: int | None = 18) -> None:
    """A pool with a liquidity of 10**18 and a bit. `decimals`: of the token that is not the fee token."""
    node.answers[f"eth_call 0x0dfe1681 {POOL}"] = words(int(first, 16))
    node.answers[f"eth_call 0xd21220a7 {POOL}"] = words(int(second, 16))
    node.answers[f"eth_call 0x883bdbfd {POOL}"] = words(64, 160, 2, 0, tick * 1800, 2, 0, SECONDS_PER_LIQUIDITY)
    node.answers[f"eth_call 0x313ce567 {WETH}"] = "0x" if decimals is None else words(decimals)


def pool_rate(least: int = 10**18) -> PoolRate:
    return PoolRate(pool=POOL, window=1800, min_liquidity=Decimal(least))


@pytest.mark.parametrize("sides", [(TOKEN, WETH, 0), (WETH, TOKEN, 0), (TOKEN, WETH, 5), (WETH, TOKEN, -5)])
async def test_a_pool_prices_the_token_on_either_side(
    estimator: Estimator, node: FaultNode, sides: tuple[str, str, int]
) -> None:
    """At a tick of 0 one unit of the token is worth one of the coin, which has 18 decimals."""
    set_pool(node, *sides)
    found = Fraction(await rate_of(estimator, node, pool_rate()))
    exact = Fraction(10**12) / Fraction("1.0001") ** abs(sides[2])
    assert abs(found - exact) < exact / 10**33


async def test_the_least_liquidity_is_enough(estimator: Estimator, node: FaultNode) -> None:
    set_pool(node, TOKEN, WETH, 0)
    liquidity = (1800 << 128) // SECONDS_PER_LIQUIDITY
    assert await rate_of(estimator, node, pool_rate(liquidity)) == str(10**12)
    problem = f"pool {POOL} has a liquidity of {liquidity}, less than {liquidity + 1}"
    assert await refusal_of(estimator, node, pool_rate(liquidity + 1)) == problem


async def test_the_steps_show_a_pool(estimator: Estimator, node: FaultNode) -> None:
    set_pool(node, TOKEN, WETH, 0)
    trace = Trace()
    where = network(node.url, tokens=(token(pool_rate()),))
    await ask(estimator, where, transaction(), "USDC", who=OWN_LIMIT, trace=trace)
    (step,) = (step for step in trace.steps if step["step"] == "rate")
    facts = {"pool": POOL, "other_tokens_for_one_fee_token": "0.000000000001", "window": "1800"}
    assert {name: step[name] for name in facts} == facts


async def test_a_pool_is_one_more_source_of_a_median(estimator: Estimator, node: FaultNode) -> None:
    set_pool(node, TOKEN, WETH, 0, decimals=6)
    node.answers[f"eth_call 0xfeaf968c {A}"] = words(9, 1_010_000, NOW, NOW, 9)
    rate = MedianRate(feeds=(A,), max_age=60, max_spread_percent=Decimal(1), dex_pool=POOL)
    assert await rate_of(estimator, node, rate) == "1.01"
    node.answers[f"eth_call 0xfeaf968c {A}"] = words(9, 1_020_000, NOW, NOW, 9)
    assert "the sources disagree" in await refusal_of(estimator, node, rate)


@pytest.mark.parametrize("sides", [(WETH, WETH), (WETH, A)])
async def test_a_pool_without_the_token(estimator: Estimator, node: FaultNode, sides: tuple[str, str]) -> None:
    set_pool(node, *sides, 0)
    with pytest.raises(InternalFailure) as failure:
        await rate_of(estimator, node, pool_rate())
    assert failure.value.description == f"pool {POOL} is not a pool of USDC"


async def test_a_contract_without_the_observations_of_a_pool(estimator: Estimator, node: FaultNode) -> None:
    set_pool(node, TOKEN, WETH, 0)
    node.answers[f"eth_call 0x883bdbfd {POOL}"] = "0x"
    problem = f"pool {POOL} does not answer as a Uniswap v3 pool does"
    assert await refusal_of(estimator, node, pool_rate()) == problem


async def test_a_contract_without_the_tokens_of_a_pool(estimator: Estimator, node: FaultNode) -> None:
    set_pool(node, TOKEN, WETH, 0)
    node.answers[f"eth_call 0xd21220a7 {POOL}"] = "0x"
    with pytest.raises(InternalFailure, match="is not a pool of USDC"):
        await rate_of(estimator, node, pool_rate())


async def test_the_bounds_of_the_feed_beside_a_pool(estimator: Estimator, node: FaultNode) -> None:
    set_pool(node, TOKEN, WETH, 0)
    set_price(node, A, 2000)
    rate = msgspec.structs.replace(pool_rate(), native_feed=A, native_max_price=Decimal(1999))
    assert await refusal_of(estimator, node, rate) == f"feed {A} answers 2000, more than max_price 1999"
    rate = msgspec.structs.replace(pool_rate(), native_feed=A, native_min_price=Decimal(2001))
    assert await refusal_of(estimator, node, rate) == f"feed {A} answers 2000, less than min_price 2001"


async def test_the_age_and_the_bounds_of_a_feed_in_a_median(estimator: Estimator, node: FaultNode) -> None:
    set_price(node, A, 2000)
    set_price(node, B, 2002, age=7200)
    bounded = FeedRate(feed=B, max_age=7200, min_price=Decimal(1000), max_price=Decimal(3000))
    rate = MedianRate(feeds=(A,), bounded_feeds=(bounded,), max_age=60, max_spread_percent=Decimal(1))
    assert await rate_of(estimator, node, rate) == "2002"
    stale = msgspec.structs.replace(rate, bounded_feeds=(msgspec.structs.replace(bounded, max_age=7199),))
    assert await refusal_of(estimator, node, stale) == f"feed {B} was updated 7200 s ago, more than 7199 s"
    low = msgspec.structs.replace(rate, bounded_feeds=(msgspec.structs.replace(bounded, max_price=Decimal(2001)),))
    assert await refusal_of(estimator, node, low) == f"feed {B} answers 2002, more than max_price 2001"


@pytest.mark.parametrize("sides", [(TOKEN, WETH), (WETH, TOKEN)])
async def test_a_token_of_the_pool_without_decimals(
    estimator: Estimator, node: FaultNode, sides: tuple[str, str]
) -> None:
    set_pool(node, *sides, 0, decimals=None)
    problem = f"a token of pool {POOL} does not answer decimals()"
    assert await refusal_of(estimator, node, pool_rate()) == problem


async def test_an_uptime_feed_that_is_no_feed(estimator: Estimator, node: FaultNode) -> None:
    set_price(node, A, 2000)
    node.answers[f"eth_call 0xfeaf968c {UPTIME}"] = "0x"
    problem = f"the sequencer's uptime feed {UPTIME} does not answer as an aggregator does"
    assert await refusal_of(estimator, node, FeedRate(feed=A, max_age=60), sequencer_feed=UPTIME) == problem


async def test_the_move_is_measured_from_the_round_before(estimator: Estimator) -> None:
    class Feed(FaultNode):
        def _result(self, mood: str, method: str, params: Any) -> Any:
            if method == "eth_call" and params[0]["data"].startswith("0x9a6fc8f5"):
                round_id = int(params[0]["data"][10:], 16)
                return words(round_id, 2000 * 10**6 if round_id == 8 else 1, NOW, NOW, round_id)
            return super()._result(mood, method, params)

    node = Feed()
    await node.start()
    node.answers = {"eth_call 0x313ce567": words(6)}
    set_price(node, A, 2000, round_id=9)
    rate = FeedRate(feed=A, max_age=60, max_move_percent=Decimal(1))
    assert await rate_of(estimator, node, rate) == "2000"
    await node.stop()


# On a real node.

TICK = 200_311  # 1.0001 ** 200311 is about 500 million: with 6 and 18 decimals, 0.0005 coins for one token


@cache
def rate_at_tick() -> Fraction:
    """10**12 / 1.0001 ** TICK by whole numbers, cut after 100 decimals: a million digits take seconds to compare."""
    return Fraction(10**112 * 10_000**TICK // 10_001**TICK, 10**100)


class Market:
    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.usdc, self.weth = chain.deploy("token", 6), chain.deploy("token", 18)
        self.pool, self.feed = chain.deploy("pool"), chain.deploy("aggregator", 8)

    def set_pool(self, first: str, second: str, tick: int, liquidity: int = 10**18) -> None:
        self.chain.call(self.pool, "set_pool(address,address,int56,uint128)", first, second, tick, liquidity)

    async def rate(self, source: Any, trace: Trace | None = None) -> Fraction:
        estimator = Estimator(FeeOptions(cache_age=0.0, deadline=60.0, try_timeout=30.0))
        where = network(self.chain.url, tokens=(token(source, self.usdc),))
        try:
            found = await ask(estimator, where, transaction(), "USDC", who=OWN_LIMIT, trace=trace)
        finally:
            await estimator.close()
        return Fraction(found.conversion_rate)


@pytest.fixture(scope="module")
def market(hardhat: Chain) -> Market:
    return Market(hardhat)


@pytest.mark.parametrize("usdc_first", [True, False])
async def test_the_rate_of_a_pool_with_the_coin(market: Market, usdc_first: bool) -> None:
    if usdc_first:
        market.set_pool(market.usdc, market.weth, TICK)
    else:
        market.set_pool(market.weth, market.usdc, -TICK)
    found = await market.rate(PoolRate(pool=market.pool, window=1800, min_liquidity=Decimal(10**17)))
    expected = rate_at_tick()
    assert abs(found - expected) <= expected / 10**33


async def test_the_rate_of_a_pool_crossed_with_a_feed(market: Market, hardhat: Chain) -> None:
    """The pool prices the token in another one; the feed prices the coin in that one."""
    now = int(hardhat.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    market.set_pool(market.usdc, market.weth, TICK)
    hardhat.call(market.feed, "set_round(uint80,int256,uint256,uint80)", 7, 3 * 10**8, now, 7)
    source = PoolRate(pool=market.pool, window=600, min_liquidity=Decimal(1), native_feed=market.feed)
    expected = 3 * rate_at_tick()
    assert abs(await market.rate(source) - expected) <= expected / 10**33


async def test_a_pool_with_too_little_liquidity_gives_no_rate(market: Market) -> None:
    market.set_pool(market.usdc, market.weth, TICK, 10**15)
    with pytest.raises(NoFreshRate, match=r"has a liquidity of \d+, less than 10000000000000000"):
        await market.rate(PoolRate(pool=market.pool, window=1800, min_liquidity=Decimal(10**16)))


async def test_a_pool_of_other_tokens_is_a_wrong_configuration(market: Market) -> None:
    market.set_pool(market.weth, market.feed, TICK)
    with pytest.raises(InternalFailure, match="is not a pool of USDC"):
        await market.rate(PoolRate(pool=market.pool, window=1800, min_liquidity=Decimal(1)))


async def test_the_median_of_a_feed_and_a_pool(market: Market, hardhat: Chain) -> None:
    now = int(hardhat.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    market.set_pool(market.usdc, market.weth, TICK)
    pool_rate = rate_at_tick()
    feed_price = int(pool_rate * 10**8) + 10**8  # one token more
    hardhat.call(market.feed, "set_round(uint80,int256,uint256,uint80)", 7, feed_price, now, 7)
    source = MedianRate(
        feeds=(market.feed,), max_age=3600, max_spread_percent=Decimal(1), dex_pool=market.pool, dex_window=600
    )
    assert await market.rate(source) == Fraction(feed_price, 10**8)
    narrow = msgspec.structs.replace(source, max_spread_percent=Decimal("0.01"))
    with pytest.raises(NoFreshRate, match="the sources disagree"):
        await market.rate(narrow)
