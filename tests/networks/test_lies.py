"""Estimates over a real node beside nodes that are faulty or lie: stand-ins for those, in front of the same node."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal

import pytest
import rlp
from msgspec.structs import replace

from relaydeck.fees.errors import FeeDataDisputed, RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from relaydeck.networks.model import Network, NodeHeader, RpcUrl
from relaydeck.secret import Secret
from tests.networks.gate import Gate
from tests.networks.lying_proxy import LIES, LyingProxy
from tests.node.process import HARDHAT, running
from tests.support.fee_chain import HARDHAT_KEY, Chain
from tests.support.fee_scene import ask, network, transaction
from tests.support.lengths import times

ESTIMATES = times(300, short=60)
BESIDE_EVERY_FAULT = times(75, short=50, setting="ESTIMATES_BESIDE_EVERY_FAULT")  # with 300 it takes minutes
# What one node says against another, and no block shows.
TOLD_APART_BY_TWO = ("low", "high", "low_tips", "high_tips")
# Fee data are read again for almost every estimate. The healthy node has more time than a busy machine needs.
OPTIONS = FeeOptions(deadline=120.0, try_timeout=5.0, cache_age=0.02)


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with running(HARDHAT) as url:
        chain = Chain(url, HARDHAT_KEY)
        chain.rpc("hardhat_mine", hex(60))
        yield chain
        chain.close()


@asynccontextmanager
async def beside(chain: Chain, *lies: str, healthy: int = 1, websocket: bool = False) -> AsyncIterator[Network]:
    """The real node once or more, behind several names, and liars in front of it."""
    async with AsyncExitStack() as stack:
        said = (*lies, *[""] * healthy)
        proxies = [LyingProxy(chain.url, lie, websocket=websocket) for lie in said]
        yield network(*[(await stack.enter_async_context(proxy)).url for proxy in proxies])


@asynccontextmanager
async def behind_a_gate(chain: Chain, lie: str) -> AsyncIterator[Network]:
    """The real node requires a header; the liar does not."""
    headers = (NodeHeader("X-Key", Secret("open-sesame")),)
    async with LyingProxy(chain.url, lie) as liar, Gate(chain.url, "x-key: open-sesame") as gate:
        urls = (RpcUrl(liar.url, headers=headers), RpcUrl(f"http://127.0.0.1:{gate.port}", headers=headers))
        yield replace(network(), rpc_urls=urls)


async def wrong_of(
    chain: Chain, where: Network, count: int, *, may_disagree: bool = False
) -> list[tuple[int, Decimal, Decimal]]:
    """The estimates that are not within what three blocks can explain of the node's own figure at that moment.

    A hundred blocks ago the base fee was next to nothing; now it is high, and falls with every block that is mined
    meanwhile: a node that is behind or stands still has another price.
    """
    chain.pin_base_fee(10**13)
    await asyncio.to_thread(chain.rpc, "hardhat_mine", "0x1")
    estimator, truth, wrong = Estimator(OPTIONS), await true_fee(chain), []
    try:
        for number in range(count):
            if number % (count // 10) == 4:
                await asyncio.to_thread(chain.rpc, "hardhat_mine", "0x2")
                truth = await true_fee(chain)
            try:
                fee = Decimal((await ask(estimator, where, transaction(number))).estimated_fee)
            except FeeDataDisputed:
                if not may_disagree:
                    raise
                continue
            if not truth / 2 < fee < truth * 2:
                wrong.append((number, fee, truth))
        return wrong
    finally:
        await estimator.close()


async def true_fee(chain: Chain) -> Decimal:
    estimator = Estimator(OPTIONS)
    fee = Decimal((await ask(estimator, network(chain.url), transaction())).estimated_fee)
    await estimator.close()
    return fee


@pytest.mark.parametrize("lie", LIES)
async def test_no_estimate_fails_or_is_wrong_beside_two_healthy_nodes(chain: Chain, lie: str) -> None:
    async with beside(chain, lie, healthy=2) as where:
        assert await wrong_of(chain, where, 20) == []


@pytest.mark.parametrize("lie", [lie for lie in LIES if lie not in (*TOLD_APART_BY_TWO, "ahead")])
async def test_no_estimate_fails_or_is_wrong_beside_one_healthy_node(chain: Chain, lie: str) -> None:
    async with beside(chain, lie) as where:
        assert await wrong_of(chain, where, 20) == []


@pytest.mark.parametrize("lie", TOLD_APART_BY_TWO)
async def test_of_two_nodes_that_contradict_each_other_neither_is_believed(chain: Chain, lie: str) -> None:
    async with beside(chain, lie) as where:
        with pytest.raises(RpcFailure) as failure:
            await wrong_of(chain, where, 20)
    assert (failure.value.code, failure.value.message) == (-32005, "Nodes disagree")
    assert failure.value.description.count("http://127.0.0.1:") == 2


@pytest.mark.parametrize("lie", ["lagging", "high_forged", "hanging", "rate_limited"])
async def test_no_estimate_fails_or_is_wrong_over_websockets(chain: Chain, lie: str) -> None:
    async with beside(chain, lie, websocket=True) as where:
        assert await wrong_of(chain, where, 20) == []


@pytest.mark.prove
@pytest.mark.parallel
@pytest.mark.parametrize("lie", LIES)
async def test_none_of_many_fails_or_is_wrong_over_websockets(chain: Chain, lie: str) -> None:
    async with beside(chain, lie, healthy=2, websocket=True) as where:
        assert await wrong_of(chain, where, ESTIMATES) == []


@pytest.mark.prove
@pytest.mark.parallel
@pytest.mark.parametrize(
    "lie", ["lagging", "low_forged", "high_forged", "slow", "hanging", "rate_limited", "wrong_chain"]
)
async def test_none_of_many_fails_or_is_wrong_with_a_node_that_requires_a_header(chain: Chain, lie: str) -> None:
    async with behind_a_gate(chain, lie) as where:
        assert await wrong_of(chain, where, ESTIMATES) == []


@pytest.mark.prove
@pytest.mark.parallel
@pytest.mark.parametrize("lie", LIES)
async def test_none_of_many_fails_or_is_wrong_beside_two_healthy_nodes(chain: Chain, lie: str) -> None:
    async with beside(chain, lie, healthy=2) as where:
        assert await wrong_of(chain, where, ESTIMATES) == []


@pytest.mark.prove
@pytest.mark.parallel
async def test_none_is_wrong_beside_every_fault_at_once(chain: Chain) -> None:
    """With one healthy node among liars, estimates are right or fail: nothing shows who lies."""
    lies = ("lagging", "frozen", "low", "high", "gas", "slow", "hanging", "rate_limited", "wrong_chain")
    async with beside(chain, *lies) as where:
        assert await wrong_of(chain, where, BESIDE_EVERY_FAULT, may_disagree=True) == []


@pytest.mark.prove
@pytest.mark.parallel
async def test_a_poison_transaction_repeated_fails_no_other_estimate(chain: Chain) -> None:
    """It reverts, and the stand-in sends that with HTTP 500; after each one an estimate of another caller."""
    reverting = creation("fd")
    estimator = Estimator(OPTIONS)
    async with beside(chain, "http_500_errors", healthy=0) as where:
        for number in range(ESTIMATES // 2):
            with pytest.raises(RpcFailure, match=r"revert|reason"):
                await ask(estimator, where, reverting)
            assert await ask(estimator, where, transaction(number))
    await estimator.close()


def creation(code: str) -> str:
    """A transaction that creates a contract with this code as its constructor."""
    fields = [31337, 0, 1, 2, 100_000, b"", 0, bytes.fromhex(code), []]
    encoded: bytes = rlp.encode(fields)
    return "0x02" + encoded.hex()


@pytest.mark.parametrize("lies", [("low_tips", "high_tips", "high"), ("low", "high", "gas")])
async def test_liars_that_contradict_each_other_are_not_believed(chain: Chain, lies: tuple[str, ...]) -> None:
    """The estimate is right, or fails and reports it."""
    async with beside(chain, *lies, healthy=2) as where:
        assert await wrong_of(chain, replace(where, quorum=2), 20, may_disagree=True) == []
