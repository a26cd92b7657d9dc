"""Reads the rates of fee tokens from the contracts of their chain."""

import asyncio
from dataclasses import replace

from msgspec import UNSET

from relaydeck.fees.errors import InternalFailure, NoFreshRate
from relaydeck.fees.exact import Exact
from relaydeck.fees.feeds import Feed, Round, Sequencer, check_move, feeds_of, read_round, read_sequencer
from relaydeck.fees.rates import Rate, UptimeFeed, fixed_value, value_of, with_margin
from relaydeck.fees.twap import TOKEN_0, TOKEN_1, observe_data, pool_of, price_at, read_observation
from relaydeck.networks.evm.batcher import Batcher
from relaydeck.networks.evm.errors import ErrorKind, NodeError, error_kind
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import BLOCK_NUMBER, contract_call, read_bytes, words
from relaydeck.networks.evm.revert import printable
from relaydeck.networks.model import FeeToken, FixedRate

_DECIMALS = "0x313ce567"  # decimals()
_LATEST_ROUND_DATA = "0xfeaf968c"  # latestRoundData()
_GET_ROUND_DATA = "0x9a6fc8f5"  # getRoundData(uint80)


class RateReader:
    """Reads the rates of one chain. Decimals of tokens and feeds are read once and cached."""

    def __init__(self, batcher: Batcher, pool: NodePool) -> None:
        self._batcher = batcher
        self._pool = pool
        self._decimals: dict[str, int] = {}

    async def rate(self, token: FeeToken, uptime: UptimeFeed | None = None) -> Rate:
        """Raises `NoFreshRate` when a feed's answer is unusable, `InternalFailure` for a wrong configuration."""
        if isinstance(token.rate, FixedRate):
            await self._check_token(token)
            return with_margin(token, fixed_value(token.rate))
        _, block, sequencer, rounds, twap = await asyncio.gather(
            self._check_token(token),
            self._batcher.ask(BLOCK_NUMBER),
            self._sequencer(uptime),
            asyncio.gather(*(self._round(feed) for feed in feeds_of(token.rate))),
            self._twap(token),
        )
        self._pool.seen_block(block.value)
        value, facts = value_of(token.rate, rounds, twap)
        found = with_margin(token, value)
        return replace(found, rounds=tuple(rounds), block=block.value, sequencer=sequencer, facts=facts)

    async def _sequencer(self, uptime: UptimeFeed | None) -> Sequencer | None:
        if uptime is None:
            return None
        fields = await self._call_words(uptime.address, _LATEST_ROUND_DATA, 5)
        if fields is None:
            raise NoFreshRate(f"the sequencer's uptime feed {uptime.address} does not answer as an aggregator does")
        return read_sequencer(fields, uptime.grace)

    async def _twap(self, token: FeeToken) -> Exact | None:
        """The pool's other token for one fee token."""
        place = pool_of(token.rate)
        if place is None:
            return None
        first, second, observed = await asyncio.gather(
            self._call_words(place.address, TOKEN_0, 1),
            self._call_words(place.address, TOKEN_1, 1),
            self._call(place.address, observe_data(place.window)),
        )
        found = read_observation(place.address, observed, place.window)
        if found.liquidity < place.min_liquidity:
            raise NoFreshRate(
                f"pool {place.address} has a liquidity of {found.liquidity}, less than {place.min_liquidity:f}"
            )
        return await self._pool_price(token, place.address, found.tick, first, second)

    async def _pool_price(
        self, token: FeeToken, pool: str, tick: int, first: list[int] | None, second: list[int] | None
    ) -> Exact:
        own = int(token.address, 16)
        sides = [word[0] for word in (first, second) if word]
        if len(sides) < 2 or own not in sides:
            raise InternalFailure(f"pool {pool} is not a pool of {token.symbol}")
        one, other = await asyncio.gather(*(self._decimals_of(f"0x{side:040x}") for side in sides))
        if one is None or other is None:
            raise NoFreshRate(f"a token of pool {pool} does not answer decimals()")
        return price_at(tick, one, other) if own == sides[0] else price_at(-tick, other, one)

    async def _check_token(self, token: FeeToken) -> None:
        try:
            found = await self._decimals_of(token.address)
        except NoFreshRate:  # the call reverts
            found = None
        if found is None:
            raise InternalFailure(f"no contract answers decimals() at the address of {token.symbol}")
        if found != token.decimals:
            raise InternalFailure(
                f"{token.symbol} is configured with {token.decimals} decimals, but its contract returns {found}"
            )

    async def _decimals_of(self, address: str) -> int | None:
        key = address.lower()
        if (known := self._decimals.get(key)) is not None:
            return known
        found = await self._call_words(address, _DECIMALS, 1)
        if found is None or found[0] > 255:
            return None
        return self._decimals.setdefault(key, found[0])

    async def _round(self, feed: Feed) -> Round:
        address = feed.address
        decimals, fields = await asyncio.gather(
            self._decimals_of(address), self._call_words(address, _LATEST_ROUND_DATA, 5)
        )
        if decimals is None or fields is None:
            raise NoFreshRate(f"feed {address} does not answer as an aggregator does")
        found = read_round(feed, decimals, fields)
        if feed.max_move_percent is not UNSET:
            check_move(found, await self._round_before(found), feed.max_move_percent)
        return found

    async def _round_before(self, found: Round) -> list[int]:
        before = None
        if found.round_id > 0:  # else there is none, and no number for it
            before = await self._call_words(found.feed, f"{_GET_ROUND_DATA}{found.round_id - 1:064x}", 5)
        if before is None:
            raise NoFreshRate(f"feed {found.feed} has no usable round before {found.round_id}")
        return before

    async def _call_words(self, address: str, data: str, count: int) -> list[int] | None:
        return words(await self._call(address, data), count)

    async def _call(self, address: str, data: str) -> bytes:
        try:
            return (await self._batcher.ask(contract_call(address, data, read_bytes))).value
        except NodeError as error:
            if error_kind(error) is not ErrorKind.REVERTED:
                raise  # the node refused; the contract did not revert
            raise NoFreshRate(f"{address} could not be read: {printable(error.message)}") from None
