"""Transactions that are in a block, as nodes describe them, and what they paid."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from relaydeck.networks.evm import rlp
from relaydeck.networks.evm.transaction import Authorization, Transaction

_KNOWN_TYPES = range(5)


@dataclass(frozen=True, slots=True)
class Past:
    transaction: Transaction
    sender: str
    kind: str
    paid: int  # in Wei
    base_fee: int | None
    blob_price: int | None


def read_past(sent: dict[str, Any], receipt: Any, block: dict[str, Any]) -> Past | None:
    """None for a transaction that failed, that paid nothing, or of a type that only its chain has."""
    kind = _number(sent.get("type", "0x0"))
    if kind not in _KNOWN_TYPES or not isinstance(receipt, dict) or receipt.get("status") != "0x1":
        return None
    paid = _paid(receipt)
    if paid == 0:
        return None
    base, blob_price = block.get("baseFeePerGas"), receipt.get("blobGasPrice")
    return Past(
        transaction=_transaction(kind, sent),
        sender=sent["from"],
        kind=f"type {kind}, {_purpose(sent)}",
        paid=paid,
        base_fee=None if base is None else _number(base),
        blob_price=None if blob_price is None else _number(blob_price),
    )


def _purpose(sent: dict[str, Any]) -> str:
    if sent.get("to") is None:
        return "creation"
    return "transfer" if sent["input"] == "0x" else "call"


def _paid(receipt: dict[str, Any]) -> int:
    gas = _number(receipt["gasUsed"])
    blobs = _number(receipt.get("blobGasUsed")) * _number(receipt.get("blobGasPrice"))
    return gas * _number(receipt["effectiveGasPrice"]) + blobs + _number(receipt.get("l1Fee")) + _operator(receipt, gas)


def _operator(receipt: dict[str, Any], gas: int) -> int:
    """The operator fee of an OP-stack chain. From its upgrade Jovian on, receipts contain `daFootprintGasScalar`."""
    scaled = gas * _number(receipt.get("operatorFeeScalar"))
    variable = scaled // 10**6 if receipt.get("daFootprintGasScalar") is None else scaled * 100
    return variable + _number(receipt.get("operatorFeeConstant"))


def _number(text: Any) -> int:
    return int(text, 16) if isinstance(text, str) else 0


def _transaction(kind: int, sent: dict[str, Any]) -> Transaction:
    market = kind >= 2
    found = Transaction(
        type=kind,
        chain_id=_number(sent.get("chainId")) or None,
        nonce=_number(sent["nonce"]),
        gas_limit=_number(sent["gas"]),
        to=sent.get("to"),
        value=_number(sent["value"]),
        data=bytes.fromhex(sent["input"][2:]),
        gas_price=None if market else _number(sent["gasPrice"]),
        max_priority_fee_per_gas=_number(sent.get("maxPriorityFeePerGas")) if market else None,
        max_fee_per_gas=_number(sent.get("maxFeePerGas")) if market else None,
        max_fee_per_blob_gas=_number(sent.get("maxFeePerBlobGas")) or None,
        access_list=tuple((each["address"], tuple(each["storageKeys"])) for each in sent.get("accessList") or ()),
        blob_hashes=tuple(sent.get("blobVersionedHashes") or ()),
        authorizations=tuple(_authorization(each) for each in sent.get("authorizationList") or ()),
        sender=sent["from"],
    )
    return _with_encoding(found)


def _authorization(entry: dict[str, Any]) -> Authorization:
    numbers = (_number(entry[name]) for name in ("nonce", "yParity", "r", "s"))
    return Authorization(_number(entry["chainId"]), entry["address"], *numbers)


def _with_encoding(found: Transaction) -> Transaction:
    """With its size, for chains that charge for it. The signature is not in it."""
    prices = [found.gas_price] if found.type < 2 else [found.max_priority_fee_per_gas, found.max_fee_per_gas]
    to = _octets(found.to) if found.to else b""
    fields: list[Any] = [found.nonce, *prices, found.gas_limit, to, found.value, found.data]
    if found.type == 0:
        return replace(found, unsigned=rlp.encode([*fields, found.chain_id or 0, b"", b""]))
    listed = [[_octets(where), [_octets(key) for key in keys]] for where, keys in found.access_list]
    whole = [found.chain_id or 0, *fields, listed, *_own_fields(found)]
    return replace(found, unsigned=bytes([found.type]) + rlp.encode(whole))


def _own_fields(found: Transaction) -> list[Any]:
    """What follows the access list: EIP-4844 for type 3, EIP-7702 for type 4."""
    if found.type == 3:
        return [found.max_fee_per_blob_gas or 0, [_octets(each) for each in found.blob_hashes]]
    if found.type == 4:
        return [[_authorization_fields(each) for each in found.authorizations]]
    return []


def _authorization_fields(entry: Authorization) -> list[Any]:
    return [entry.chain_id, _octets(entry.address), entry.nonce, entry.y_parity, entry.r, entry.s]


def _octets(text: str) -> bytes:
    return bytes.fromhex(text[2:])
