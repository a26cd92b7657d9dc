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
_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhd])")
SPAN_PATTERN = f"^{_SPAN.pattern}$"
_SPAN_EXPECTED = 'a time span such as "90s", "5m", "1h" or "1d"'
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def amount_problem(text: str) -> str:
    return "" if _AMOUNT.fullmatch(text) else f"expected {_AMOUNT_EXPECTED}, without sign or exponent"


def positive_amount_problem(text: str) -> str:
    return amount_problem(text) or ("" if Decimal(text) else "must be greater than 0")


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
Wei = Annotated[int, Meta(ge=0, extra_json_schema={"multipleOf": 1})]
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
