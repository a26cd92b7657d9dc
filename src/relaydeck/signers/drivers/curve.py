"""secp256k1: public keys in and addresses out, and signatures verified.

A key system gives (r, s) without a recovery id and with either of the two valid values of s.
"""

from coincurve import PublicKey
from cryptography.hazmat.primitives.asymmetric.ec import SECP256K1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from relaydeck.networks.evm.address import address_of, checksummed
from relaydeck.signers.drivers.driver_errors import AnswerRejected, WrongKeyKind
from relaydeck.signers.drivers.interface import KeyIdentity, RawSignature, failing_as
from relaydeck.signers.signer_types import CURVE_ORDER


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


def require_signed(digest: bytes, raw: RawSignature, identity: KeyIdentity) -> None:
    """Raises AnswerRejected unless `identity` made the signature."""
    if not all(0 < each < CURVE_ORDER for each in raw):
        raise AnswerRejected("the key system's signature is outside the curve's range")
    if not any(_signed_by(digest, raw, recovery_id, identity) for recovery_id in (0, 1)):
        raise AnswerRejected("the key system's signature was not made with this key")


def _signed_by(digest: bytes, raw: RawSignature, recovery_id: int, identity: KeyIdentity) -> bool:
    encoded = raw.r.to_bytes(32) + raw.s.to_bytes(32) + bytes([recovery_id])
    try:
        signer = identity_of(PublicKey.from_signature_and_message(encoded, digest, hasher=None))
    except Exception:  # coincurve raises plain Exception when no point has this r
        return False
    if identity.public_key is not None:
        return signer.public_key == identity.public_key
    return signer.address.lower() == identity.address.lower()
