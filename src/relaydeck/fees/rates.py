"""Rates of fee tokens: fixed by the operator, or computed from the answers of price feeds and pools."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, ROUND_UP, Context, Decimal
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from relaydeck.fees.errors import InternalFailure, InvalidParams, NoFreshRate
from relaydeck.fees.exact import EXACT, QUOTIENT_DIGITS, plain, quotient, scaled, times
from relaydeck.networks.evm.errors import ErrorKind, NodeError, NodesDisagree, error_kind, refusal
from relaydeck.networks.evm.pool import Batcher
from relaydeck.networks.evm.questions import contract_call, read_bytes, words
from relaydeck.networks.model import CrossedRate, FeedRate, FeeToken, FixedRate, MedianRate, Network, PoolRate

T = TypeVar("T")
Source = FeedRate | CrossedRate | PoolRate
_MAX_DECIMALS = 36  # a contract with more is not a price feed
_HOUR = 3600
_MOST_AHEAD = 60  # seconds that the clock of a feed may be ahead of ours
_DEFAULT_AGE = _DEFAULT_GRACE = _HOUR
_DEFAULT_WINDOW = 1800
# Unless declared. No pair of coins is beyond these prices; a wrong number of decimals often is.
_LEAST_PRICE, _GREATEST_PRICE = Decimal("1E-12"), Decimal("1E+12")
_GREATEST_MOVE = Decimal(50)  # percent per hour; aggregators answer again long before a price has moved that far


@dataclass(frozen=True, slots=True)
class Feed:
    """An aggregator and what is accepted from it."""

    address: str
    max_age: int
    min_price: Decimal = _LEAST_PRICE
    max_price: Decimal = _GREATEST_PRICE
    max_move_percent: Decimal = _GREATEST_MOVE
    must_show_move: bool = False  # declared: without an earlier round the answer is not used


@dataclass(frozen=True, slots=True)
class Round:
    """One answer of one feed: `price` / 10**`decimals`."""

    feed: Feed
    decimals: int
    price: int
    round_id: int
    updated_at: int
    before: tuple[int, int] | None = None  # price and time of the round before; None: it cannot be read
    is_whole: bool = True  # False: a node failed to return the round before, which is asked for again
    change: str = ""  # what changed at the feed since this process first read it

    @property
    def value(self) -> Decimal:
        return scaled(self.price, self.decimals)

    @property
    def phase(self) -> int:
        """The proxy of a feed counts the aggregators that it has answered from. 0: the feed is no proxy."""
        return self.round_id >> 64

    def check_age(self, now: float) -> None:
        age, feed = now - self.updated_at, self.feed
        if age > feed.max_age:
            raise NoFreshRate(f"feed {feed.address} was updated {int(age)} s ago, more than {feed.max_age} s")
        if age < -_MOST_AHEAD:
            raise NoFreshRate(f"feed {feed.address} reports an update {int(-age)} s in the future")

    def changed_since(self, last: "Round") -> str:
        found = [last.change] if last.change else []
        if self.phase != last.phase:
            found.append(f"its proxy answers from another aggregator: phase {self.phase} after {last.phase}")
        if self.decimals != last.decimals:
            found.append(f"it has {self.decimals} decimals after {last.decimals}")
        return "; ".join(found[-2:])


@dataclass(frozen=True, slots=True)
class Sequencer:
    """What the uptime feed of a chain reports: since when the sequencer is up or down."""

    is_up: bool
    since: int
    grace: int

    def check(self, now: float) -> None:
        if not self.is_up:
            raise NoFreshRate("the sequencer of the chain is down: prices on it are not up to date")
        if now - self.since < self.grace:
            raise NoFreshRate(f"the sequencer of the chain is up again for less than {self.grace} s")


def sources_of(rate: Source | MedianRate) -> tuple[Source, ...]:
    if not isinstance(rate, MedianRate):
        return (rate,)
    direct = (FeedRate(feed=address, max_age=rate.max_age) for address in rate.feeds)
    found: tuple[Source, ...] = (*direct, *rate.bounded_feeds, *rate.crossed)
    if rate.dex_pool is UNSET:
        return found
    window, least = _or(rate.dex_window, _DEFAULT_WINDOW), _or(rate.dex_min_liquidity, Decimal(0))
    pool = PoolRate(pool=rate.dex_pool, window=window, min_liquidity=least, short_window=rate.dex_short_window)
    return (*found, pool)


def feeds_of(source: Source) -> tuple[Feed, ...]:
    """In the order in which `value_of` takes their rounds."""
    if isinstance(source, FeedRate):
        return (_feed(source, source.feed, source.max_age),)
    if isinstance(source, CrossedRate):
        return (
            _feed(source, source.native_usd, _or(source.native_max_age, source.max_age), "native_"),
            _feed(source, source.token_usd, _or(source.token_max_age, source.max_age), "token_"),
        )
    if source.native_feed is UNSET:
        return ()
    return (_feed(source, source.native_feed, _or(source.native_max_age, _DEFAULT_AGE), "native_"),)


def _feed(source: Source, address: str, max_age: int, prefix: str = "") -> Feed:
    """The bounds of one feed are fields of its source, with a prefix if the source has several feeds."""
    least, most, move = (getattr(source, prefix + name) for name in ("min_price", "max_price", "max_move_percent"))
    bounds = (_or(least, _LEAST_PRICE), _or(most, _GREATEST_PRICE), _or(move, _GREATEST_MOVE))
    return Feed(address, max_age, *bounds, must_show_move=move is not UNSET)


def _or(value: T | UnsetType, default: T) -> T:
    return default if value is UNSET else value


def read_round(feed: Feed, decimals: int, fields: list[int]) -> Round:
    """Raises `NoFreshRate` for an answer that is not complete or outside the bounds of the feed."""
    round_id, answer, _started_at, updated_at, answered_in = fields
    price, address = signed(answer), feed.address
    if decimals > _MAX_DECIMALS:
        raise NoFreshRate(f"feed {address} has {decimals} decimals")
    if price <= 0:
        raise NoFreshRate(f"feed {address} answers a price that is not positive")
    if updated_at == 0 or answered_in < round_id:
        raise NoFreshRate(f"feed {address} has not completed round {round_id}")
    found = Round(feed, decimals, price, round_id, updated_at)
    _check_bounds(feed, found.value)
    return found


def read_before(fields: list[int] | None) -> tuple[int, int] | None:
    """Price and time of an earlier round; None: it is of no use."""
    if fields is None or (price := signed(fields[1])) <= 0 or not fields[3]:
        return None
    return price, fields[3]


def _check_bounds(feed: Feed, price: Decimal) -> None:
    if price < feed.min_price:
        raise NoFreshRate(f"feed {feed.address} answers {plain(price)}, less than min_price {feed.min_price:f}")
    if price > feed.max_price:
        raise NoFreshRate(f"feed {feed.address} answers {plain(price)}, more than max_price {feed.max_price:f}")


def check_move(found: Round) -> None:
    """Compare with the round before: at most so many percent per hour. A move counts as made in at least an hour."""
    feed, before = found.feed, found.before
    if before is None or before[1] > found.updated_at:
        if feed.must_show_move:
            raise NoFreshRate(f"feed {feed.address} has no usable round before {found.round_id}")
        return
    earlier, updated_at = before
    seconds = max(found.updated_at - updated_at, _HOUR)
    moved = abs(found.price - earlier) * 100 * _HOUR
    if moved > times(feed.max_move_percent, Decimal(seconds * earlier)):
        limit = f"max_move_percent {feed.max_move_percent:f} per hour"
        raise NoFreshRate(
            f"feed {feed.address} moved from {plain(scaled(earlier, found.decimals))} to "
            f"{plain(found.value)}, more than {limit}"
        )


def read_sequencer(fields: list[int], grace: int | UnsetType) -> Sequencer:
    _, answer, started_at, _, _ = fields
    return Sequencer(answer == 0 and started_at > 0, started_at, _or(grace, _DEFAULT_GRACE))


def signed(word: int) -> int:
    return word - (1 << 256) if word >> 255 else word


class UptimeFeed(NamedTuple):
    """The uptime feed of a chain's sequencer."""

    address: str
    grace: int | UnsetType


def uptime_feed(network: Network) -> UptimeFeed | None:
    address = network.sequencer_feed
    return None if address is UNSET else UptimeFeed(address, network.sequencer_grace_seconds)


@dataclass(frozen=True, slots=True)
class Rate:
    """Fee tokens for one native coin, the margin included."""

    value: Decimal
    before_margin: Decimal
    rounds: tuple[Round, ...] = ()
    block: int | None = None
    sequencer: Sequencer | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # for the trace

    def check_age(self, now: float) -> None:
        """Called at every use, because a cached rate ages. Raises NoFreshRate."""
        if self.sequencer is not None:
            self.sequencer.check(now)
        for found in self.rounds:
            found.check_age(now)


_ONE = Decimal(1)
NATIVE = Rate(_ONE, _ONE)


@dataclass(frozen=True, slots=True)
class Quote:
    """What one source says: fee tokens for one native coin."""

    value: Decimal
    rounds: tuple[Round, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)  # for the trace


def quote_of(source: Source, rounds: Sequence[Round], twap: Decimal | None) -> Quote:
    rounds = tuple(rounds)
    if isinstance(source, FeedRate):
        (found,) = rounds
        return Quote(quotient(_ONE, found.value) if source.inverse else found.value, rounds)
    if isinstance(source, CrossedRate):
        native, token = rounds
        return Quote(quotient(native.value, token.value), rounds)
    assert twap is not None
    coin = rounds[0].value if rounds else _ONE
    facts = {"pool": source.pool, "other_tokens_for_one_fee_token": plain(twap), "window": source.window}
    return Quote(quotient(coin, twap), rounds, facts)


def median_of(rate: MedianRate, quotes: Sequence[Quote], problems: Sequence[str] = ()) -> Quote:
    """Of an even number of rates the higher of the two in the middle: an estimate is rather too high than too low.

    `problems`: of the sources that are not usable. Raises `NoFreshRate` when too few are, or those disagree.
    """
    count = len(quotes) + len(problems)
    least = _or(rate.at_least, count)
    if not count:
        raise InternalFailure("the rate has no sources")
    if least > count:
        raise InternalFailure(f"at_least is {least}, and the rate has {count} sources")
    if len(quotes) < least:
        raise NoFreshRate(f"{len(quotes)} of {count} sources are usable, fewer than {least}: {'; '.join(problems)}")
    values = sorted(each.value for each in quotes)
    shown = [plain(each) for each in values]
    spread = EXACT.subtract(values[-1], values[0])
    if times(spread, Decimal(100)) > times(rate.max_spread_percent, values[0]):
        limit = f"max_spread_percent {rate.max_spread_percent:f}"
        raise NoFreshRate(f"the sources disagree by more than {limit}: {', '.join(shown)}")
    facts: dict[str, Any] = {"sources": shown}
    if rate.at_least is not UNSET:
        facts |= {"at_least": least, "not_usable": list(problems)}
    for each in quotes:
        facts |= each.facts
    return Quote(values[len(values) // 2], tuple(one for each in quotes for one in each.rounds), facts)


def with_margin(token: FeeToken, value: Decimal) -> Rate:
    return Rate(times(value, EXACT.add(_ONE, token.margin_percent.scaleb(-2, EXACT))), value)


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


# -- Reads the rates of fee tokens from the contracts of their chain --

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


class RateReader:
    """Reads rates of one chain as of one block. `seen` keeps the last round of each feed, by address."""

    def __init__(self, batcher: Batcher, seen: dict[str, Round], block: int, until: float) -> None:
        """`until`: up to which time an answer has to be fresh enough."""
        self._batcher, self._seen = batcher, seen
        self._block, self._until = block, until

    async def rate(self, token: FeeToken, uptime: UptimeFeed | None = None) -> Rate:
        """Raises `NoFreshRate` when a feed's answer is unusable, `InternalFailure` for a wrong configuration."""
        if isinstance(token.rate, FixedRate):
            await self._check_token(token)
            return with_margin(token, token.rate.fixed)
        _, sequencer, quote = await asyncio.gather(
            self._check_token(token), self._sequencer(uptime), self._priced(token, token.rate)
        )
        found = with_margin(token, quote.value)
        return replace(found, rounds=quote.rounds, block=self._block, sequencer=sequencer, facts=quote.facts)

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
                each.check_age(self._until)
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
            return await self._batcher.ask(contract_call(address, data, read_bytes, hex(self._block)))
        except NodeError as error:
            if error_kind(error) is not ErrorKind.REVERTED:
                raise  # the node refused; the contract did not revert
            raise NoFreshRate(f"{address} could not be read: {refusal(error)}") from None
