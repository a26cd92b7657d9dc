"""Exact numbers: against fractions, which round nothing."""

from decimal import Decimal, Inexact
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaydeck.fees.estimator import fee_in_token
from relaydeck.fees.exact import plain, quotient, round_up, scaled, times

positive = st.integers(1, 10**60)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (scaled(0, 0), "0"),
        (scaled(0, 18), "0"),
        (scaled(1, 18), "0.000000000000000001"),
        (scaled(10**18, 18), "1"),
        (scaled(1_500_000, 6), "1.5"),
        (scaled(10**40, 6), "1" + "0" * 34),
        (scaled(100, 0), "100"),
        (Decimal("1E+3"), "1000"),
        (Decimal("0E+3"), "0"),
        (scaled(-15, 1), "-1.5"),
    ],
)
def test_plain(number: Decimal, text: str) -> None:
    assert plain(number) == text


@given(st.integers(0, 10**60), st.integers(0, 60))
def test_plain_is_that_number(units: int, places: int) -> None:
    text = plain(scaled(units, places))
    assert Fraction(text) == Fraction(units, 10**places)
    assert "e" not in text.lower()
    assert not ("." in text and text.endswith(("0", ".")))


@given(positive, st.integers(0, 80), positive, st.integers(0, 80))
def test_a_product_is_exact(one: int, places: int, other: int, more: int) -> None:
    found = times(scaled(one, places), scaled(other, more))
    assert Fraction(found) == Fraction(one * other, 10 ** (places + more))


def test_no_product_is_ever_rounded() -> None:
    with pytest.raises(Inexact):
        times(Decimal(10**999 + 1), Decimal(10**999 + 1))


@pytest.mark.parametrize(
    ("dividend", "divisor", "text"), [(1, 2, "0.5"), (100, 1, "100"), (10**40, 3, "3" * 35 + "4" + "0" * 4)]
)
def test_quotient_keeps_no_trailing_zero_and_no_digit_too_many(dividend: int, divisor: int, text: str) -> None:
    assert plain(quotient(Decimal(dividend), Decimal(divisor))) == text


@given(positive, positive)
def test_quotient_is_never_too_low_and_hardly_too_high(dividend: int, divisor: int) -> None:
    found, exact = Fraction(quotient(Decimal(dividend), Decimal(divisor))), Fraction(dividend, divisor)
    assert exact <= found <= exact * (1 + Fraction(1, 10**35))


@given(positive, st.integers(0, 20), st.integers(0, 12))
def test_quotient_that_ends_is_exact(units: int, twos: int, fives: int) -> None:
    units %= 10**12
    divisor = 2**twos * 5**fives
    assert Fraction(quotient(Decimal(units + 1), Decimal(divisor))) == Fraction(units + 1, divisor)


@given(st.integers(0, 10**40), st.integers(0, 40), st.integers(0, 255))
def test_round_up(units: int, places: int, wanted: int) -> None:
    found = round_up(scaled(units, places), wanted)
    assert Fraction(found) == Fraction(ceil(Fraction(units, 10**places) * 10**wanted), 10**wanted)


@given(st.integers(0, 10**30), positive, st.integers(0, 36), st.integers(0, 30))
def test_the_fee_is_one_fraction_rounded_up_once(wei: int, rate: int, places: int, decimals: int) -> None:
    found = Fraction(fee_in_token(wei, scaled(rate, places), decimals))
    exact = Fraction(wei, 10**18) * Fraction(rate, 10**places)
    assert exact <= found < exact + Fraction(1, 10**decimals)
