"""Amounts, moments, time spans and counts, and how documents and messages write them."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated

from msgspec import Meta

from relaydeck.fields import TextForm, value_type

NATIVE_DECIMALS = 18  # of the native coin of every EVM network
_AMOUNT = re.compile(r"[0-9]{1,60}(\.[0-9]{1,60})?")
_AMOUNT_EXPECTED = 'a decimal in a string, such as "1.5"'
_WEI = re.compile(r"([1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]{1,60})(?:\.([0-9]{1,60}))?(?:e([0-9]{1,2}))?\s*(.*)", re.I)
_PLACES = {"wei": 0, "gwei": 9}
_LONGEST_BARE = 10  # digits of an amount without a unit: a longer one may have been meant in Wei
_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhd])")
SPAN_PATTERN = f"^{_SPAN.pattern}$"
_SPAN_EXPECTED = 'a time span such as "90s", "5m", "1h" or "1d"'
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def amount_problem(text: str) -> str:
    return "" if _AMOUNT.fullmatch(text) else f"expected {_AMOUNT_EXPECTED}, without sign or exponent"


def positive_amount_problem(text: str) -> str:
    return amount_problem(text) or ("" if Decimal(text) else "must be greater than 0")


def parse_wei(text: str, unit: str, coin: str = "") -> int | None:
    """`0.5`, `0.5 ETH`, `50 gwei` or `2e18 wei` exactly in Wei; None if it is none of these, or no whole number of Wei.

    `unit`: what a number alone is in, `gwei` or `coin`. `coin`: the symbol of the coin; empty: any word stands for it.
    """
    if (match := _WEI.fullmatch(text.strip())) is None:
        return None
    whole, fraction, exponent, given = (
        match[1].replace(",", ""),
        match[2] or "",
        int(match[3] or 0),
        match[4].casefold(),
    )
    if not given and len(whole) + exponent > _LONGEST_BARE:
        return None
    if given not in ("", *_PLACES, coin.casefold()) and (coin or not given.isalpha()):
        return None
    places = exponent + _PLACES.get(given or unit, NATIVE_DECIMALS) - len(fraction)
    wei, rest = divmod(int(whole + fraction) * 10 ** max(0, places), 10 ** max(0, -places))
    return None if rest else wei


def write_wei(wei: int, unit: str, coin: str) -> str:
    """Exactly, as `parse_wei` reads it: what is less than 1 gwei of a coin in Wei."""
    if not wei or (unit not in _PLACES and wei < 10**9):
        return f"{wei} wei" if wei else "0"
    whole, rest = divmod(wei, 10 ** (places := _PLACES.get(unit, NATIVE_DECIMALS)))
    digits = f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".")
    return f"{digits} {unit if unit in _PLACES else coin}"


def span_problem(text: str) -> str:
    return "" if _SPAN.fullmatch(text) else f"expected {_SPAN_EXPECTED}"


def parse_span(text: str) -> int:
    """`1h` as seconds."""
    return int(text[:-1]) * _SECONDS[text[-1]]


def write_span(seconds: int) -> str:
    """Seconds in the largest unit that is exact."""
    return next(f"{seconds // length}{unit}" for unit, length in _SECONDS.items() if seconds % length == 0)


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 entry`, `2 entries`."""
    return f"1 {noun}" if count == 1 else f"{count} {plural or f'{noun}s'}"


def first_few(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


Whole = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int64"})]
# Of any size: the documents call amounts numbers, as the contract does, and add that they are whole.
# `unit`: what people write it in.
_IS_WHOLE = {"multipleOf": 1}
Wei = Annotated[int, Meta(ge=0, extra_json_schema=_IS_WHOLE, extra={"unit": "coin"})]
GasPrice = Annotated[int, Meta(ge=0, extra_json_schema=_IS_WHOLE, extra={"unit": "gwei"})]
Tip = Annotated[int, Meta(ge=0, le=2**63 - 1, extra={"unit": "gwei"})]
# A string in documents: a TOML or JSON float is not exact.
_AMOUNT_FORM = TextForm(_AMOUNT_EXPECTED, parse=Decimal, write="{:f}".format, show="{:f}".format, sample="1.5")
_AMOUNT_PATTERN = f"^{_AMOUNT.pattern}$"
Amount = Annotated[Decimal, value_type(amount_problem, _AMOUNT_FORM, pattern=_AMOUNT_PATTERN)]
PositiveAmount = Annotated[Decimal, value_type(positive_amount_problem, _AMOUNT_FORM, pattern=_AMOUNT_PATTERN)]
# In a response: UTC, in the form of RFC 3339.
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
# Seconds, which documents write with a unit.
TimeSpan = Annotated[
    int,
    value_type(
        span_problem,
        TextForm(_SPAN_EXPECTED, parse=parse_span, write=write_span, show=write_span, sample="1h"),
        pattern=SPAN_PATTERN,
    ),
]
