"""Forms as browsers send them: their fields, also those that are long, and the forms that cannot be read."""

from urllib.parse import urlencode

import pytest

from relaydeck.console.request import Fields, read_form
from relaydeck.errors import BadRequest
from relaydeck.http.pipeline import Call

TYPE = {b"content-type": b"application/x-www-form-urlencoded"}


async def read(body: bytes) -> Fields:
    return await read_form(Call("", TYPE, body, b"", None), len(body))


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("unit", ["é", "%", "+", " ", "&=", "a", "\n", "🚀"])
async def test_a_long_value_is_read_as_it_was_typed(before: int, unit: str) -> None:
    """Wherever the pieces in which it is decoded end."""
    typed = [("a", "x" * before + unit * 20_000), ("b", ""), ("ü=", unit)]
    assert await read(urlencode(typed).encode()) == typed


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"", []),
        (b"a&&b=1&b=2", [("a", ""), ("b", "1"), ("b", "2")]),
        (b"a=%4&b=%zz&c=%", [("a", "%4"), ("b", "%zz"), ("c", "%")]),
        (b"a=b=c;d", [("a", "b=c;d")]),
    ],
)
async def test_unusual_forms(body: bytes, fields: list[tuple[str, str]]) -> None:
    assert await read(body) == fields


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"a=%ff", "the form cannot be read"),
        (b"a=\xff", "the form cannot be read"),
        (b"&" * 2000, "the form has more than 2000 fields"),
    ],
)
async def test_forms_that_cannot_be_read(body: bytes, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        await read(body)
