"""Decodes transactions: legacy and EIP-2718 types 1 to 4, signed or not, in canonical form only.

`rlp.py` decodes RLP and `signature.py` recovers signers; this module knows the fields of each type.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from relaydeck.networks.evm import rlp_fields as fields
from relaydeck.networks.evm.errors import BadTransaction
from relaydeck.networks.evm.rlp import decode_list
from relaydeck.networks.evm.rlp_fields import AccessList, Item
from relaydeck.networks.evm.signature import Signature, legacy_signature, recover, typed_signature

GAS_PER_BLOB = 131_072  # EIP-4844
_NONCE_LIMIT = (1 << 64) - 1  # EIP-2681


@dataclass(frozen=True, slots=True)
class Authorization:
    """One entry of an EIP-7702 authorization list."""

    chain_id: int
    address: str
    nonce: int
    y_parity: int
    r: int
    s: int

    def as_call(self) -> dict[str, str]:
        return {
            "chainId": hex(self.chain_id),
            "address": self.address,
            "nonce": hex(self.nonce),
            "yParity": hex(self.y_parity),
            "r": hex(self.r),
            "s": hex(self.s),
        }


class Transaction(msgspec.Struct, frozen=True):
    """`sender` is None when the transaction is unsigned, `chain_id` when it dates from before EIP-155."""

    type: int
    chain_id: int | None
    nonce: int
    gas_limit: int
    to: str | None
    value: int
    data: bytes
    gas_price: int | None = None
    max_priority_fee_per_gas: int | None = None
    max_fee_per_gas: int | None = None
    max_fee_per_blob_gas: int | None = None
    access_list: AccessList = ()
    blob_hashes: tuple[str, ...] = ()
    authorizations: tuple[Authorization, ...] = ()
    sender: str | None = None
    unsigned: bytes = b""  # its encoding without the signature, which some chains charge for by size
    signed_bytes: int = 0  # the size of its encoding with the signature; 0: not signed

    @property
    def is_signed(self) -> bool:
        return self.sender is not None

    @property
    def blob_gas(self) -> int:
        return GAS_PER_BLOB * len(self.blob_hashes)

    def as_call(self, sender: str) -> dict[str, Any]:
        """What the transaction does, as nodes take it, without nonce, gas limit and prices."""
        call: dict[str, Any] = {"from": sender, "value": hex(self.value), "data": "0x" + self.data.hex()}
        if self.to is not None:
            call["to"] = self.to
        if self.access_list:
            call["accessList"] = [{"address": address, "storageKeys": keys} for address, keys in self.access_list]
        if self.blob_hashes:
            call["blobVersionedHashes"] = self.blob_hashes
        if self.authorizations:
            call["authorizationList"] = [entry.as_call() for entry in self.authorizations]
        return call


def decode(text: str, *, chain_id: int, max_bytes: int) -> Transaction:
    """Decode the transaction in `text` (0x-hex), which must be for `chain_id`."""
    raw = _unhex(text, max_bytes)
    if not raw:
        raise BadTransaction("the transaction is empty")
    if raw[0] >= 0xC0:
        transaction = _legacy(decode_list(raw), raw)
    elif shape := _SHAPES.get(raw[0]):
        transaction = _typed(raw, shape, decode_list(raw[1:]))
    else:
        raise BadTransaction(f"transaction type {raw[0]} is not supported")
    _check(transaction, chain_id)
    return transaction


def _unhex(text: str, max_bytes: int) -> bytes:
    if not text.startswith("0x"):
        raise BadTransaction("the transaction does not start with 0x")
    if len(text) > 2 + 2 * max_bytes:
        raise BadTransaction(f"the transaction is longer than {max_bytes} bytes")
    if not text.isalnum():  # bytes.fromhex would skip white space
        raise BadTransaction("the transaction is not hex")
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise BadTransaction("the transaction is not hex, or has an odd number of digits") from None


def _encodings(raw: bytes, signature: Signature | None) -> dict[str, Any]:
    if signature is None:
        return {"unsigned": raw}
    return {"unsigned": signature.signed, "signed_bytes": len(raw)}


def _legacy(items: list[Any], raw: bytes) -> Transaction:
    if len(items) not in (6, 9):
        raise BadTransaction(f"a legacy transaction has 6 or 9 fields, not {len(items)}")
    nonce, price, limit, to, value, data = items[:6]
    # Before the signature, for which the fields are encoded again: that is slow for those of a wrong form.
    found: dict[str, Any] = {
        "nonce": fields.integer("nonce", nonce, 64),
        "gas_price": fields.integer("gas price", price, 256),
        "gas_limit": fields.integer("gas limit", limit, 64),
        "to": fields.receiver(to),
        "value": fields.integer("value", value, 256),
        "data": fields.octets("data", data),
    }
    signature, chain = legacy_signature(items)
    return Transaction(type=0, chain_id=chain, sender=recover(signature), **found, **_encodings(raw, signature))


@dataclass(frozen=True, slots=True)
class _Shape:
    """The number of fields before the signature, and the reader of the fields that differ between types."""

    unsigned: int
    read: Callable[[list[Any]], dict[str, Any]]


def _typed(raw: bytes, shape: _Shape, items: list[Any]) -> Transaction:
    kind = raw[0]
    if kind == 3 and items and isinstance(items[0], list):
        raise BadTransaction("a blob transaction with its blobs: send the canonical form without them")
    if len(items) not in (shape.unsigned, shape.unsigned + 3):
        expected = f"{shape.unsigned} fields, or {shape.unsigned + 3} signed"
        raise BadTransaction(f"a type {kind} transaction has {expected}, not {len(items)}")
    found = shape.read(items)  # before the signature, as above
    found["chain_id"] = fields.integer("chain id", items[0], 256)
    found["nonce"] = fields.integer("nonce", items[1], 64)
    signature: Signature | None = typed_signature(kind, items, shape.unsigned)
    return Transaction(type=kind, sender=recover(signature), **found, **_encodings(raw, signature))


def _call(limit: Item, to: Item, value: Item, data: Item, access: Item) -> dict[str, Any]:
    return {
        "gas_limit": fields.integer("gas limit", limit, 64),
        "to": fields.receiver(to),
        "value": fields.integer("value", value, 256),
        "data": fields.octets("data", data),
        "access_list": fields.access_list(access),
    }


def _access_list_type(items: list[Any]) -> dict[str, Any]:
    return {"gas_price": fields.integer("gas price", items[2], 256), **_call(*items[3:8])}


def _fee_market_type(items: list[Any]) -> dict[str, Any]:
    return {
        "max_priority_fee_per_gas": fields.integer("max priority fee per gas", items[2], 256),
        "max_fee_per_gas": fields.integer("max fee per gas", items[3], 256),
        **_call(*items[4:9]),
    }


def _blob_type(items: list[Any]) -> dict[str, Any]:
    return {
        **_fee_market_type(items),
        "max_fee_per_blob_gas": fields.integer("max fee per blob gas", items[9], 256),
        "blob_hashes": fields.blob_hashes(items[10]),
    }


def _set_code_type(items: list[Any]) -> dict[str, Any]:
    entries = fields.listed("authorization list", items[9])
    if not entries:
        raise BadTransaction("a type 4 transaction without authorizations")
    return {**_fee_market_type(items), "authorizations": tuple(_authorization(entry) for entry in entries)}


def _authorization(item: Item) -> Authorization:
    chain, where, nonce, y_parity, r, s = fields.listed("authorization", item, 6)
    return Authorization(
        chain_id=fields.integer("authorization chain id", chain, 256),
        address=fields.address("authorization address", where),
        nonce=fields.integer("authorization nonce", nonce, 64),
        y_parity=fields.integer("authorization y parity", y_parity, 8),
        r=fields.integer("authorization r", r, 256),
        s=fields.integer("authorization s", s, 256),
    )


_SHAPES = {
    1: _Shape(8, _access_list_type),
    2: _Shape(9, _fee_market_type),
    3: _Shape(11, _blob_type),
    4: _Shape(10, _set_code_type),
}


def _check(transaction: Transaction, chain_id: int) -> None:
    """Refuse what no node accepts, whatever its state."""
    if transaction.chain_id not in (None, chain_id):
        raise BadTransaction(f"the transaction is for chain id {transaction.chain_id}, not {chain_id}")
    if transaction.nonce >= _NONCE_LIMIT:
        raise BadTransaction("nonce is larger than an account can have")
    if transaction.to is None and transaction.type in (3, 4):
        raise BadTransaction(f"a type {transaction.type} transaction cannot create a contract")
    if (transaction.max_priority_fee_per_gas or 0) > (transaction.max_fee_per_gas or 0):
        raise BadTransaction("max priority fee per gas is higher than max fee per gas")
