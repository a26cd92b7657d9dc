"""Estimates over a real node beside nodes that are faulty or lie: stand-ins for those, in front of the same node."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal

import pytest
import rlp
from msgspec.structs import replace

from relaydeck.fees import Estimator, FeeOptions, RpcFailure
from relaydeck.networks.model import Network, NodeHeader, RpcUrl
from relaydeck.secret import Secret
from tests.fees.chain import HARDHAT_KEY, Chain
from tests.fees.scene import ask, network, transaction
from tests.networks.gate import Gate
from tests.networks.lying_proxy import LIES, LyingProxy
from tests.node.process import HARDHAT, running

ESTIMATES = 300
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


async def wrong_of(chain: Chain, where: Network, count: int) -> list[tuple[int, Decimal, Decimal]]:
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
            fee = Decimal((await ask(estimator, where, transaction(number))).estimated_fee)
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
async def test_no_estimate_fails_or_is_wrong_beside_one_healthy_node(chain: Chain, lie: str) -> None:
    async with beside(chain, lie, healthy=2 if lie == "ahead" else 1) as where:
        assert await wrong_of(chain, where, 40) == []


@pytest.mark.parametrize("lie", ["lagging", "high", "hanging", "rate_limited"])
async def test_no_estimate_fails_or_is_wrong_over_websockets(chain: Chain, lie: str) -> None:
    async with beside(chain, lie, websocket=True) as where:
        assert await wrong_of(chain, where, 40) == []


@pytest.mark.prove
@pytest.mark.parametrize("lie", LIES)
async def test_none_of_300_fails_or_is_wrong_over_websockets(chain: Chain, lie: str) -> None:
    async with beside(chain, lie, healthy=2 if lie == "ahead" else 1, websocket=True) as where:
        assert await wrong_of(chain, where, ESTIMATES) == []


@pytest.mark.prove
@pytest.mark.parametrize("lie", ["lagging", "low", "high", "slow", "hanging", "rate_limited", "wrong_chain"])
async def test_none_of_300_fails_or_is_wrong_with_a_node_that_requires_a_header(chain: Chain, lie: str) -> None:
    async with behind_a_gate(chain, lie) as where:
        assert await wrong_of(chain, where, ESTIMATES) == []


@pytest.mark.prove
@pytest.mark.parametrize("lie", LIES)
async def test_none_of_300_fails_or_is_wrong_beside_one_healthy_node(chain: Chain, lie: str) -> None:
    async with beside(chain, lie, healthy=2 if lie == "ahead" else 1) as where:
        assert await wrong_of(chain, where, ESTIMATES) == []


@pytest.mark.prove
async def test_none_of_300_fails_or_is_wrong_beside_every_fault_at_once(chain: Chain) -> None:
    lies = ("lagging", "frozen", "low", "high", "gas", "slow", "hanging", "rate_limited", "wrong_chain")
    async with beside(chain, *lies) as where:
        assert await wrong_of(chain, where, ESTIMATES) == []


@pytest.mark.prove
async def test_a_poison_transaction_repeated_fails_no_other_estimate(chain: Chain) -> None:
    """It reverts, and the stand-in sends that with HTTP 500; after each one an estimate of another caller."""
    reverting = creation("fd")
    estimator = Estimator(OPTIONS)
    async with beside(chain, "http_500_errors", healthy=0) as where:
        for number in range(150):
            with pytest.raises(RpcFailure, match=r"revert|reason"):
                await ask(estimator, where, reverting)
            assert await ask(estimator, where, transaction(number))
    await estimator.close()


def creation(code: str) -> str:
    """A transaction that creates a contract with this code as its constructor."""
    fields = [31337, 0, 1, 2, 100_000, b"", 0, bytes.fromhex(code), []]
    encoded: bytes = rlp.encode(fields)
    return "0x02" + encoded.hex()


@pytest.mark.parametrize(
    "lies", [("high", "high", "high"), ("high_tips", "high_tips", "high_tips"), ("low", "high", "gas")]
)
async def test_a_lying_majority_is_not_believed_with_a_quorum(chain: Chain, lies: tuple[str, ...]) -> None:
    """The answer is right, or the estimate fails and reports it."""
    estimator = Estimator(OPTIONS)
    async with beside(chain, *lies, healthy=2) as where:
        truth = await true_fee(chain)
        try:
            fee = Decimal((await ask(estimator, replace(where, quorum=2), transaction())).estimated_fee)
            assert truth / 2 < fee < truth * 2
        except RpcFailure as failure:
            assert (failure.code, failure.message) == (-32005, "Nodes disagree")
            assert failure.description.startswith("no 2 nodes agree on the price of gas: http://127.0.0.1:")
        finally:
            await estimator.close()
