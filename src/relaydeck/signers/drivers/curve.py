"""secp256k1: public keys in and addresses out, signatures normalised and verified.

A key system gives (r, s) without a recovery id and with either of the two valid values of s. Ethereum accepts only
the lower s (EIP-2) and needs the recovery id, which is found by trying both.
"""

from typing import NamedTuple

from coincurve import PublicKey
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256K1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from relaydeck.networks.evm.address import checksummed
from relaydeck.networks.evm.keccak import keccak
from relaydeck.signers.drivers.driver_errors import AnswerRejected, WrongKeyKind
from relaydeck.signers.drivers.interface import KeyIdentity, RawSignature

ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141


class Signature(NamedTuple):
    """Verified, with the lower s."""

    r: int
    s: int
    recovery_id: int  # 0 or 1


def identity_of(public: PublicKey) -> KeyIdentity:
    point = public.format(compressed=False)[1:]
    return KeyIdentity(checksummed("0x" + keccak(point)[-20:].hex()), point)


def identity_of_der(der: bytes) -> KeyIdentity:
    """Of a SubjectPublicKeyInfo. Raises WrongKeyKind for another curve or algorithm."""
    try:
        return _identity_of_parsed(load_der_public_key(der))
    except (ValueError, UnsupportedAlgorithm):
        raise AnswerRejected("the key system's public key cannot be read") from None


def identity_of_pem(pem: str) -> KeyIdentity:
    try:
        return _identity_of_parsed(load_pem_public_key(pem.encode()))
    except (ValueError, UnsupportedAlgorithm):
        raise AnswerRejected("the key system's public key cannot be read") from None


def _identity_of_parsed(public: PublicKeyTypes) -> KeyIdentity:
    if not isinstance(public, EllipticCurvePublicKey) or not isinstance(public.curve, SECP256K1):
        raise WrongKeyKind("the key is not a secp256k1 key")
    numbers = public.public_numbers()
    return identity_of(PublicKey.from_point(numbers.x, numbers.y))


def identity_of_hex(text: str) -> KeyIdentity:
    """Of a point in SEC 1 form, compressed or not. Raises ValueError."""
    return identity_of(PublicKey(bytes.fromhex(text.removeprefix("0x"))))


def signature_of_der(der: bytes) -> RawSignature:
    try:
        return RawSignature(*decode_dss_signature(der))
    except ValueError:
        raise AnswerRejected("the key system's signature is not in DER") from None


def verified(digest: bytes, raw: RawSignature, identity: KeyIdentity) -> Signature:
    """The signature in the form Ethereum takes. Raises AnswerRejected unless `identity` made it."""
    r, s = raw
    if not (0 < r < ORDER and 0 < s < ORDER):
        raise AnswerRejected("the key system's signature is outside the curve's range")
    s = min(s, ORDER - s)
    for recovery_id in (0, 1):
        if _signed_by(digest, r, s, recovery_id, identity):
            return Signature(r, s, recovery_id)
    raise AnswerRejected("the key system's signature was not made with this key")


def _signed_by(digest: bytes, r: int, s: int, recovery_id: int, identity: KeyIdentity) -> bool:
    encoded = r.to_bytes(32) + s.to_bytes(32) + bytes([recovery_id])
    try:
        signer = identity_of(PublicKey.from_signature_and_message(encoded, digest, hasher=None))
    except Exception:  # coincurve raises plain Exception when no point has this r
        return False
    if identity.public_key is not None:
        return signer.public_key == identity.public_key
    return signer.address.lower() == identity.address.lower()
