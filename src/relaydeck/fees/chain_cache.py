"""What estimates over the same URLs share: the pool, and the facts that hold for every transaction."""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, TypeVar

from relaydeck.fees import pricing
from relaydeck.fees.cached_value import CachedValue
from relaydeck.fees.options import FeeOptions
from relaydeck.fees.pricing import Price
from relaydeck.fees.rates import Rate, RateReader
from relaydeck.networks.evm.batcher import Batcher
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.model import FeeToken, FixedRate

T = TypeVar("T")
_MOST_RATES = 1_000  # forgotten together when a configuration keeps changing


class ChainCache:
    def __init__(self, pool: NodePool, options: FeeOptions, monotonic: Callable[[], float]) -> None:
        self.pool = pool
        self.last_used = monotonic()
        self._options = options
        self._monotonic = monotonic
        self._batcher = Batcher(pool, options.max_batch)
        self._rate_reader = RateReader(self._batcher, pool)
        self.fee_market: CachedValue[Price] = self._cached(self._fee_market)
        self.legacy: CachedValue[Price] = self._cached(self._legacy)
        self.blob_base_fee: CachedValue[int] = self._cached(self._blob_base_fee)
        self._rates: dict[FeeToken, CachedValue[Rate]] = {}

    def price(self, eip1559: bool) -> CachedValue[Price]:
        return self.fee_market if eip1559 else self.legacy

    def rate(self, token: FeeToken) -> CachedValue[Rate]:
        kept = self._rates.get(token)
        if kept is None:
            if len(self._rates) >= _MOST_RATES:
                self._rates.clear()
            kept = self._rates[token] = self._cached_rate(token)
        return kept

    def _cached_rate(self, token: FeeToken) -> CachedValue[Rate]:
        async def fetch() -> Rate:
            return await self._rate_reader.rate(token)

        if isinstance(token.rate, FixedRate):  # nothing on the chain can change it
            return CachedValue(fetch, inf, lambda: 0, self._monotonic)
        return CachedValue(fetch, self._options.cache_age, self._head, self._monotonic)

    def _cached(self, fetch: Callable[[], Awaitable[T]]) -> CachedValue[T]:
        return CachedValue(fetch, self._options.cache_age, self._head, self._monotonic)

    def _head(self) -> int:
        return self.pool.head

    async def _fee_market(self) -> Price:
        return await pricing.fee_market_price(self._batcher, self.pool, self._options)

    async def _legacy(self) -> Price:
        return await pricing.legacy_price(self._batcher, self.pool)

    async def _blob_base_fee(self) -> int:
        return await pricing.blob_base_fee(self._batcher)

    async def close(self) -> None:
        kept: list[CachedValue[Any]] = [self.fee_market, self.legacy, self.blob_base_fee, *self._rates.values()]
        for fact in kept:
            fact.cancel()
        await self._batcher.close()
        await self.pool.close()
