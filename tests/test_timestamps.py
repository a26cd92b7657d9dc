"""Moments as text."""

import pytest

from relaydeck.timestamps import parse_utc, utc, utc_with_milliseconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1970-01-01T00:00:00Z"), (1_700_000_000.999, "2023-11-14T22:13:20Z"), (None, None)],
)
def test_seconds(seconds: float | None, text: str | None) -> None:
    assert utc(seconds) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(7, "1970-01-01T00:00:00.007Z"), (1_700_000_000_120, "2023-11-14T22:13:20.120Z"), (None, None)],
)
def test_milliseconds(milliseconds: int | None, text: str | None) -> None:
    assert utc_with_milliseconds(milliseconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000),
        ("2023-11-14T22:13:20", None),
        ("1969-12-31T23:59:59Z", None),
        ("yesterday", None),
    ],
)
def test_text(text: str, seconds: int | None) -> None:
    assert parse_utc(text) == seconds
