"""Exact numbers: against fractions, which round nothing."""

from decimal import Decimal
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaydeck.fees.estimator import fee_in_token
from relaydeck.fees.exact import Exact, from_decimal, quotient, round_up

positive = st.integers(1, 10**60)


def value(number: Exact) -> Fraction:
    return Fraction(number.units, 10**number.places)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Exact(0, 0), "0"),
        (Exact(0, 18), "0"),
        (Exact(1, 18), "0.000000000000000001"),
        (Exact(10**18, 18), "1"),
        (Exact(1_500_000, 6), "1.5"),
        (Exact(10**40, 6), "1" + "0" * 34),
        (Exact(100, 0), "100"),
        (Exact(-15, 1), "-1.5"),
    ],
)
def test_plain(number: Exact, text: str) -> None:
    assert number.plain() == text


@given(st.integers(0, 10**60), st.integers(0, 60))
def test_plain_is_that_number(units: int, places: int) -> None:
    text = Exact(units, places).plain()
    assert Fraction(text) == Fraction(units, 10**places)
    assert "e" not in text.lower()
    assert not ("." in text and text.endswith(("0", ".")))


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=12))
def test_from_decimal_is_exact(number: Decimal) -> None:
    assert value(from_decimal(number)) == Fraction(number)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", Exact(12, 0)),
        ("-1.50", Exact(-150, 2)),
        ("12E+3", Exact(12_000, 0)),
        ("1E+80", Exact(10**80, 0)),
        ("1E-80", Exact(1, 80)),
        ("9" * 80, Exact(10**80 - 1, 0)),
    ],
)
def test_from_decimal_scales_by_the_exponent(text: str, number: Exact) -> None:
    assert from_decimal(Decimal(text)) == number


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1E+81", "1E-81", "9" * 81])
def test_from_decimal_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not a usable number$"):
        from_decimal(Decimal(text))


@pytest.mark.parametrize(
    ("dividend", "divisor", "number"),
    [(1, 2, Exact(5, 1)), (100, 1, Exact(100, 0)), (10**40, 3, Exact((10**40 + 2) // 3, 0))],
)
def test_quotient_keeps_no_trailing_zero_and_no_place_too_many(dividend: int, divisor: int, number: Exact) -> None:
    assert quotient(dividend, divisor) == number


@given(positive, positive)
def test_quotient_is_never_too_low_and_hardly_too_high(dividend: int, divisor: int) -> None:
    found, exact = value(quotient(dividend, divisor)), Fraction(dividend, divisor)
    assert exact <= found <= exact * (1 + Fraction(1, 10**35)) or (exact >= 10**35 and found - exact < 1)


@given(positive, st.integers(0, 20), st.integers(0, 12))
def test_quotient_that_ends_is_exact(units: int, twos: int, fives: int) -> None:
    units %= 10**12
    divisor = 2**twos * 5**fives
    assert value(quotient(units + 1, divisor)) == Fraction(units + 1, divisor)


@given(st.integers(0, 10**40), st.integers(0, 40), st.integers(0, 30))
def test_round_up(units: int, places: int, wanted: int) -> None:
    found = round_up(Exact(units, places), wanted)
    assert value(found) == Fraction(ceil(Fraction(units, 10**places) * 10**wanted), 10**wanted)


@given(st.integers(0, 10**30), positive, st.integers(0, 36), st.integers(0, 30))
def test_the_fee_is_one_fraction_rounded_up_once(wei: int, rate: int, places: int, decimals: int) -> None:
    found = value(fee_in_token(wei, Exact(rate, places), decimals))
    exact = Fraction(wei, 10**18) * Fraction(rate, 10**places)
    assert exact <= found < exact + Fraction(1, 10**decimals)
