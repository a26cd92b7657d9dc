"""Strict readers for the RLP fields of a transaction: canonical form, or `BadTransaction`."""

from typing import Any

from relaydeck.networks.evm.errors import BadTransaction

Item = bytes | list[Any]

AccessList = tuple[tuple[str, tuple[str, ...]], ...]


def integer(name: str, item: Item, bits: int) -> int:
    if not isinstance(item, bytes):
        raise BadTransaction(f"{name} is a list, not an integer")
    if item[:1] == b"\0":
        raise BadTransaction(f"{name} has leading zeros")
    if len(item) * 8 > bits:
        raise BadTransaction(f"{name} is longer than {bits} bits")
    return int.from_bytes(item, "big")


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
    return tuple(_access_entry(entry) for entry in listed("access list", item))


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
