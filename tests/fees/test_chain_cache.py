"""What estimates share, and for how long. The clock is the test's."""

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from relaydeck.fees.chain_cache import CachedValue, ChainCaches, result_of
from relaydeck.fees.model import FeeOptions
from relaydeck.fees.rates import UptimeFeed
from relaydeck.networks.chains import ChainFacts
from relaydeck.networks.evm.options import PoolRules
from relaydeck.networks.model import FixedRate, RpcUrl
from tests.support.fault_node import CHAIN_ID, FaultNode, fault_nodes
from tests.support.fee_scene import token

FIRST, SECOND = (RpcUrl("http://127.0.0.1:1"),), (RpcUrl("http://127.0.0.1:2"),)


@dataclass
class Source:
    """Counts its fetches. Each has the next outcome: a value, or a failure."""

    outcomes: list[int | Exception]
    now: float = 100.0
    head: int = 7
    started: asyncio.Event = field(default_factory=asyncio.Event)
    fetches: int = 0

    async def fetch(self) -> int:
        self.fetches += 1
        self.started.set()
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome < 0:
            await asyncio.sleep(3600)
        return outcome

    def cached(self, age: float = 10.0) -> CachedValue[int]:
        return CachedValue(self.fetch, lambda: age, lambda: self.head, lambda: self.now)


async def test_a_value_is_shared_until_it_is_too_old() -> None:
    source = Source([1, 2])
    value = source.cached()
    assert await value.take() == 1
    source.now += 9.5
    assert (await value.take(), value.seconds_old) == (1, 9.5)
    source.now = 110.0
    assert (await value.take(), value.seconds_old) == (2, 0.0)


async def test_a_value_is_shared_until_there_is_a_newer_block() -> None:
    source = Source([1, 2])
    value = source.cached()
    assert await value.take() == 1
    source.head = 6
    assert await value.take() == 1
    source.head = 8
    assert await value.take() == 2


async def test_a_failure_is_not_kept() -> None:
    source = Source([ValueError("no"), 2])
    value = source.cached()
    with pytest.raises(ValueError, match="no"):
        await value.take()
    assert await value.take() == 2


async def test_a_cancelled_fetch_is_made_again() -> None:
    source = Source([-1, 2])
    value = source.cached()
    task = value.take()
    await source.started.wait()
    value.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await value.take() == 2


async def test_those_who_come_meanwhile_wait_for_the_same_fetch() -> None:
    source = Source([1])
    value = source.cached()
    first, second = await asyncio.gather(value.take(), value.take())
    assert (first, second, source.fetches) == (1, 1, 1)


async def test_a_deadline_ends_the_waiting_but_not_the_fetch() -> None:
    source = Source([-1])
    task = source.cached().take()
    with pytest.raises(TimeoutError):
        await result_of(task, asyncio.get_running_loop().time() - 1)
    assert not task.cancelled()
    task.cancel()


async def test_a_failure_that_nobody_waits_for_is_not_reported() -> None:
    """Otherwise asyncio logs it when the task is dropped: the estimate that started the fetch may be gone."""
    problems: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["message"]))
    value = Source([ValueError("no")]).cached()
    await asyncio.wait([value.take()])
    del value
    gc.collect()
    await asyncio.sleep(0)
    assert problems == []


@pytest.fixture
async def loop_clock(monkeypatch: pytest.MonkeyPatch) -> "Clock":
    """The event loop's clock, which stands still."""
    clock = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock)
    return clock


async def test_the_pool_has_a_moment_to_report_that_a_deadline_has_passed(loop_clock: "Clock") -> None:
    assert await result_of(Source([1]).cached().take(), loop_clock.now) == 1


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def caches(clock: Clock) -> AsyncIterator[ChainCaches]:
    caches = ChainCaches(FeeOptions(max_idle=60.0, max_pools=2, deadline=5.0), clock)
    yield caches
    await caches.close()


async def test_a_cache_for_each_set_of_urls_and_chain(caches: ChainCaches) -> None:
    first = caches.find(FIRST, 1)
    assert caches.find(FIRST, 1) is first
    assert caches.find(FIRST, 2) is not first


@pytest.mark.parametrize(("idle", "kept"), [(60.0, True), (60.1, False)])
async def test_a_cache_that_is_not_used_is_dropped(caches: ChainCaches, clock: Clock, idle: float, kept: bool) -> None:
    first = caches.find(FIRST, 1)
    clock.now += idle
    caches.find(SECOND, 1)
    assert (caches.find(FIRST, 1) is first) == kept


@pytest.mark.parametrize(("idle", "kept"), [(10.0, True), (10.1, False)])
async def test_beyond_the_limit_a_cache_is_dropped_when_no_estimate_can_use_it(
    caches: ChainCaches, clock: Clock, idle: float, kept: bool
) -> None:
    first = caches.find(FIRST, 1)
    clock.now += idle
    caches.find(SECOND, 1)
    caches.find(SECOND, 2)
    assert (caches.find(FIRST, 1) is first) == kept


async def test_a_rate_is_shared_by_token_and_uptime_feed(caches: ChainCaches) -> None:
    cache, uptime = caches.find(FIRST, 1), UptimeFeed("0x" + "dd" * 20, 60)
    assert cache.rate(token()) is cache.rate(token())
    assert cache.rate(token(), uptime) is cache.rate(token(), uptime)
    assert cache.rate(token(), uptime) is not cache.rate(token())


async def test_rates_that_keep_changing_do_not_fill_the_memory(caches: ChainCaches) -> None:
    cache = caches.find(FIRST, 1)
    first = cache.rate(token(FixedRate(fixed=Decimal(1))))
    for number in range(2, 1001):
        cache.rate(token(FixedRate(fixed=Decimal(number))))
    assert cache.rate(token(FixedRate(fixed=Decimal(1)))) is first
    cache.rate(token(FixedRate(fixed=Decimal(1001))))
    assert cache.rate(token(FixedRate(fixed=Decimal(1)))) is not first


class Market:
    """The price of a chain whose newest block and clock the test sets."""

    def __init__(self, node: FaultNode) -> None:
        self.now, self.node = 100.0, node
        self.caches = ChainCaches(FeeOptions(deadline=60.0, try_timeout=30.0), lambda: self.now)
        self.cache = self.caches.find((RpcUrl(node.url),), CHAIN_ID)

    async def block(self, now: float, newest: int, *, eip1559: bool = True) -> int:
        """Of the price that an estimate takes now."""
        self.now, self.node.block = now, newest
        return (await self.cache.price(eip1559).take()).block


@pytest.fixture
async def market() -> AsyncIterator[Market]:
    async with fault_nodes("healthy") as (node,):
        found = Market(node)
        yield found
        await found.caches.close()


async def test_a_price_lives_for_at_most_a_second(market: Market) -> None:
    assert await market.block(100.0, 100) == 100
    assert await market.block(100.99, 101) == 100
    assert await market.block(101.0, 101) == 101
    assert await market.block(101.99, 102) == 101


async def test_a_price_of_a_chain_with_fast_blocks_lives_for_one_of_them(market: Market) -> None:
    market.cache.pool.rules = PoolRules(facts=ChainFacts(block_seconds=0.25))
    assert await market.block(100.0, 100) == 100
    assert await market.block(100.24, 101) == 100
    assert await market.block(100.25, 101) == 101


@pytest.mark.parametrize("eip1559", [True, False])
async def test_how_fast_blocks_are_is_measured_where_no_fact_says_so(market: Market, eip1559: bool) -> None:
    assert await market.block(100.0, 100, eip1559=eip1559) == 100
    assert await market.block(101.0, 104, eip1559=eip1559) == 104
    assert await market.block(101.2, 105, eip1559=eip1559) == 104
    assert await market.block(101.25, 105, eip1559=eip1559) == 105
    assert await market.block(101.5, 105, eip1559=eip1559) == 105  # read again: the blocks are slower now
    assert await market.block(102.0, 106, eip1559=eip1559) == 105
