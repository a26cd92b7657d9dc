"""A fee in Wei, converted to a fee token."""

from relaydeck.fees.exact import Exact, round_up
from relaydeck.quantities import NATIVE_DECIMALS


def fee_in_token(wei: int, rate: Exact, decimals: int) -> Exact:
    """Exact until the one rounding at the end, which is up: an estimate is never too low."""
    return round_up(Exact(wei, NATIVE_DECIMALS).times(rate), decimals)
