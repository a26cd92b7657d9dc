"""What estimates over the same URLs share: the pool, and the facts that hold for every transaction."""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, TypeVar

from relaydeck.fees import pricing
from relaydeck.fees.kept import Kept
from relaydeck.fees.options import FeeOptions
from relaydeck.fees.pricing import Price
from relaydeck.fees.rates import Rate, RateReader
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.together import Together
from relaydeck.networks.model import FeeToken, FixedRate

T = TypeVar("T")
_MOST_RATES = 1_000  # forgotten together when a configuration keeps changing


class ChainCache:
    def __init__(self, pool: NodePool, options: FeeOptions, monotonic: Callable[[], float]) -> None:
        self.pool = pool
        self.last_used = monotonic()
        self._options = options
        self._monotonic = monotonic
        self._together = Together(pool, options.max_batch)
        self._rate_reader = RateReader(self._together, pool)
        self.fee_market: Kept[Price] = self._kept(self._fee_market)
        self.legacy: Kept[Price] = self._kept(self._legacy)
        self.blob_base_fee: Kept[int] = self._kept(self._blob_base_fee)
        self._rates: dict[FeeToken, Kept[Rate]] = {}

    def price(self, eip1559: bool) -> Kept[Price]:
        return self.fee_market if eip1559 else self.legacy

    def rate(self, token: FeeToken) -> Kept[Rate]:
        kept = self._rates.get(token)
        if kept is None:
            if len(self._rates) >= _MOST_RATES:
                self._rates.clear()
            kept = self._rates[token] = self._kept_rate(token)
        return kept

    def _kept_rate(self, token: FeeToken) -> Kept[Rate]:
        async def fetch() -> Rate:
            return await self._rate_reader.rate(token)

        if isinstance(token.rate, FixedRate):  # nothing on the chain can change it
            return Kept(fetch, inf, lambda: 0, self._monotonic)
        return Kept(fetch, self._options.cache_age, self._head, self._monotonic)

    def _kept(self, fetch: Callable[[], Awaitable[T]]) -> Kept[T]:
        return Kept(fetch, self._options.cache_age, self._head, self._monotonic)

    def _head(self) -> int:
        return self.pool.head

    async def _fee_market(self) -> Price:
        return await pricing.fee_market_price(self._together, self.pool, self._options)

    async def _legacy(self) -> Price:
        return await pricing.legacy_price(self._together, self.pool)

    async def _blob_base_fee(self) -> int:
        return await pricing.blob_base_fee(self._together)

    async def close(self) -> None:
        kept: list[Kept[Any]] = [self.fee_market, self.legacy, self.blob_base_fee, *self._rates.values()]
        for fact in kept:
            fact.cancel()
        await self._together.close()
        await self.pool.close()
