"""Rates of fee tokens: fixed by the operator, or read from aggregator contracts."""

import asyncio
from dataclasses import dataclass

from relaydeck.fees.errors import InternalFailure, InvalidParams, NoFreshRate
from relaydeck.fees.exact import ONE, Exact, from_decimal, quotient
from relaydeck.networks.evm.batcher import Batcher
from relaydeck.networks.evm.errors import ErrorKind, NodeError, error_kind
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import BLOCK_NUMBER, contract_call, read_bytes, words
from relaydeck.networks.evm.revert import printable
from relaydeck.networks.model import CrossedRate, FeedRate, FeeToken, FixedRate, Network

_DECIMALS = "0x313ce567"  # decimals()
_LATEST_ROUND_DATA = "0xfeaf968c"  # latestRoundData()
_MAX_DECIMALS = 36  # a contract with more is not a price feed


@dataclass(frozen=True, slots=True)
class Round:
    """One answer of one feed: `price` / 10**`decimals`."""

    feed: str
    decimals: int
    price: int
    round_id: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Rate:
    """Fee tokens for one native coin, the margin included."""

    value: Exact
    before_margin: Exact
    rounds: tuple[Round, ...] = ()
    max_age: int = 0
    block: int | None = None

    def check_age(self, now: float, max_skew: float) -> None:
        """Called at every use, because a cached rate ages. Raises NoFreshRate."""
        for found in self.rounds:
            age = now - found.updated_at
            if age > self.max_age:
                raise NoFreshRate(f"feed {found.feed} was updated {int(age)} s ago, more than {self.max_age} s")
            if age < -max_skew:
                raise NoFreshRate(f"feed {found.feed} reports an update {int(-age)} s in the future")


NATIVE = Rate(ONE, ONE)


class RateReader:
    """Reads the rates of one chain. Decimals of tokens and feeds are read once and cached."""

    def __init__(self, batcher: Batcher, pool: NodePool) -> None:
        self._batcher = batcher
        self._pool = pool
        self._decimals: dict[str, int] = {}

    async def rate(self, token: FeeToken) -> Rate:
        """Raises `NoFreshRate` when a feed's answer is unusable, `InternalFailure` for a wrong configuration."""
        if isinstance(token.rate, FixedRate):
            await self._check_token(token)
            return _with_margin(token, _fixed(token.rate))
        _, block, rounds = await asyncio.gather(
            self._check_token(token),
            self._batcher.ask(BLOCK_NUMBER),
            asyncio.gather(*(self._round(feed) for feed in _feeds(token.rate))),
        )
        self._pool.seen_block(block.value)
        value = _value(token.rate, rounds)
        return _with_margin(token, value, tuple(rounds), token.rate.max_age, block.value)

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

    async def _round(self, feed: str) -> Round:
        decimals, fields = await asyncio.gather(self._decimals_of(feed), self._call_words(feed, _LATEST_ROUND_DATA, 5))
        if decimals is None or fields is None:
            raise NoFreshRate(f"feed {feed} does not answer as an aggregator does")
        return _checked_round(feed, decimals, fields)

    async def _call_words(self, address: str, data: str, count: int) -> list[int] | None:
        try:
            answer = await self._batcher.ask(contract_call(address, data, read_bytes))
        except NodeError as error:
            if error_kind(error) is not ErrorKind.REVERTED:
                raise  # the node refused; the contract did not revert
            raise NoFreshRate(f"{address} could not be read: {printable(error.message)}") from None
        return words(answer.value, count)


def _checked_round(feed: str, decimals: int, fields: list[int]) -> Round:
    round_id, answer, _started_at, updated_at, answered_in = fields
    price = answer - (1 << 256) if answer >> 255 else answer
    if decimals > _MAX_DECIMALS:
        raise NoFreshRate(f"feed {feed} has {decimals} decimals")
    if price <= 0:
        raise NoFreshRate(f"feed {feed} answers a price that is not positive")
    if updated_at == 0 or answered_in < round_id:
        raise NoFreshRate(f"feed {feed} has not completed round {round_id}")
    return Round(feed, decimals, price, round_id, updated_at)


def _feeds(source: FeedRate | CrossedRate) -> tuple[str, ...]:
    return (source.feed,) if isinstance(source, FeedRate) else (source.native_usd, source.token_usd)


def _value(source: FeedRate | CrossedRate, rounds: list[Round]) -> Exact:
    first = rounds[0]
    if isinstance(source, CrossedRate):
        second = rounds[1]
        return quotient(first.price * 10**second.decimals, second.price * 10**first.decimals)
    if source.inverse:
        return quotient(10**first.decimals, first.price)
    return Exact(first.price, first.decimals)


def _fixed(source: FixedRate) -> Exact:
    try:
        value = from_decimal(source.fixed)
    except ValueError:
        raise NoFreshRate("the fixed rate is not a usable number") from None
    if value.units <= 0:
        raise NoFreshRate("the fixed rate is not positive")
    return value


def _with_margin(
    token: FeeToken, value: Exact, rounds: tuple[Round, ...] = (), max_age: int = 0, block: int | None = None
) -> Rate:
    try:
        percent = from_decimal(token.margin_percent)
    except ValueError:
        raise InternalFailure(f"the margin of {token.symbol} is not a usable number") from None
    factor = Exact(percent.units + 100 * 10**percent.places, percent.places + 2)
    if factor.units <= 0:
        raise InternalFailure(f"the margin of {token.symbol} is -100 % or less")
    return Rate(value.times(factor), value, rounds, max_age, block)


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
