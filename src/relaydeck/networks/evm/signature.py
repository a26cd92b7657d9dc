"""Recovers the signer of a transaction."""

from functools import lru_cache
from typing import Any, NamedTuple

from coincurve import PublicKey

from relaydeck.networks.evm import rlp
from relaydeck.networks.evm import rlp_fields as fields
from relaydeck.networks.evm.address import address_of
from relaydeck.networks.evm.errors import BadTransaction
from relaydeck.networks.evm.keccak import keccak

_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


class Signature(NamedTuple):
    signed: bytes  # the bytes that were hashed and signed
    y_parity: int
    r: int
    s: int


def legacy_signature(items: list[Any]) -> tuple[Signature | None, int | None]:
    """The signature (None: unsigned) and the chain id (None: a transaction from before EIP-155 has none)."""
    if len(items) == 6:
        return None, None
    v = fields.integer("v", items[6], 256)
    r, s = (fields.integer(name, item, 256) for name, item in zip("rs", items[7:], strict=True))
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
        fields.integer(name, item, 256) for name, item in zip(("y parity", "r", "s"), items[unsigned:], strict=True)
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
    return _signer(keccak(signature.signed), _serialised(signature))


@lru_cache(maxsize=4096)  # a transaction is often estimated several times before it is sent
def _signer(digest: bytes, serialised: bytes) -> str:
    try:
        return address_of(PublicKey.from_signature_and_message(serialised, digest, hasher=None))
    except ValueError:
        raise BadTransaction("no key belongs to the signature") from None


def _serialised(signature: Signature) -> bytes:
    return signature.r.to_bytes(32, "big") + signature.s.to_bytes(32, "big") + bytes([signature.y_parity])
