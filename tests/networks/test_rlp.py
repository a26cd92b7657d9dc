"""Our RLP beside the `rlp` library: both write the same bytes, accept the same bytes and find the same items."""

from typing import Any

import pytest
import rlp
from hypothesis import given
from hypothesis import strategies as st

from relaydeck.networks.evm.errors import BadTransaction
from relaydeck.networks.evm.rlp import decode_list, encode

ITEMS = st.recursive(st.binary(max_size=70), lambda inner: st.lists(inner, max_size=6), max_leaves=30)
NOT_CANONICAL = "the transaction is not canonical RLP: "


@given(st.recursive(st.binary(max_size=70) | st.integers(0, 1 << 256), lambda inner: st.lists(inner, max_size=6)))
def test_it_writes_what_the_library_writes(item: Any) -> None:
    assert encode(item) == rlp.encode(item)


@pytest.mark.parametrize("length", [55, 56, 255, 256, 65_535, 65_536])
def test_lengths_on_both_sides_of_each_bound(length: int) -> None:
    items = [bytes(length), b"\x7f", b"\x80"]
    assert encode(items) == rlp.encode(items)
    assert decode_list(encode(items)) == items


@given(st.lists(ITEMS, max_size=14))
def test_it_finds_the_items_of_every_list(items: list[Any]) -> None:
    assert decode_list(rlp.encode(items)) == items


@given(st.lists(ITEMS, max_size=8), st.data())
def test_it_accepts_and_refuses_what_the_library_does(items: list[Any], data: st.DataObject) -> None:
    raw = bytearray(rlp.encode(items))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from([0, 1, 127, 128, 183, 184, 192, 248]))
    changed = bytes(raw[: data.draw(st.integers(1, len(raw)))])
    assert ours(changed) == library(changed)


def ours(raw: bytes) -> Any:
    try:
        return decode_list(raw)
    except BadTransaction:
        return None


def library(raw: bytes) -> Any:
    try:
        found = rlp.decode(raw)
    except (rlp.DecodingError, IndexError):  # it reads beyond the end of some truncated ones
        return None
    return found if isinstance(found, list) else None


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("", "the transaction's payload is not a list"),
        ("83aabbcc", "the transaction's payload is not a list"),
        ("c3aabbcc", NOT_CANONICAL + "it is truncated"),
        ("c0c0", NOT_CANONICAL + "bytes follow its end"),
        ("c28101", NOT_CANONICAL + "a single byte is encoded as a string"),
        ("f9", NOT_CANONICAL + "it is truncated"),
        ("f8" + "00", NOT_CANONICAL + "a length has leading zeros"),
        ("f8" + "02" + "0101", NOT_CANONICAL + "a short length has the form of a long one"),
        ("c382aa" + "bbcc", NOT_CANONICAL + "bytes follow its end"),
    ],
)
def test_what_is_not_canonical_is_refused_with_the_reason(raw: str, problem: str) -> None:
    with pytest.raises(BadTransaction) as refused:
        decode_list(bytes.fromhex(raw))
    assert str(refused.value) == problem
