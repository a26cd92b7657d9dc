"""Decodes transactions: legacy, types 1 to 4, and those of Celo and ZKsync, signed or not, in canonical form only."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import msgspec
from coincurve import PublicKey

from relaydeck.networks.chains import GAS_PER_BLOB
from relaydeck.networks.evm import rlp
from relaydeck.networks.evm.address import address_of, keccak
from relaydeck.networks.evm.errors import BadTransaction

FEE_CURRENCY_TYPE = 0x7B  # CIP-64, of Celo
ZKSYNC_TYPE = 0x71
_NONCE_LIMIT = (1 << 64) - 1  # EIP-2681
_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


class Signature(NamedTuple):
    signed: bytes  # the bytes that were hashed and signed
    y_parity: int
    r: int
    s: int


class Authorization(NamedTuple):
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
    access_list: rlp.AccessList = ()
    blob_hashes: tuple[str, ...] = ()
    authorizations: tuple[Authorization, ...] = ()
    sender: str | None = None
    unsigned: bytes = b""  # its encoding without the signature, which some chains charge for by size
    signed: bytes = b""  # its encoding with the signature; empty: not signed, or not known
    fee_currency: str | None = None  # in whose units its prices are (CIP-64); None: in Wei
    zksync_fields: dict[str, Any] | None = None  # that only ZKsync has, as its nodes take them

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
        if self.zksync_fields is not None:
            call |= {"type": hex(ZKSYNC_TYPE), "eip712Meta": self.zksync_fields}
        return call


# -- The fields of each type before its signature, in the order in which they are encoded --

_CALL = ("gas_limit", "to", "value", "data")
_FEE_MARKET = ("chain_id", "nonce", "max_priority_fee_per_gas", "max_fee_per_gas", *_CALL, "access_list")
_FIELDS: dict[int, tuple[str, ...]] = {
    0: ("nonce", "gas_price", *_CALL),
    1: ("chain_id", "nonce", "gas_price", *_CALL, "access_list"),
    2: _FEE_MARKET,
    3: (*_FEE_MARKET, "max_fee_per_blob_gas", "blob_hashes"),
    4: (*_FEE_MARKET, "authorizations"),
    FEE_CURRENCY_TYPE: (*_FEE_MARKET, "fee_currency"),
}


def _fee_currency(item: rlp.Item) -> str | None:
    return None if item == b"" else rlp.address("fee currency", item)


def _authorizations(item: rlp.Item) -> tuple[Authorization, ...]:
    entries = rlp.listed("authorization list", item)
    if not entries:
        raise BadTransaction("a type 4 transaction without authorizations")
    return tuple(Authorization(*_read(_AUTHORIZATION, rlp.listed("authorization", each, 6))) for each in entries)


_AUTHORIZATION: tuple[Callable[[rlp.Item], Any], ...] = (
    rlp.integer("authorization chain id"),
    partial(rlp.address, "authorization address"),
    rlp.integer("authorization nonce", 64),
    rlp.integer("authorization y parity", 8),
    rlp.integer("authorization r"),
    rlp.integer("authorization s"),
)
_READERS: dict[str, Callable[[rlp.Item], Any]] = {
    "chain_id": rlp.integer("chain id"),
    "nonce": rlp.integer("nonce", 64),
    "gas_price": rlp.integer("gas price"),
    "max_priority_fee_per_gas": rlp.integer("max priority fee per gas"),
    "max_fee_per_gas": rlp.integer("max fee per gas"),
    "gas_limit": rlp.integer("gas limit", 64),
    "to": rlp.receiver,
    "value": rlp.integer("value"),
    "data": partial(rlp.octets, "data"),
    "access_list": rlp.access_list,
    "max_fee_per_blob_gas": rlp.integer("max fee per blob gas"),
    "blob_hashes": rlp.blob_hashes,
    "authorizations": _authorizations,
    "fee_currency": _fee_currency,
}


_READERS_OF = {kind: [(name, _READERS[name]) for name in names] for kind, names in _FIELDS.items()}


def _read(readers: Iterable[Callable[[rlp.Item], Any]], items: list[Any]) -> list[Any]:
    return [read(item) for read, item in zip(readers, items, strict=True)]


def _fields(readers: Sequence[tuple[str, Callable[[rlp.Item], Any]]], items: list[Any]) -> dict[str, Any]:
    """Before the signature, for which the fields are encoded again: that is slow for those of a wrong form."""
    return {name: read(item) for (name, read), item in zip(readers, items, strict=False)}


def encode_unsigned(transaction: Transaction) -> bytes:
    """Its encoding without the signature, of all types but that of ZKsync."""
    fields = [_item(getattr(transaction, name)) for name in _FIELDS[transaction.type]]
    if transaction.type == 0:
        return rlp.encode([*fields, transaction.chain_id or 0, b"", b""])
    return bytes([transaction.type]) + rlp.encode(fields)


def _item(value: Any) -> Any:
    match value:
        case None:
            return b""
        case str():
            return bytes.fromhex(value[2:])
        case tuple():
            return [_item(each) for each in value]
    return value


# -- Decoding --


def decode(text: str, *, chain_id: int, max_bytes: int) -> Transaction:
    """Decode the transaction in `text` (0x-hex), which must be for `chain_id`."""
    raw = _unhex(text, max_bytes)
    if not raw:
        raise BadTransaction("the transaction is empty")
    if raw[0] >= 0xC0:
        transaction = _legacy(rlp.decode_list(raw), raw)
    elif raw[0] == ZKSYNC_TYPE:
        transaction = _zksync(rlp.decode_list(raw[1:]), raw)
    elif raw[0] and raw[0] in _FIELDS:
        transaction = _typed(raw, rlp.decode_list(raw[1:]))
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
    return {"unsigned": signature.signed, "signed": raw}


def _legacy(items: list[Any], raw: bytes) -> Transaction:
    if len(items) not in (6, 9):
        raise BadTransaction(f"a legacy transaction has 6 or 9 fields, not {len(items)}")
    found = _fields(_READERS_OF[0], items)
    signature, chain = legacy_signature(items)
    return Transaction(type=0, chain_id=chain, sender=recover(signature), **found, **_encodings(raw, signature))


def _typed(raw: bytes, items: list[Any]) -> Transaction:
    kind, names = raw[0], _FIELDS[raw[0]]
    if kind == 3 and items and isinstance(items[0], list):
        raise BadTransaction("a blob transaction with its blobs: send the canonical form without them")
    if len(items) not in (len(names), len(names) + 3):
        expected = f"{len(names)} fields, or {len(names) + 3} signed"
        raise BadTransaction(f"a type {kind} transaction has {expected}, not {len(items)}")
    found = _fields(_READERS_OF[kind], items)
    signature = typed_signature(kind, items, len(names))
    return Transaction(type=kind, sender=recover(signature), **found, **_encodings(raw, signature))


def _zksync(items: list[Any], raw: bytes) -> Transaction:
    """As `serializeEip712` of zksync-ethers encodes it. Its sender is a field: an account may check any signature."""
    if len(items) != 16:
        raise BadTransaction(f"a type {ZKSYNC_TYPE} transaction has 16 fields, not {len(items)}")
    _, r, s, chain, sender, per_pubdata, dependencies, signature, payer = items[7:]
    fields: dict[str, Any] = {"gasPerPubdata": hex(rlp.integer("gas per pubdata")(per_pubdata))}
    fields["factoryDeps"] = [
        list(rlp.octets("factory dependency", each)) for each in rlp.listed("factory deps", dependencies)
    ]
    if rlp.listed("paymaster", payer):
        where, given = rlp.listed("paymaster", payer, 2)
        fields["paymasterParams"] = {
            "paymaster": rlp.address("paymaster", where),
            "paymasterInput": list(rlp.octets("paymaster input", given)),
        }
    is_signed = any(rlp.octets("signature", each) for each in (r, s, signature))
    return Transaction(
        type=ZKSYNC_TYPE,
        chain_id=_READERS["chain_id"](chain),
        sender=rlp.address("from", sender) if is_signed else None,
        unsigned=raw,
        zksync_fields=fields,
        **_fields(_READERS_OF[2][1:8], items),
    )


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


def legacy_signature(items: list[Any]) -> tuple[Signature | None, int | None]:
    """The signature (None: unsigned) and the chain id (None: a transaction from before EIP-155 has none)."""
    if len(items) == 6:
        return None, None
    v = rlp.integer("v")(items[6])
    r, s = (rlp.integer(name)(item) for name, item in zip("rs", items[7:], strict=True))
    if r == 0 and s == 0:
        return None, v  # the EIP-155 signing form: chain id, 0, 0
    if v in (27, 28):
        return Signature(rlp.encode(items[:6]), v - 27, r, s), None
    if v < 35:
        raise BadTransaction("v is neither 27, 28 nor an EIP-155 value")
    chain = (v - 35) // 2
    return Signature(rlp.encode([*items[:6], chain, b"", b""]), (v - 35) % 2, r, s), chain


def typed_signature(kind: int, items: list[Any], unsigned: int) -> Signature | None:
    """None when the three fields are missing or all zero (some libraries encode unsigned transactions so)."""
    if len(items) == unsigned:
        return None
    y_parity, r, s = (
        rlp.integer(name)(item) for name, item in zip(("y parity", "r", "s"), items[unsigned:], strict=True)
    )
    if y_parity == r == s == 0:
        return None
    return Signature(bytes([kind]) + rlp.encode(items[:unsigned]), y_parity, r, s)


def recover(signature: Signature | None) -> str | None:
    """The signer's address in lower case, None when there is no signature."""
    if signature is None:
        return None
    if signature.y_parity > 1:
        raise BadTransaction("y parity is neither 0 nor 1")
    # EIP-2: of the two possible signatures only the one with the lower s is valid.
    if not (0 < signature.r < _ORDER and 0 < signature.s <= _ORDER // 2):
        raise BadTransaction("the signature's r or s is out of range")
    serialised = signature.r.to_bytes(32, "big") + signature.s.to_bytes(32, "big") + bytes([signature.y_parity])
    return _signer(keccak(signature.signed), serialised)


@lru_cache(maxsize=4096)  # a transaction is often estimated several times before it is sent
def _signer(digest: bytes, serialised: bytes) -> str:
    try:
        return address_of(PublicKey.from_signature_and_message(serialised, digest, hasher=None))
    except ValueError:
        raise BadTransaction("no key belongs to the signature") from None
