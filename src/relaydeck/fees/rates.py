"""Rates of fee tokens: fixed by the operator, or computed from the answers of aggregator contracts and pools."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from relaydeck.fees.errors import InternalFailure, InvalidParams, NoFreshRate
from relaydeck.fees.exact import ONE, Exact, from_decimal, quotient
from relaydeck.fees.feeds import Round, Sequencer
from relaydeck.networks.model import CrossedRate, FeedRate, FeeToken, FixedRate, MedianRate, Network, PoolRate

Source = FeedRate | CrossedRate | PoolRate | MedianRate


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


def value_of(source: Source, rounds: list[Round], twap: Exact | None) -> tuple[Exact, dict[str, Any]]:
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
        return _crossed(first, rounds[1]), {}
    return _direct(source, first), {}


def _direct(source: FeedRate, found: Round) -> Exact:
    return quotient(10**found.decimals, found.price) if source.inverse else found.value


def _crossed(native: Round, token: Round) -> Exact:
    return quotient(native.price * 10**token.decimals, token.price * 10**native.decimals)


def _median(source: MedianRate, rounds: list[Round], twap: Exact | None) -> tuple[Exact, dict[str, Any]]:
    """Of an even number of rates the higher of the two in the middle: an estimate is rather too high than too low."""
    bounded = len(source.feeds)
    crossed = bounded + len(source.bounded_feeds)
    rates = [each.value for each in rounds[:bounded]]
    rates += map(_direct, source.bounded_feeds, rounds[bounded:crossed])
    rates += map(_crossed, rounds[crossed::2], rounds[crossed + 1 :: 2])
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


def fixed_value(source: FixedRate) -> Exact:
    try:
        value = from_decimal(source.fixed)
    except ValueError:
        raise NoFreshRate("the fixed rate is not a usable number") from None
    if value.units <= 0:
        raise NoFreshRate("the fixed rate is not positive")
    return value


def with_margin(token: FeeToken, value: Exact) -> Rate:
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
