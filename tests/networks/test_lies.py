"""Estimates over a real node beside nodes that are faulty or lie: stand-ins for those, in front of the same node."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal

import pytest
from msgspec.structs import replace

from relaydeck.fees import Estimator, FeeOptions, RpcFailure
from relaydeck.networks.model import Network
from tests.fees.chain import HARDHAT_KEY, Chain
from tests.fees.scene import ask, network, transaction
from tests.networks.lying_proxy import LIES, LyingProxy
from tests.node.process import HARDHAT, running

ESTIMATES = 300
OPTIONS = FeeOptions(deadline=20.0, cache_age=0.02)  # fee data are read again for almost every estimate


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with running(HARDHAT) as url:
        chain = Chain(url, HARDHAT_KEY)
        chain.rpc("hardhat_mine", hex(60))
        yield chain
        chain.close()


@asynccontextmanager
async def beside(chain: Chain, *lies: str, healthy: int = 1) -> AsyncIterator[Network]:
    """The real node once or more, behind several names, and liars in front of it."""
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(LyingProxy(chain.url, lie)) for lie in lies]
        honest = [await stack.enter_async_context(LyingProxy(chain.url, "")) for _ in range(healthy)]
        yield network(*(proxy.url for proxy in (*proxies, *honest)))


async def estimates(chain: Chain, where: Network, count: int) -> list[Decimal]:
    """A block is mined before every thirtieth, so that nodes that stand still fall behind."""
    estimator = Estimator(OPTIONS)
    try:
        found = []
        for number in range(count):
            if number % 30 == 29:
                await asyncio.to_thread(chain.rpc, "hardhat_mine", "0x2")
            found.append(Decimal((await ask(estimator, where, transaction(number))).estimated_fee))
        return found
    finally:
        await estimator.close()


async def bounds(chain: Chain, where: Network) -> tuple[Decimal, Decimal]:
    """A quarter around what the node itself answers: empty blocks move the base fee by an eighth each."""
    estimator = Estimator(OPTIONS)
    fee = Decimal((await ask(estimator, network(chain.url), transaction())).estimated_fee)
    await estimator.close()
    return fee / 4, fee * 4


async def settle_price(chain: Chain) -> None:
    chain.pin_base_fee(10**9)
    await asyncio.to_thread(chain.rpc, "hardhat_mine", "0x1")


@pytest.mark.parametrize("lie", LIES)
async def test_no_estimate_fails_or_is_wrong_beside_one_healthy_node(chain: Chain, lie: str) -> None:
    await settle_price(chain)
    async with beside(chain, lie, healthy=2 if lie == "ahead" else 1) as where:
        low, high = await bounds(chain, where)
        found = await estimates(chain, where, 10)
    assert all(low <= fee <= high for fee in found), (low, high, found)


@pytest.mark.prove
@pytest.mark.parametrize("lie", LIES)
async def test_none_of_300_fails_or_is_wrong_beside_one_healthy_node(chain: Chain, lie: str) -> None:
    await settle_price(chain)
    async with beside(chain, lie, healthy=2 if lie == "ahead" else 1) as where:
        low, high = await bounds(chain, where)
        found = await estimates(chain, where, ESTIMATES)
    assert [fee for fee in found if not low / 4 <= fee <= high] == []  # the base fee falls in empty blocks
    assert len(found) == ESTIMATES


@pytest.mark.prove
async def test_none_of_300_fails_or_is_wrong_beside_every_fault_at_once(chain: Chain) -> None:
    await settle_price(chain)
    lies = ("lagging", "frozen", "low", "high", "gas", "slow", "hanging", "rate_limited", "wrong_chain")
    async with beside(chain, *lies) as where:
        low, high = await bounds(chain, where)
        found = await estimates(chain, where, ESTIMATES)
    assert [fee for fee in found if not low / 4 <= fee <= high] == []
    assert len(found) == ESTIMATES


@pytest.mark.parametrize(
    "lies", [("high", "high", "high"), ("high_tips", "high_tips", "high_tips"), ("low", "high", "gas")]
)
async def test_a_lying_majority_is_not_believed_with_a_quorum(chain: Chain, lies: tuple[str, ...]) -> None:
    """The answer is right, or the estimate fails and reports it."""
    await settle_price(chain)
    estimator = Estimator(OPTIONS)
    async with beside(chain, *lies, healthy=2) as where:
        low, high = await bounds(chain, where)
        try:
            fee = Decimal((await ask(estimator, replace(where, quorum=2), transaction())).estimated_fee)
            assert low <= fee <= high
        except RpcFailure as failure:
            assert (failure.code, failure.message) == (-32005, "Nodes disagree")
            assert failure.description.startswith("no 2 nodes agree on the price of gas: http://127.0.0.1:")
        finally:
            await estimator.close()
