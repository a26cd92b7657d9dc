"""Exact decimal numbers as scaled integers: no float, no context, no rounding unless a function says so."""

from decimal import Decimal
from typing import NamedTuple

QUOTIENT_DIGITS = 36  # significant digits kept when a division does not end; rounded up
_LARGEST_EXPONENT = 80  # beyond any rate between two coins; keeps a mistyped exponent from filling the memory


class Exact(NamedTuple):
    """`units` / 10**`places`."""

    units: int
    places: int

    def times(self, other: "Exact") -> "Exact":
        return Exact(self.units * other.units, self.places + other.places)

    def plain(self) -> str:
        """As a plain decimal without trailing zeros, never with an exponent."""
        digits = str(abs(self.units)).rjust(self.places + 1, "0")
        whole, fraction = digits[: len(digits) - self.places], digits[len(digits) - self.places :]
        fraction = fraction.rstrip("0")
        sign = "-" if self.units < 0 else ""
        return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


ONE = Exact(1, 0)


def from_decimal(number: Decimal) -> Exact:
    """The same number. Raises ValueError for one that is not finite or has an absurd exponent."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or abs(exponent) > _LARGEST_EXPONENT or len(digits) > _LARGEST_EXPONENT:
        raise ValueError("not a usable number")
    return from_finite(number)


def from_finite(number: Decimal) -> Exact:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    units = int("".join(map(str, digits))) * (-1 if sign else 1)
    return Exact(units * 10 ** max(exponent, 0), max(-exponent, 0))


def quotient(dividend: int, divisor: int) -> Exact:
    """Of two positive integers: exact if it has at most `QUOTIENT_DIGITS` digits, else rounded up to that many."""
    whole_digits = len(str(dividend)) - len(str(divisor))  # the quotient has this many, or one more
    places = max(0, QUOTIENT_DIGITS - whole_digits)
    units = ceil_div(dividend * 10**places, divisor)
    while places and units % 10 == 0:
        units, places = units // 10, places - 1
    return Exact(units, places)


def ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def round_up(number: Exact, places: int) -> Exact:
    more = places - number.places
    return Exact(ceil_div(number.units * 10 ** max(more, 0), 10 ** max(-more, 0)), places)
