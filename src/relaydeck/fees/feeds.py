"""Price feeds: aggregator contracts, the rules that an answer must keep, and the uptime feed of a sequencer."""

from dataclasses import dataclass
from decimal import Decimal

from msgspec import UNSET, UnsetType

from relaydeck.fees.errors import InternalFailure, NoFreshRate
from relaydeck.fees.exact import Exact, from_decimal
from relaydeck.networks.model import CrossedRate, FeedRate, MedianRate, PoolRate

_MAX_DECIMALS = 36  # a contract with more is not a price feed
_HOUR = 3600
_DEFAULT_AGE = _DEFAULT_GRACE = _HOUR
Bound = Decimal | UnsetType


@dataclass(frozen=True, slots=True)
class Feed:
    """An aggregator and what is accepted from it."""

    address: str
    max_age: int
    min_price: Bound = UNSET
    max_price: Bound = UNSET
    max_move_percent: Bound = UNSET


@dataclass(frozen=True, slots=True)
class Round:
    """One answer of one feed: `price` / 10**`decimals`."""

    feed: str
    decimals: int
    price: int
    round_id: int
    updated_at: int
    max_age: int = 0

    @property
    def value(self) -> Exact:
        return Exact(self.price, self.decimals)

    def check_age(self, now: float, max_skew: float) -> None:
        age = now - self.updated_at
        if age > self.max_age:
            raise NoFreshRate(f"feed {self.feed} was updated {int(age)} s ago, more than {self.max_age} s")
        if age < -max_skew:
            raise NoFreshRate(f"feed {self.feed} reports an update {int(-age)} s in the future")


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


def feeds_of(source: FeedRate | CrossedRate | PoolRate | MedianRate) -> tuple[Feed, ...]:
    """In the order in which `rates.value_of` takes their rounds."""
    if isinstance(source, FeedRate):
        return (_bounded_feed(source),)
    if isinstance(source, CrossedRate):
        return _crossed_feeds(source)
    if isinstance(source, MedianRate):
        direct = (Feed(address, source.max_age) for address in source.feeds)
        crossed = (feed for each in source.crossed for feed in _crossed_feeds(each))
        return (*direct, *map(_bounded_feed, source.bounded_feeds), *crossed)
    if source.native_feed is UNSET:
        return ()
    return (
        Feed(
            source.native_feed,
            _or(source.native_max_age, _DEFAULT_AGE),
            source.native_min_price,
            source.native_max_price,
            source.native_max_move_percent,
        ),
    )


def _bounded_feed(source: FeedRate) -> Feed:
    return Feed(source.feed, source.max_age, source.min_price, source.max_price, source.max_move_percent)


def _crossed_feeds(source: CrossedRate) -> tuple[Feed, ...]:
    return (
        Feed(
            source.native_usd,
            _or(source.native_max_age, source.max_age),
            source.native_min_price,
            source.native_max_price,
            source.native_max_move_percent,
        ),
        Feed(
            source.token_usd,
            _or(source.token_max_age, source.max_age),
            source.token_min_price,
            source.token_max_price,
            source.token_max_move_percent,
        ),
    )


def _or(value: int | UnsetType, default: int) -> int:
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
    found = Round(address, decimals, price, round_id, updated_at, feed.max_age)
    _check_bounds(feed, found.value)
    return found


def _check_bounds(feed: Feed, price: Exact) -> None:
    if feed.min_price is not UNSET and exceeds(_bound(feed.min_price), price):
        raise NoFreshRate(f"feed {feed.address} answers {price.plain()}, less than min_price {feed.min_price:f}")
    if feed.max_price is not UNSET and exceeds(price, _bound(feed.max_price)):
        raise NoFreshRate(f"feed {feed.address} answers {price.plain()}, more than max_price {feed.max_price:f}")


def check_move(found: Round, before: list[int], most: Decimal) -> None:
    """Compare with the round before: at most so many percent per hour. A move counts as made in at least an hour."""
    _, answer, _, updated_at, _ = before
    earlier = signed(answer)
    if earlier <= 0 or not 0 < updated_at <= found.updated_at:
        raise NoFreshRate(f"feed {found.feed} has no usable round before {found.round_id}")
    percent = _bound(most)
    seconds = max(found.updated_at - updated_at, _HOUR)
    moved = abs(found.price - earlier) * 100 * _HOUR * 10**percent.places
    if moved > percent.units * seconds * earlier:
        limit = f"max_move_percent {most:f} per hour"
        raise NoFreshRate(
            f"feed {found.feed} moved from {Exact(earlier, found.decimals).plain()} to "
            f"{found.value.plain()}, more than {limit}"
        )


def read_sequencer(fields: list[int], grace: int | UnsetType) -> Sequencer:
    _, answer, started_at, _, _ = fields
    return Sequencer(answer == 0 and started_at > 0, started_at, _or(grace, _DEFAULT_GRACE))


def signed(word: int) -> int:
    return word - (1 << 256) if word >> 255 else word


def exceeds(number: Exact, other: Exact) -> bool:
    return bool(number.units * 10**other.places > other.units * 10**number.places)


def _bound(number: Decimal) -> Exact:
    try:
        return from_decimal(number)
    except ValueError:
        raise InternalFailure("a bound of a feed is not a usable number") from None
