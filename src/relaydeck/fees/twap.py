"""The time-weighted price of a Uniswap-v3-style pool, from its `observe` function."""

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_UP, Context, Decimal
from typing import Any, NamedTuple

from msgspec import UNSET

from relaydeck.fees.errors import NoFreshRate
from relaydeck.fees.exact import QUOTIENT_DIGITS, Exact, from_finite
from relaydeck.fees.feeds import signed
from relaydeck.networks.evm.questions import words
from relaydeck.networks.model import MedianRate, PoolRate

TOKEN_0, TOKEN_1, OBSERVE = "0x0dfe1681", "0xd21220a7", "0x883bdbfd"
_DEFAULT_WINDOW = 1800
_MAX_TICK = 887_272
_PRECISE = Context(prec=QUOTIENT_DIGITS + 24, rounding=ROUND_HALF_EVEN)
_ROUNDED_UP = Context(prec=QUOTIENT_DIGITS, rounding=ROUND_UP)
_TICK = Decimal("1.0001")


class Place(NamedTuple):
    """A pool, and what is accepted from it."""

    address: str
    window: int
    min_liquidity: Decimal


def pool_of(source: Any) -> Place | None:
    if isinstance(source, PoolRate):
        return Place(source.pool, source.window, source.min_liquidity)
    if isinstance(source, MedianRate) and source.dex_pool is not UNSET:
        window = _DEFAULT_WINDOW if source.dex_window is UNSET else source.dex_window
        least = Decimal(0) if source.dex_min_liquidity is UNSET else source.dex_min_liquidity
        return Place(source.dex_pool, window, least)
    return None


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


def price_at(tick: int, decimals_0: int, decimals_1: int) -> Exact:
    """Units of token 1 for one of token 0, to 36 significant digits, rounded up."""
    raw = _PRECISE.power(_TICK, tick)
    return from_finite(_ROUNDED_UP.plus(_PRECISE.scaleb(raw, decimals_0 - decimals_1)))
