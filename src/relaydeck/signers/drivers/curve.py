"""secp256k1: public keys in and addresses out, signatures normalised and verified.

A key system gives (r, s) without a recovery id and with either of the two valid values of s. Ethereum accepts only
the lower s (EIP-2) and needs the recovery id, which is found by trying both.
"""

from typing import NamedTuple

from coincurve import PublicKey
from cryptography.hazmat.primitives.asymmetric.ec import SECP256K1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from relaydeck.networks.evm.address import address_of, checksummed
from relaydeck.signers.drivers.driver_errors import AnswerRejected, WrongKeyKind
from relaydeck.signers.drivers.interface import KeyIdentity, RawSignature, failing_as
from relaydeck.signers.signer_types import CURVE_ORDER


class Signature(NamedTuple):
    """Verified, with the lower s."""

    r: int
    s: int
    recovery_id: int  # 0 or 1


def identity_of(public: PublicKey) -> KeyIdentity:
    return KeyIdentity(checksummed(address_of(public)), public.format(compressed=False)[1:])


def identity_of_public_key(info: bytes) -> KeyIdentity:
    """Of a SubjectPublicKeyInfo in DER or PEM. Raises WrongKeyKind for another curve or algorithm."""
    load = load_pem_public_key if info.startswith(b"-----") else load_der_public_key
    with failing_as(AnswerRejected("the key system's public key cannot be read")):
        public = load(info)
    if not isinstance(public, EllipticCurvePublicKey) or not isinstance(public.curve, SECP256K1):
        raise WrongKeyKind("the key is not a secp256k1 key")
    numbers = public.public_numbers()
    return identity_of(PublicKey.from_point(numbers.x, numbers.y))


def identity_of_hex(text: str) -> KeyIdentity:
    """Of a point in SEC 1 form, compressed or not. Raises ValueError."""
    return identity_of(PublicKey(bytes.fromhex(text.removeprefix("0x"))))


def signature_of_der(der: bytes) -> RawSignature:
    with failing_as(AnswerRejected("the key system's signature is not in DER")):
        return RawSignature(*decode_dss_signature(der))


def verified(digest: bytes, raw: RawSignature, identity: KeyIdentity) -> Signature:
    """The signature in the form Ethereum takes. Raises AnswerRejected unless `identity` made it."""
    r, s = raw
    if not (0 < r < CURVE_ORDER and 0 < s < CURVE_ORDER):
        raise AnswerRejected("the key system's signature is outside the curve's range")
    s = min(s, CURVE_ORDER - s)
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
