"""The rates of a network as estimates would use them now, each with the age of its feed."""

from collections.abc import AsyncIterator

import pytest

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from relaydeck.fees.report import TokenRate, report_rates
from relaydeck.networks.model import FeedRate, FeeToken, Network
from tests.support.fault_node import FaultNode, fault_nodes, words
from tests.support.fee_scene import network, token

NOW = 1_800_000_000
FEED = "0x" + "fe" * 20
SOURCE = FeedRate(feed=FEED, max_age=3600)
DECIMALS, ROUND = "eth_call 0x313ce567", "eth_call 0xfeaf968c"


@pytest.fixture
async def node() -> AsyncIterator[FaultNode]:
    async with fault_nodes("healthy") as nodes:
        nodes[0].answers = {DECIMALS: words(6), ROUND: words(9, 2000 * 10**6, NOW, NOW - 60, 9)}
        yield nodes[0]


@pytest.fixture
async def estimator() -> AsyncIterator[Estimator]:
    estimator = Estimator(FeeOptions(cache_age=0.0, deadline=60.0, try_timeout=30.0), now=lambda: NOW)
    yield estimator
    await estimator.close()


def on(node: FaultNode, *tokens: FeeToken) -> Network:
    return network(node.url, tokens=tokens)


async def test_a_feed_with_the_moment_of_its_update(node: FaultNode, estimator: Estimator) -> None:
    rates = await report_rates(estimator, on(node, token(SOURCE, margin="10")))
    assert rates == [TokenRate("USDC", "2200", NOW - 60)]


async def test_a_fixed_rate_has_no_age(node: FaultNode, estimator: Estimator) -> None:
    assert await report_rates(estimator, on(node, token())) == [TokenRate("USDC", "2500.5")]


async def test_a_feed_that_is_too_old(node: FaultNode, estimator: Estimator) -> None:
    node.answers[ROUND] = words(9, 5, NOW, NOW - 3601, 9)
    problem = f"No fresh rate: feed {FEED} was updated 3601 s ago, more than 3600 s"
    assert await report_rates(estimator, on(node, token(SOURCE))) == [TokenRate("USDC", problem=problem)]


async def test_a_node_that_fails(node: FaultNode, estimator: Estimator) -> None:
    node.mood = "http_500"
    (rate,) = await report_rates(estimator, on(node, token(SOURCE)))
    assert (rate.value, rate.updated_at) == ("", None)
    assert rate.problem.startswith("Node unreachable: ")
    assert "secret-key" not in rate.problem
