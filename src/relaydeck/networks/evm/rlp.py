"""RLP, the encoding of transactions and block headers, and readers of its fields. Only the canonical form is decoded.

Every estimate decodes a transaction, and a library takes more than twice as long.
"""

from collections.abc import Callable
from typing import Any

from relaydeck.networks.evm.errors import BadTransaction

_STRING, _LIST = 0x80, 0xC0  # the prefixes of an empty string and an empty list; smaller ones are bytes
_LONGEST_SHORT = 55  # bytes of content; the length of longer content follows its prefix
_ONE_BYTE, _LAST_SHORT = _STRING + 1, _STRING + _LONGEST_SHORT
Item = bytes | list[Any]
AccessList = tuple[tuple[str, tuple[str, ...]], ...]


def encode(item: Any) -> bytes:
    """Encode a byte string, a number, or a list of such items. Raises OverflowError for a negative number."""
    if isinstance(item, int):
        item = _number_bytes(item)
    if isinstance(item, bytes):
        return item if len(item) == 1 and item[0] < _STRING else _prefix(_STRING, len(item)) + item
    if not isinstance(item, list):
        raise TypeError(f"{type(item).__name__} has no RLP form")
    content = b"".join(map(encode, item))
    return _prefix(_LIST, len(content)) + content


def _prefix(kind: int, length: int) -> bytes:
    if length <= _LONGEST_SHORT:
        return bytes([kind + length])
    stated = _number_bytes(length)
    return bytes([kind + _LONGEST_SHORT + len(stated)]) + stated


def _number_bytes(number: int) -> bytes:
    """Without leading zeros: zero is empty."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def decode_list(raw: bytes) -> list[Any]:
    """The items of a list: byte strings and lists. Raises `BadTransaction`."""
    if not raw or raw[0] < _LIST:
        raise BadTransaction("the transaction's payload is not a list")
    start, end = _content(raw, raw[0], 1, len(raw))
    if end != len(raw):
        raise _not_canonical("bytes follow its end")
    try:
        return _items(raw, start, end)
    except RecursionError:
        raise BadTransaction("the transaction is nested too deeply") from None


def _items(raw: bytes, start: int, end: int) -> list[Any]:
    """The items between two positions."""
    items: list[Any] = []
    while start < end:
        prefix = raw[start]
        start += 1
        if prefix < _STRING:
            items.append(raw[start - 1 : start])
            continue
        if prefix <= _LAST_SHORT:
            after = start + prefix - _STRING
            if after > end:
                raise _not_canonical("it is truncated")
            if prefix == _ONE_BYTE and raw[start] < _STRING:
                raise _not_canonical("a single byte is encoded as a string")
            items.append(raw[start:after])
        elif prefix == _LIST:
            items.append([])
            continue
        else:
            start, after = _content(raw, prefix, start, end)
            items.append(_items(raw, start, after) if prefix > _LIST else raw[start:after])
        start = after
    return items


def _content(raw: bytes, prefix: int, start: int, end: int) -> tuple[int, int]:
    """Where the content of a list or of a long string begins and ends."""
    length = prefix - (_LIST if prefix >= _LIST else _STRING)
    if length > _LONGEST_SHORT:
        size = length - _LONGEST_SHORT
        length = _long_length(raw[start : min(start + size, end)], size)
        start += size
    if start + length > end:
        raise _not_canonical("it is truncated")
    return start, start + length


def _long_length(stated: bytes, size: int) -> int:
    if len(stated) < size:
        raise _not_canonical("it is truncated")
    if stated[0] == 0:
        raise _not_canonical("a length has leading zeros")
    length = int.from_bytes(stated, "big")
    if length <= _LONGEST_SHORT:
        raise _not_canonical("a short length has the form of a long one")
    return length


def _not_canonical(why: str) -> BadTransaction:
    return BadTransaction(f"the transaction is not canonical RLP: {why}")


def integer(name: str, bits: int = 256) -> Callable[[Item], int]:
    """A reader of integers of at most so many bits."""

    def read(item: Item) -> int:
        if not isinstance(item, bytes):
            raise BadTransaction(f"{name} is a list, not an integer")
        if item and not item[0]:
            raise BadTransaction(f"{name} has leading zeros")
        if len(item) * 8 > bits:
            raise BadTransaction(f"{name} is longer than {bits} bits")
        return int.from_bytes(item)

    return read


def octets(name: str, item: Item) -> bytes:
    if not isinstance(item, bytes):
        raise BadTransaction(f"{name} is a list, not a byte string")
    return item


def sized(name: str, item: Item, size: int) -> bytes:
    if not isinstance(item, bytes) or len(item) != size:
        raise BadTransaction(f"{name} is not {size} bytes")
    return item


def address(name: str, item: Item) -> str:
    return "0x" + sized(name, item, 20).hex()


def receiver(item: Item) -> str | None:
    """An address, or None for contract creation."""
    if item == b"":
        return None
    return address("to", item)


def listed(name: str, item: Item, length: int | None = None) -> list[Any]:
    if not isinstance(item, list):
        raise BadTransaction(f"{name} is not a list")
    if length is not None and len(item) != length:
        raise BadTransaction(f"{name} has {len(item)} fields instead of {length}")
    return item


def access_list(item: Item) -> AccessList:
    return tuple(map(_access_entry, listed("access list", item)))


def _access_entry(item: Item) -> tuple[str, tuple[str, ...]]:
    where, keys = listed("access list entry", item, 2)
    slots = listed("access list storage keys", keys)
    return (
        address("access list address", where),
        tuple("0x" + sized("access list storage key", slot, 32).hex() for slot in slots),
    )


def blob_hashes(item: Item) -> tuple[str, ...]:
    hashes = listed("blob versioned hashes", item)
    if not hashes:
        raise BadTransaction("a blob transaction without blobs")
    for entry in hashes:
        if sized("blob versioned hash", entry, 32)[0] != 1:
            raise BadTransaction("blob versioned hash of an unknown version")
    return tuple("0x" + entry.hex() for entry in hashes)
