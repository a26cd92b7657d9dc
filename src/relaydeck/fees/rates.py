"""Rates of fee tokens: fixed by the operator, or read from aggregator contracts and pools."""

import asyncio
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from relaydeck.fees.errors import InternalFailure, InvalidParams, NoFreshRate
from relaydeck.fees.exact import ONE, Exact, from_decimal, quotient
from relaydeck.fees.feeds import Feed, Round, Sequencer, check_move, feeds_of, read_round, read_sequencer
from relaydeck.fees.twap import TOKEN_0, TOKEN_1, observe_data, price_at, read_observation
from relaydeck.networks.evm.batcher import Batcher
from relaydeck.networks.evm.errors import ErrorKind, NodeError, error_kind
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import BLOCK_NUMBER, contract_call, read_bytes, words
from relaydeck.networks.evm.revert import printable
from relaydeck.networks.model import CrossedRate, FeedRate, FeeToken, FixedRate, MedianRate, Network, PoolRate

_DECIMALS = "0x313ce567"  # decimals()
_LATEST_ROUND_DATA = "0xfeaf968c"  # latestRoundData()
_GET_ROUND_DATA = "0x9a6fc8f5"  # getRoundData(uint80)
_DEFAULT_WINDOW = 1800
Source = FeedRate | CrossedRate | PoolRate | MedianRate


class UptimeFeed(NamedTuple):
    """The uptime feed of a chain's sequencer."""

    address: str
    grace: int | UnsetType


def uptime_feed(network: Network) -> UptimeFeed | None:
    address = network.sequencer_feed
    return None if address is UNSET else UptimeFeed(address, network.sequencer_grace_seconds)


class _Place(NamedTuple):
    """A pool, and what is expected of it."""

    address: str
    window: int
    min_liquidity: Decimal


def pool_of(source: Any) -> _Place | None:
    if isinstance(source, PoolRate):
        return _Place(source.pool, source.window, source.min_liquidity)
    if isinstance(source, MedianRate) and source.dex_pool is not UNSET:
        window = _DEFAULT_WINDOW if source.dex_window is UNSET else source.dex_window
        least = Decimal(0) if source.dex_min_liquidity is UNSET else source.dex_min_liquidity
        return _Place(source.dex_pool, window, least)
    return None


@dataclass(frozen=True, slots=True)
class Rate:
    """Fee tokens for one native coin, the margin included."""

    value: Exact
    before_margin: Exact
    rounds: tuple[Round, ...] = ()
    block: int | None = None
    sequencer: Sequencer | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # for the trace

    def check_age(self, now: float, max_skew: float) -> None:
        """Called at every use, because a cached rate ages. Raises NoFreshRate."""
        if self.sequencer is not None:
            self.sequencer.check(now)
        for found in self.rounds:
            found.check_age(now, max_skew)


NATIVE = Rate(ONE, ONE)


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
            return _with_margin(token, _fixed(token.rate))
        _, block, sequencer, rounds, twap = await asyncio.gather(
            self._check_token(token),
            self._batcher.ask(BLOCK_NUMBER),
            self._sequencer(uptime),
            asyncio.gather(*(self._round(feed) for feed in feeds_of(token.rate))),
            self._twap(token),
        )
        self._pool.seen_block(block.value)
        value, facts = _value(token.rate, rounds, twap)
        found = _with_margin(token, value)
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
        addresses = [f"0x{side:040x}" for side in sides]
        decimals = await asyncio.gather(*(self._decimals_of(address) for address in addresses))
        if None in decimals:
            raise NoFreshRate(f"a token of pool {pool} does not answer decimals()")
        one, other = (places or 0 for places in decimals)
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
            before = await self._call_words(address, f"{_GET_ROUND_DATA}{found.round_id - 1:064x}", 5)
            if before is None:
                raise NoFreshRate(f"feed {address} has no usable round before {found.round_id}")
            check_move(feed, found, before)
        return found

    async def _call_words(self, address: str, data: str, count: int) -> list[int] | None:
        return words(await self._call(address, data), count)

    async def _call(self, address: str, data: str) -> bytes:
        try:
            return (await self._batcher.ask(contract_call(address, data, read_bytes))).value
        except NodeError as error:
            if error_kind(error) is not ErrorKind.REVERTED:
                raise  # the node refused; the contract did not revert
            raise NoFreshRate(f"{address} could not be read: {printable(error.message)}") from None


def _value(source: Source, rounds: list[Round], twap: Exact | None) -> tuple[Exact, dict[str, Any]]:
    """The rate before the margin, and facts about it for the trace."""
    if isinstance(source, MedianRate):
        return _median(source, rounds, twap)
    if isinstance(source, PoolRate):
        assert twap is not None
        native = rounds[0].value if rounds else ONE
        facts = {"pool": source.pool, "other_tokens_for_one_fee_token": twap.plain(), "window": source.window}
        return quotient(native.units * 10**twap.places, twap.units * 10**native.places), facts
    first = rounds[0]
    if isinstance(source, CrossedRate):
        second = rounds[1]
        return quotient(first.price * 10**second.decimals, second.price * 10**first.decimals), {}
    if source.inverse:
        return quotient(10**first.decimals, first.price), {}
    return first.value, {}


def _median(source: MedianRate, rounds: list[Round], twap: Exact | None) -> tuple[Exact, dict[str, Any]]:
    """Of an even number of rates the higher of the two in the middle: an estimate is rather too high than too low."""
    rates = [each.value for each in rounds]
    if twap is not None:
        rates.append(quotient(10**twap.places, twap.units))
    if not rates:
        raise InternalFailure("the rate has no sources")
    places = max(rate.places for rate in rates)
    units = sorted(rate.units * 10 ** (places - rate.places) for rate in rates)
    spread = from_decimal(source.max_spread_percent)
    if (units[-1] - units[0]) * 100 * 10**spread.places > spread.units * units[0]:
        shown = ", ".join(Exact(each, places).plain() for each in units)
        limit = f"max_spread_percent {source.max_spread_percent:f}"
        raise NoFreshRate(f"the sources disagree by more than {limit}: {shown}")
    return Exact(units[len(units) // 2], places), {"sources": [Exact(each, places).plain() for each in units]}


def _fixed(source: FixedRate) -> Exact:
    try:
        value = from_decimal(source.fixed)
    except ValueError:
        raise NoFreshRate("the fixed rate is not a usable number") from None
    if value.units <= 0:
        raise NoFreshRate("the fixed rate is not positive")
    return value


def _with_margin(token: FeeToken, value: Exact) -> Rate:
    try:
        percent = from_decimal(token.margin_percent)
    except ValueError:
        raise InternalFailure(f"the margin of {token.symbol} is not a usable number") from None
    factor = Exact(percent.units + 100 * 10**percent.places, percent.places + 2)
    if factor.units <= 0:
        raise InternalFailure(f"the margin of {token.symbol} is -100 % or less")
    return Rate(value.times(factor), value)


def find_token(network: Network, name: str) -> FeeToken | None:
    """The token by symbol or contract address, in any case; None is the native coin."""
    if name == network.native_symbol:
        return None
    for token in network.fee_tokens:
        if name == token.symbol:
            return token
    wanted = name.casefold()
    if wanted == network.native_symbol.casefold():
        return None
    for token in network.fee_tokens:
        if wanted in (token.symbol.casefold(), token.address.casefold()):
            return token
    raise InvalidParams("fee_token is neither the network's native symbol nor one of its fee tokens")
