"""What estimates share: one node pool for each set of URLs, and the values that hold for every transaction."""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Generic, TypeVar

from relaydeck.background import TaskSet
from relaydeck.fees import gas_price
from relaydeck.fees.gas import GasMeter
from relaydeck.fees.gas_price import Block, Price
from relaydeck.fees.options import FeeOptions
from relaydeck.fees.rate_reader import RateReader
from relaydeck.fees.rates import Rate, UptimeFeed
from relaydeck.networks.evm.batcher import Batcher
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.node_figures import NodeFigures
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.model import FeeToken, FixedRate, RpcUrl

T = TypeVar("T")
_GRACE = 0.1  # the pool enforces the deadline itself, with a better message
_MAX_RATES = 1_000  # all are dropped together; only a configuration that keeps changing reaches this


class CachedValue(Generic[T]):
    """A value that many estimates share: fetched by one at a time, then fresh for `age` seconds.

    It also ages when `head`, the newest block number, grows. A failed fetch is not kept, but all that waited for it
    share the failure.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[T]],
        age: float,
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
            self._task.add_done_callback(_retrieve)
        return self._task

    @property
    def seconds_old(self) -> float:
        return self._monotonic() - self._arrived

    def _fresh(self, task: "asyncio.Task[T]") -> bool:
        if task.cancelled() or task.exception() is not None:
            return False
        return self.seconds_old < self._age and self._head() <= self._head_then

    async def _fetched(self) -> T:
        value = await self._fetch()
        self._arrived = self._monotonic()
        self._head_then = self._head()
        return value

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _retrieve(task: "asyncio.Task[T]") -> None:
    """Mark a failure as retrieved: the estimate that started the fetch may be gone."""
    if not task.cancelled():
        task.exception()


async def result_of(task: "asyncio.Task[T]", deadline: float) -> T:
    """Shielded: other estimates wait for the same fetch, perhaps with a later deadline."""
    if task.done():
        return task.result()
    async with asyncio.timeout_at(deadline + _GRACE):
        return await asyncio.shield(task)


class ChainCache:
    """The shared values of one chain, read from one set of URLs."""

    def __init__(self, pool: NodePool, options: FeeOptions, monotonic: Callable[[], float]) -> None:
        self.pool = pool
        self.last_used = monotonic()
        self._options = options
        self._monotonic = monotonic
        self._batcher = Batcher(pool, options.max_batch)
        self._rate_reader = RateReader(self._batcher, pool)
        self._was_idle = False  # as of the last fee data
        self.fee_market: CachedValue[Price] = self._cached(self._fee_market)
        self.legacy: CachedValue[Price] = self._cached(self._legacy)
        self.blob_base_fee: CachedValue[int] = self._cached(self._blob_base_fee)
        self.latest_block: CachedValue[Block] = self._cached(self._latest_block)
        self.gas = GasMeter(pool)
        self._rates: dict[tuple[FeeToken, UptimeFeed | None], CachedValue[Rate]] = {}

    def price(self, eip1559: bool) -> CachedValue[Price]:
        return self.fee_market if eip1559 else self.legacy

    def rate(self, token: FeeToken, uptime: UptimeFeed | None = None) -> CachedValue[Rate]:
        rate = self._rates.get((token, uptime))
        if rate is None:
            if len(self._rates) >= _MAX_RATES:
                self._rates.clear()
            rate = self._rates[token, uptime] = self._cached_rate(token, uptime)
        return rate

    def _cached_rate(self, token: FeeToken, uptime: UptimeFeed | None) -> CachedValue[Rate]:
        async def fetch() -> Rate:
            return await self._rate_reader.rate(token, uptime)

        if isinstance(token.rate, FixedRate):  # nothing on the chain can change it
            return CachedValue(fetch, inf, lambda: 0, self._monotonic)
        return CachedValue(fetch, self._options.cache_age, self._head, self._monotonic)

    def _cached(self, fetch: Callable[[], Awaitable[T]]) -> CachedValue[T]:
        return CachedValue(fetch, self._options.cache_age, self._head, self._monotonic)

    def _head(self) -> int:
        return self.pool.head

    async def _fee_market(self) -> Price:
        price = await gas_price.fee_market_price(self._batcher, self.pool, self._options, was_idle=self._was_idle)
        self._was_idle = price.is_of_idle_blocks
        return price

    async def _legacy(self) -> Price:
        return await gas_price.legacy_price(self._batcher, self.pool)

    async def _blob_base_fee(self) -> int:
        return await gas_price.blob_base_fee(self._batcher)

    async def _latest_block(self) -> Block:
        return (await self._batcher.ask(gas_price.LATEST_BLOCK)).value

    async def close(self) -> None:
        shared = (self.fee_market, self.legacy, self.blob_base_fee, self.latest_block)
        values: list[CachedValue[Any]] = [*shared, *self._rates.values()]
        for value in values:
            value.cancel()
        await self._batcher.close()
        await self.pool.close()


class ChainCaches:
    """One cache for each set of URLs, shared by every relayer that uses them."""

    def __init__(
        self, options: FeeOptions, monotonic: Callable[[], float], jitter: random.Random | None = None
    ) -> None:
        self._options = options
        self._monotonic = monotonic
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
            found.add(cache.pool.figures())
        return found

    def _build(self, urls: tuple[RpcUrl, ...], chain_id: int) -> ChainCache:
        options, monotonic = self._options.pool(), self._monotonic
        pool = NodePool(urls, chain_id, self._client, options, monotonic=monotonic, jitter=self._jitter)
        return ChainCache(pool, self._options, monotonic)

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
