"""What estimates share: one node pool for each set of URLs, and the values that hold for every transaction."""

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Generic, TypeVar

from relaydeck.fees import gas_price
from relaydeck.fees.gas import GasMeter
from relaydeck.fees.gas_price import Price
from relaydeck.fees.model import FeeOptions
from relaydeck.fees.rates import Rate, RateReader, Round, UptimeFeed
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.node_figures import NodeFigures
from relaydeck.networks.evm.pool import Batcher, NodePool
from relaydeck.networks.model import FeeToken, FixedRate, Network, RpcUrl
from relaydeck.process.background import TaskSet, note_failure

T = TypeVar("T")
_GRACE = 0.1  # the pool enforces the deadline itself, with a better message
_MAX_RATES = 1_000  # all are dropped together; only a configuration that keeps changing reaches this


class CachedValue(Generic[T]):
    """A value that many estimates share: fetched by one at a time, then fresh for `age()` seconds.

    It also ages when `head`, the newest block number, grows. A failed fetch is not kept, but all that waited for it
    share the failure.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[T]],
        age: Callable[[], float],
        head: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._fetch = fetch
        self._age = age
        self._head = head
        self._monotonic = monotonic
        self._task: asyncio.Task[T] | None = None
        self._arrived = 0.0
        self._head_then = 0

    def take(self) -> "asyncio.Task[T]":
        """The task that fetched the value or fetches it now. Callers must shield it: others wait for it, too."""
        if self._task is None or (self._task.done() and not self._fresh(self._task)):
            self._task = asyncio.ensure_future(self._fetched())
            self._task.add_done_callback(note_failure)
        return self._task

    @property
    def seconds_old(self) -> float:
        return self._monotonic() - self._arrived

    def expire(self, moment: float) -> bool:
        """Let the next one fetch it again if it arrived before the moment. Return whether it did."""
        is_old = self._task is not None and self._task.done() and self._arrived < moment
        if is_old:
            self._task = None
        return is_old

    def _fresh(self, task: "asyncio.Task[T]") -> bool:
        if task.cancelled() or task.exception() is not None:
            return False
        return self.seconds_old < self._age() and self._head() <= self._head_then

    async def _fetched(self) -> T:
        value = await self._fetch()
        self._arrived = self._monotonic()
        self._head_then = self._head()
        return value

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def result_of(task: "asyncio.Task[T]", deadline: float) -> T:
    """Shielded: other estimates wait for the same fetch, perhaps with a later deadline."""
    if task.done():
        return task.result()
    async with asyncio.timeout_at(deadline + _GRACE):
        return await asyncio.shield(task)


class ChainCache:
    """The shared values of one chain, read from one set of URLs."""

    def __init__(
        self, pool: NodePool, options: FeeOptions, monotonic: Callable[[], float], now: Callable[[], float]
    ) -> None:
        self.pool = pool
        self._network: Network | None = None
        self.last_used = monotonic()
        self._options = options
        self._monotonic = monotonic
        self._now = now
        self._batcher = Batcher(pool)
        self._seen: dict[str, Round] = {}  # the last round of each feed, by address
        self._was_idle = False  # as of the last fee data
        self._last_read = (0, 0.0)  # number of the newest block, and when it was read
        self._seconds_per_block = inf  # between the last two readings, if there were several blocks
        self.fee_market: CachedValue[Price] = self._cached(self._fee_market)
        self.legacy: CachedValue[Price] = self._cached(self._legacy)
        self.blob_base_fee: CachedValue[int] = self._cached(self._blob_base_fee)
        self._priced = self.fee_market  # what an estimate last took
        self.gas = GasMeter(pool)
        self._rates: dict[tuple[FeeToken, UptimeFeed | None], CachedValue[Rate]] = {}

    def follow(self, network: Network) -> None:
        """Apply the rules of the network that estimates are made for. They stay while the record is the same."""
        if network is not self._network:
            self._network, self.pool.rules = network, network.pool_rules

    def price(self, eip1559: bool) -> CachedValue[Price]:
        self._priced = self.fee_market if eip1559 else self.legacy
        return self._priced

    def rate(self, token: FeeToken, uptime: UptimeFeed | None = None) -> CachedValue[Rate]:
        rate = self._rates.get((token, uptime))
        if rate is None:
            if len(self._rates) >= _MAX_RATES:
                self._rates.clear()
            rate = self._rates[token, uptime] = self._cached_rate(token, uptime)
        return rate

    def _cached_rate(self, token: FeeToken, uptime: UptimeFeed | None) -> CachedValue[Rate]:
        async def fetch() -> Rate:
            block = (await asyncio.shield(self._priced.take())).block  # that the estimate is made for
            until = self._now() + self._options.cache_age
            return await RateReader(self._batcher, self._seen, block, until).rate(token, uptime)

        if isinstance(token.rate, FixedRate):  # nothing on the chain can change it
            return CachedValue(fetch, lambda: inf, lambda: 0, self._monotonic)
        return self._cached(fetch)

    def _cached(self, fetch: Callable[[], Awaitable[T]]) -> CachedValue[T]:
        return CachedValue(fetch, self._age, lambda: self.pool.head, self._monotonic)

    def _age(self) -> float:
        """Until the next block, and at most the age of the options."""
        return min(self._options.cache_age, self.pool.facts.block_seconds or inf, self._seconds_per_block)

    def _timed(self, price: Price) -> Price:
        """Measures how fast blocks follow each other."""
        (before, then), now = self._last_read, self._monotonic()
        if before and price.block > before + 1:
            self._seconds_per_block = (now - then) / (price.block - before)
        elif price.block == before:
            self._seconds_per_block = inf
        self._last_read = (price.block, now)
        return price

    def figures(self) -> NodeFigures:
        found = self.pool.figures()
        found.feed_changes = {each.feed.address: each.change for each in self._seen.values() if each.change}
        return found

    async def _fee_market(self) -> Price:
        now = self._now()
        price = await gas_price.fee_market_price(self.pool, self._options, now, was_idle=self._was_idle)
        self._was_idle = price.is_of_idle_blocks
        return self._timed(price)

    async def _legacy(self) -> Price:
        return self._timed(await gas_price.legacy_price(self.pool, self._now()))

    async def _blob_base_fee(self) -> int:
        return await self._batcher.ask(gas_price.BLOB_BASE_FEE)

    async def close(self) -> None:
        shared = (self.fee_market, self.legacy, self.blob_base_fee)
        values: list[CachedValue[Any]] = [*shared, *self._rates.values()]
        for value in values:
            value.cancel()
        await self._batcher.close()
        await self.pool.close()


class ChainCaches:
    """One cache for each set of URLs, shared by every relayer that uses them."""

    def __init__(
        self,
        options: FeeOptions,
        monotonic: Callable[[], float],
        jitter: random.Random | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._monotonic = monotonic
        self._now = now
        self._jitter = jitter
        self._client = Client(options.max_response_bytes, options.guards)
        self._caches: OrderedDict[tuple[tuple[RpcUrl, ...], int], ChainCache] = OrderedDict()  # the last used is last
        self._closing = TaskSet()

    def find(self, urls: tuple[RpcUrl, ...], chain_id: int) -> ChainCache:
        key = (urls, chain_id)
        cache = self._caches.get(key)
        if cache is None:
            self._drop_idle()
            cache = self._caches[key] = self._build(urls, chain_id)
        self._caches.move_to_end(key)
        cache.last_used = self._monotonic()
        return cache

    def node_figures(self) -> NodeFigures:
        found = NodeFigures(hosts={})
        for cache in self._caches.values():
            found.add(cache.figures())
        return found

    def _build(self, urls: tuple[RpcUrl, ...], chain_id: int) -> ChainCache:
        options, monotonic = self._options, self._monotonic
        pool = NodePool(urls, chain_id, self._client, options, monotonic=monotonic, now=self._now, jitter=self._jitter)
        return ChainCache(pool, self._options, monotonic, self._now)

    def _drop_idle(self) -> None:
        """Close the caches that are no longer used, when the next one is made.

        URLs that were changed leave a cache behind. Relayers with URLs of their own share none: beyond the limit, the
        caches used longest ago are closed.
        """
        now = self._monotonic()
        while self._caches and self._is_idle(now - next(iter(self._caches.values())).last_used):
            _, cache = self._caches.popitem(last=False)
            self._closing.start(cache.close())

    def _is_idle(self, seconds: float) -> bool:
        if len(self._caches) < self._options.max_pools:
            return seconds > self._options.max_idle
        return seconds > 2 * self._options.deadline  # no estimate that began with it is still under way

    async def close(self) -> None:
        for cache in self._caches.values():
            await cache.close()
        await self._closing.join()
        await self._client.close()
