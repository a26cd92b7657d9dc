"""Rates from feeds that lie, sleep or do not exist: an error, never a guess."""

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from relaydeck.fees.errors import InternalFailure, NodeUnreachable, NoFreshRate, RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from relaydeck.networks.model import CrossedRate, FeedRate, FixedRate
from tests.support.fault_node import FaultNode, fault_nodes, words
from tests.support.fee_scene import ask, network, relayer, token, transaction

NOW = 1_800_000_000
FEED = "0x" + "fe" * 20
OTHER_FEED = "0x" + "ef" * 20
DECIMALS, ROUND = "eth_call 0x313ce567", "eth_call 0xfeaf968c"
RAW = transaction()
SOURCE = FeedRate(feed=FEED, max_age=3600)
OWN_LIMIT = relayer(gas_limit_estimation=False)


@pytest.fixture
async def node() -> AsyncIterator[FaultNode]:
    async with fault_nodes("healthy") as nodes:
        nodes[0].answers = {DECIMALS: words(6), ROUND: words(9, 2000 * 10**6, NOW, NOW, 9)}
        yield nodes[0]


@pytest.fixture
async def estimator() -> AsyncIterator[Estimator]:
    estimator = Estimator(FeeOptions(cache_age=0.0, deadline=60.0, try_timeout=30.0), now=lambda: NOW)
    yield estimator
    await estimator.close()


async def refusal(estimator: Estimator, node: FaultNode, rate: Any) -> RpcFailure:
    with pytest.raises(RpcFailure) as failure:
        await ask(estimator, network(node.url, tokens=(token(rate),)), RAW, "USDC")
    return failure.value


async def test_a_good_feed(node: FaultNode, estimator: Estimator) -> None:
    found = await ask(estimator, network(node.url, tokens=(token(SOURCE),)), RAW, "usdc")
    assert (found.conversion_rate, found.estimated_fee) == ("2000", "0.000001")  # 21000 x 110 wei, rounded up


@pytest.mark.parametrize(
    ("answer", "description"),
    [
        (words(9, 0, NOW, NOW, 9), "answers a price that is not positive"),
        (words(9, -5, NOW, NOW, 9), "answers a price that is not positive"),
        (words(9, 5, NOW, 0, 9), "has not completed round 9"),
        (words(9, 5, NOW, NOW, 8), "has not completed round 9"),
        (words(9, 5, NOW, NOW - 3601, 9), "was updated 3601 s ago, more than 3600 s"),
        (words(9, 5, NOW, NOW + 61, 9), "reports an update 61 s in the future"),
        ("0x", "does not answer as an aggregator does"),
        (words(9, 5), "does not answer as an aggregator does"),
        (
            {"code": 3, "message": "execution reverted", "data": "0x"},
            "could not be read: execution reverts: no reason given",
        ),
    ],
)
async def test_a_bad_round(node: FaultNode, estimator: Estimator, answer: Any, description: str) -> None:
    node.answers[ROUND] = answer
    failure = await refusal(estimator, node, SOURCE)
    assert isinstance(failure, NoFreshRate)
    assert f"{FEED} {description}" in failure.description


@pytest.mark.parametrize("age", [3600, -60])
async def test_the_last_second_counts(node: FaultNode, estimator: Estimator, age: int) -> None:
    node.answers[ROUND] = words(9, 10**6, NOW, NOW - age, 9)
    found = await ask(estimator, network(node.url, tokens=(token(SOURCE),)), RAW, "USDC")
    assert found.conversion_rate == "1"


async def test_a_kept_rate_grows_old_too(node: FaultNode) -> None:
    clock = [float(NOW)]
    estimator = Estimator(FeeOptions(cache_age=10_000), now=lambda: clock[0], monotonic=lambda: 0.0)
    where = network(node.url, tokens=(token(SOURCE),))
    await ask(estimator, where, RAW, "USDC")
    clock[0] += 3601
    with pytest.raises(NoFreshRate):
        await ask(estimator, where, RAW, "USDC")
    await estimator.close()


async def test_the_smallest_prices_count(node: FaultNode, estimator: Estimator) -> None:
    node.answers[ROUND] = words(9, 1, NOW, NOW, 9)
    for rate, value in ((SOURCE, "0.000001"), (FixedRate(fixed=Decimal("0.1")), "0.1")):
        found = await ask(estimator, network(node.url, tokens=(token(rate),)), RAW, "USDC")
        assert found.conversion_rate == value


@pytest.mark.parametrize(("margin", "value"), [("-99", "20"), ("0", "2000"), ("0.5", "2010")])
async def test_a_margin(node: FaultNode, estimator: Estimator, margin: str, value: str) -> None:
    found = await ask(estimator, network(node.url, tokens=(token(SOURCE, margin=margin),)), RAW, "USDC")
    assert found.conversion_rate == value


async def test_a_feed_has_36_decimals_at_most(node: FaultNode, estimator: Estimator) -> None:
    node.answers |= {f"{DECIMALS} {FEED}": words(36), ROUND: words(9, 10**36, NOW, NOW, 9)}
    found = await ask(estimator, network(node.url, tokens=(token(SOURCE),)), RAW, "USDC")
    assert found.conversion_rate == "1"
    node.answers[f"{DECIMALS} {OTHER_FEED}"] = words(37)
    failure = await refusal(estimator, node, FeedRate(feed=OTHER_FEED, max_age=3600))
    assert (type(failure), failure.description) == (NoFreshRate, f"feed {OTHER_FEED} has 37 decimals")


async def test_a_token_has_255_decimals_at_most(node: FaultNode, estimator: Estimator) -> None:
    node.answers[DECIMALS] = words(255)
    await ask(estimator, network(node.url, tokens=(token(decimals=255),)), RAW, "USDC")
    node.answers[DECIMALS] = words(256)
    with pytest.raises(InternalFailure, match=r"^no contract answers"):
        await ask(estimator, network(node.url, tokens=(token(address=OTHER_FEED, decimals=256),)), RAW, "USDC")


async def test_a_token_that_reverts_has_no_decimals(node: FaultNode, estimator: Estimator) -> None:
    node.answers[DECIMALS] = {"code": 3, "message": "execution reverted", "data": "0x"}
    failure = await refusal(estimator, node, FixedRate(fixed=Decimal(1)))
    expected = "no contract answers decimals() at the address of USDC"
    assert (type(failure), failure.description) == (InternalFailure, expected)


@pytest.mark.parametrize("rate", [SOURCE, FixedRate(fixed=Decimal(1))])
@pytest.mark.parametrize(
    ("decimals", "description"),
    [
        (words(18), "configured with 6 decimals, but its contract returns 18"),
        ("0x", "no contract answers decimals()"),
    ],
)
async def test_decimals_are_checked_against_the_contract(
    node: FaultNode, estimator: Estimator, rate: Any, decimals: str, description: str
) -> None:
    node.answers[DECIMALS] = decimals
    failure = await refusal(estimator, node, rate)
    assert isinstance(failure, InternalFailure | NoFreshRate)
    if isinstance(rate, FixedRate):
        assert description in failure.description


async def test_a_crossed_rate_needs_both(node: FaultNode, estimator: Estimator) -> None:
    rate = CrossedRate(native_usd=FEED, token_usd=OTHER_FEED, max_age=10)
    found = await ask(estimator, network(node.url, tokens=(token(rate),)), RAW, "USDC")
    assert found.conversion_rate == "1"
    assert node.calls["eth_call"] == 7  # decimals of token and feeds, two rounds, and those before


async def test_an_inverse_that_does_not_end_is_rounded_up(node: FaultNode, estimator: Estimator) -> None:
    node.answers[ROUND] = words(9, 3_000_000, NOW, NOW, 9)
    rate = FeedRate(feed=FEED, max_age=10, inverse=True)
    found = await ask(estimator, network(node.url, tokens=(token(rate),)), RAW, "USDC")
    assert found.conversion_rate == "0." + "3" * 35 + "4"


async def test_decimals_are_read_with_each_price(node: FaultNode, estimator: Estimator) -> None:
    where = network(node.url, tokens=(token(SOURCE),))
    for _ in range(5):
        await ask(estimator, where, RAW, "USDC", OWN_LIMIT)
    assert (
        node.calls["eth_call"] == 5 * 4
    )  # decimals of token and feed, a round, and the one before, which this node fails to return


async def test_an_unreachable_feed_is_an_unreachable_node(node: FaultNode, estimator: Estimator) -> None:
    where = network(node.url, tokens=(token(SOURCE),))
    await ask(estimator, where, RAW, "USDC", OWN_LIMIT)
    node.mood = "http_500"
    with pytest.raises(NodeUnreachable) as failure:
        await ask(estimator, where, RAW, "USDC", OWN_LIMIT)
    assert "secret" not in failure.value.description
