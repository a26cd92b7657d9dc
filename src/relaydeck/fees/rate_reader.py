"""Reads the rates of fee tokens from the contracts of their chain."""

import asyncio
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, ROUND_UP, Context, Decimal
from typing import NamedTuple

from msgspec import UNSET

from relaydeck.fees.errors import InternalFailure, NoFreshRate
from relaydeck.fees.exact import QUOTIENT_DIGITS
from relaydeck.fees.rates import (
    Feed,
    Quote,
    Rate,
    Round,
    Sequencer,
    Source,
    UptimeFeed,
    check_move,
    feeds_of,
    median_of,
    quote_of,
    read_before,
    read_round,
    read_sequencer,
    signed,
    sources_of,
    with_margin,
)
from relaydeck.networks.evm.batcher import Batcher
from relaydeck.networks.evm.errors import ErrorKind, NodeError, NodesDisagree, error_kind, refusal
from relaydeck.networks.evm.questions import contract_call, read_bytes, words
from relaydeck.networks.model import FeeToken, FixedRate, MedianRate, PoolRate

# -- The time-weighted price of a Uniswap-v3-style pool, from its `observe` function --

TOKEN_0, TOKEN_1, OBSERVE = "0x0dfe1681", "0xd21220a7", "0x883bdbfd"
_LEAST_WINDOW = 600  # seconds; the price of a shorter one is cheap to move
_MAX_TICK = 887_272
_PRECISE = Context(prec=QUOTIENT_DIGITS + 24, rounding=ROUND_HALF_EVEN)
_ROUNDED_UP = Context(prec=QUOTIENT_DIGITS, rounding=ROUND_UP)
_TICK = Decimal("1.0001")


@dataclass(frozen=True, slots=True)
class Observation:
    """Averages over the window: of the logarithm of the price, and of the liquidity."""

    tick: int
    liquidity: int


def observe_data(window: int) -> str:
    """The call observe([window, 0])."""
    return OBSERVE + "".join(f"{number:064x}" for number in (32, 2, window, 0))


def read_observation(pool: str, returned: bytes, window: int) -> Observation:
    """From two arrays of two numbers: cumulative ticks, and cumulative seconds per liquidity (128 binary places)."""
    found = words(returned, 8)
    if found is None or (found[2], found[5]) != (2, 2):
        raise NoFreshRate(f"pool {pool} does not answer as a Uniswap v3 pool does")
    tick = (signed(found[4]) - signed(found[3])) // window  # rounded down, as the pool's own library does
    per_liquidity = (found[7] - found[6]) % (1 << 160)
    if abs(tick) > _MAX_TICK or per_liquidity == 0:
        raise NoFreshRate(f"pool {pool} answers an impossible observation")
    return Observation(tick, (window << 128) // per_liquidity)


def price_at(tick: int, decimals_0: int, decimals_1: int) -> Decimal:
    """Units of token 1 for one of token 0, to 36 significant digits, rounded up."""
    raw = _PRECISE.power(_TICK, tick)
    return _ROUNDED_UP.plus(_PRECISE.scaleb(raw, decimals_0 - decimals_1))


_DECIMALS = "0x313ce567"  # decimals()
_LATEST_ROUND_DATA = "0xfeaf968c"  # latestRoundData()
_GET_ROUND_DATA = "0x9a6fc8f5"  # getRoundData(uint80)


class Moment(NamedTuple):
    """What a rate is read for: as of which block, and until which time an answer has to be fresh enough."""

    block: int
    until: float
    max_skew: float


class RateReader:
    """Reads rates of one chain as of one block. `seen` keeps the last round of each feed, by address."""

    def __init__(self, batcher: Batcher, seen: dict[str, Round], moment: Moment) -> None:
        self._batcher = batcher
        self._seen = seen
        self._moment = moment

    async def rate(self, token: FeeToken, uptime: UptimeFeed | None = None) -> Rate:
        """Raises `NoFreshRate` when a feed's answer is unusable, `InternalFailure` for a wrong configuration."""
        if isinstance(token.rate, FixedRate):
            await self._check_token(token)
            return with_margin(token, token.rate.fixed)
        _, sequencer, quote = await asyncio.gather(
            self._check_token(token), self._sequencer(uptime), self._priced(token, token.rate)
        )
        found = with_margin(token, quote.value)
        return replace(found, rounds=quote.rounds, block=self._moment.block, sequencer=sequencer, facts=quote.facts)

    async def _priced(self, token: FeeToken, rate: Source | MedianRate) -> Quote:
        if not isinstance(rate, MedianRate):
            return await self._quote(token, rate)
        sources = sources_of(rate)
        if rate.at_least is UNSET:
            return median_of(rate, await asyncio.gather(*(self._quote(token, each) for each in sources)))
        found = await asyncio.gather(*(self._quote_or_problem(token, each) for each in sources))
        quotes = [each for each in found if isinstance(each, Quote)]
        return median_of(rate, quotes, [each for each in found if isinstance(each, str)])

    async def _quote_or_problem(self, token: FeeToken, source: Source) -> Quote | str:
        """A round counts only if it stays fresh for as long as the rate is shared."""
        try:
            quote = await self._quote(token, source)
            for each in quote.rounds:
                each.check_age(self._moment.until, self._moment.max_skew)
        except (NoFreshRate, NodesDisagree) as failure:
            return str(failure)
        return quote

    async def _quote(self, token: FeeToken, source: Source) -> Quote:
        rounds = asyncio.gather(*(self._round(feed) for feed in feeds_of(source)))
        if not isinstance(source, PoolRate):
            return quote_of(source, await rounds, None)
        return quote_of(source, *await asyncio.gather(rounds, self._twap(token, source)))

    async def _sequencer(self, uptime: UptimeFeed | None) -> Sequencer | None:
        if uptime is None:
            return None
        fields = await self._call_words(uptime.address, _LATEST_ROUND_DATA, 5)
        if fields is None:
            raise NoFreshRate(f"the sequencer's uptime feed {uptime.address} does not answer as an aggregator does")
        return read_sequencer(fields, uptime.grace)

    async def _twap(self, token: FeeToken, source: PoolRate) -> Decimal:
        """The pool's other token for one fee token."""
        pool, window = source.pool, source.window
        if window < _LEAST_WINDOW and not source.short_window:
            raise InternalFailure(f"the window of pool {pool} is {window} s, below 10 minutes, without short_window")
        first, second, observed = await asyncio.gather(
            self._call_words(pool, TOKEN_0, 1),
            self._call_words(pool, TOKEN_1, 1),
            self._call(pool, observe_data(window)),
        )
        found = read_observation(pool, observed, window)
        if found.liquidity < source.min_liquidity:
            raise NoFreshRate(f"pool {pool} has a liquidity of {found.liquidity}, less than {source.min_liquidity:f}")
        return await self._pool_price(token, pool, found.tick, first, second)

    async def _pool_price(
        self, token: FeeToken, pool: str, tick: int, first: list[int] | None, second: list[int] | None
    ) -> Decimal:
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
        found = await self._call_words(address, _DECIMALS, 1)
        return None if found is None or found[0] > 255 else found[0]

    async def _round(self, feed: Feed) -> Round:
        address = feed.address
        decimals, fields = await asyncio.gather(
            self._decimals_of(address), self._call_words(address, _LATEST_ROUND_DATA, 5)
        )
        if decimals is None or fields is None:
            raise NoFreshRate(f"feed {address} does not answer as an aggregator does")
        found, last = read_round(feed, decimals, fields), self._seen.get(address.lower())
        if last and last.round_id == found.round_id and last.is_whole:
            found = replace(found, before=last.before)
        else:
            found = await self._with_round_before(found)
        found = replace(found, change=found.changed_since(last) if last else "")
        self._seen[address.lower()] = found
        check_move(found)
        return found

    async def _with_round_before(self, found: Round) -> Round:
        if found.round_id == 0:  # there is none, and no number for it
            return found
        asked = f"{_GET_ROUND_DATA}{found.round_id - 1:064x}"
        try:
            return replace(found, before=read_before(await self._call_words(found.feed.address, asked, 5)))
        except NoFreshRate:  # some feeds keep no earlier rounds
            return found
        except NodeError:
            return replace(found, is_whole=False)

    async def _call_words(self, address: str, data: str, count: int) -> list[int] | None:
        return words(await self._call(address, data), count)

    async def _call(self, address: str, data: str) -> bytes:
        try:
            return await self._batcher.ask(contract_call(address, data, read_bytes, hex(self._moment.block)))
        except NodeError as error:
            if error_kind(error) is not ErrorKind.REVERTED:
                raise  # the node refused; the contract did not revert
            raise NoFreshRate(f"{address} could not be read: {refusal(error)}") from None
