"""Exact decimal numbers: no float, and no rounding unless a function says so."""

from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_UP,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
)
from functools import cache

QUOTIENT_DIGITS = 36  # significant digits kept when a division does not end; rounded up
# More digits than any product of amounts here has: one with even more raises an error, and is never rounded.
EXACT = Context(1_000, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact, InvalidOperation, DivisionByZero])
_UPWARDS = Context(EXACT.prec, ROUND_CEILING)
_QUOTIENT = Context(QUOTIENT_DIGITS, ROUND_UP)


def scaled(units: int, places: int) -> Decimal:
    """`units` / 10**`places`."""
    return Decimal(units).scaleb(-places, EXACT)


def times(one: Decimal, other: Decimal) -> Decimal:
    return EXACT.multiply(one, other)


def plain(number: Decimal) -> str:
    """Without trailing zeros, never with an exponent."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def quotient(dividend: Decimal, divisor: Decimal) -> Decimal:
    """Of two positive numbers: exact if it has at most `QUOTIENT_DIGITS` digits, else rounded up to that many."""
    return _QUOTIENT.divide(dividend, divisor)


def ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def round_up(number: Decimal, places: int) -> Decimal:
    return number.quantize(_unit(places), context=_UPWARDS)


@cache
def _unit(places: int) -> Decimal:
    """The last of so many decimal places."""
    return Decimal(1).scaleb(-places)
