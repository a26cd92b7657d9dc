"""Reads the keys of credentials and key systems; secp256k1: public keys in and addresses out, and signatures verified.

Whoever configures a signer chooses the texts of keys, so reading one takes a bounded time on the event loop. OpenSSL
tests the primes of RSA keys and Diffie-Hellman parameters, for seconds if they are large: such texts never reach it.

A key system gives (r, s) without a recovery id and with either of the two valid values of s.
"""

import re
from base64 import b64decode
from enum import Enum

from coincurve import PublicKey
from cryptography.hazmat.primitives.asymmetric.ec import SECP256K1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_der_public_key

from relaydeck.networks.evm.address import address_of, checksummed
from relaydeck.signers.drivers.driver_errors import AnswerRejected, WrongKeyKind
from relaydeck.signers.drivers.interface import KeyIdentity, RawSignature, failing_as
from relaydeck.signers.signer_types import CURVE_ORDER

_OTHER_CURVE = "the key is not a secp256k1 key"
_RSA_BITS = range(1024, 4097)
_RSA_EXPONENTS = range(3, 2**32)
_PEM = re.compile(rb"-----BEGIN ((?:RSA |EC )?(?:PRIVATE|PUBLIC) KEY)-----([^-:]*)-----END \1-----")
_LENGTH = rb"(?:[\0-\x7f]|\x81.|\x82..)"
# In DER. SubjectPublicKeyInfo begins with the algorithm, PKCS #8 with a version before it.
_NAMED = re.compile(rb"\x30%b(?:\x02\x01[\0\1])?\x30%b\x06(.)" % (_LENGTH, _LENGTH), re.DOTALL)
_SEC_1 = re.compile(rb"\x30%b\x02\x01\x01\x04" % _LENGTH, re.DOTALL)
_PKCS_1 = re.compile(rb"\x30%b\x02" % _LENGTH, re.DOTALL)


class Algorithm(Enum):
    """By the object identifier in its keys, and the longest text of a key."""

    EC = bytes.fromhex("2a8648ce3d0201"), 1024
    ED25519 = bytes.fromhex("2b6570"), 1024
    RSA = bytes.fromhex("2a864886f70d010101"), 4096


def read_private_key(content: bytes, *expected: Algorithm) -> PrivateKeyTypes:
    """From PEM or DER. Raises TypeError for another algorithm, and ValueError or UnsupportedAlgorithm."""
    der = _key_in_der(content, expected)
    # The library's own validation is a test for primes. It must not be left out alone: OpenSSL may hang or crash with
    # numbers that do not fit each other. Whether they are primes concerns only the safety of the key.
    key = load_der_private_key(der, None, unsafe_skip_rsa_key_validation=True)
    if isinstance(key, RSAPrivateKey):
        _require_consistent(key)
    return key


def read_public_key(content: bytes, *expected: Algorithm) -> PublicKeyTypes:
    """From PEM or DER. Raises as `read_private_key`."""
    key = load_der_public_key(_key_in_der(content, expected))
    if isinstance(key, RSAPublicKey) and key.key_size not in _RSA_BITS:
        raise ValueError
    return key


def _key_in_der(content: bytes, expected: tuple[Algorithm, ...]) -> bytes:
    if len(content) > max(each.value[1] for each in expected):
        raise ValueError
    der = _decoded(content) if b"-----BEGIN " in content else content
    algorithm = _algorithm(der)
    if algorithm not in expected:
        raise TypeError
    if len(content) > algorithm.value[1]:
        raise ValueError
    return der


def _decoded(pem: bytes) -> bytes:
    found = _PEM.search(pem)
    if found is None:
        raise ValueError
    return b64decode(b"".join(found[2].split()), validate=True)


def _algorithm(der: bytes) -> Algorithm | None:
    """None for another one. Raises ValueError if this is no key."""
    if found := _NAMED.match(der):
        name = der[found.end() : found.end() + found[1][0]]
        return next((each for each in Algorithm if each.value[0] == name), None)
    if _SEC_1.match(der):
        return Algorithm.EC
    if _PKCS_1.match(der):
        return Algorithm.RSA
    raise ValueError


def _require_consistent(key: RSAPrivateKey) -> None:
    """All that OpenSSL verifies of a key, except that p and q are primes."""
    if key.key_size not in _RSA_BITS:
        raise ValueError
    numbers = key.private_numbers()
    p, q, d, e = numbers.p, numbers.q, numbers.d, numbers.public_numbers.e
    holds = (
        p * q == numbers.public_numbers.n
        and p % 2 == q % 2 == e % 2 == 1
        and max(p, q).bit_length() <= key.key_size // 2 + 1
        and e in _RSA_EXPONENTS
        and 0 < d < p * q
        and d * e % (p - 1) == d * e % (q - 1) == 1
        and (numbers.dmp1, numbers.dmq1) == (d % (p - 1), d % (q - 1))
        and 0 < numbers.iqmp < p
        and numbers.iqmp * q % p == 1
    )
    if not holds:
        raise ValueError


def identity_of(public: PublicKey) -> KeyIdentity:
    return KeyIdentity(checksummed(address_of(public)), public.format(compressed=False)[1:])


def identity_of_public_key(info: bytes) -> KeyIdentity:
    """Of a SubjectPublicKeyInfo in DER or PEM. Raises WrongKeyKind for another curve or algorithm."""
    with failing_as(AnswerRejected("the key system's public key cannot be read")):
        try:
            public = read_public_key(info, Algorithm.EC)
        except TypeError:
            raise WrongKeyKind(_OTHER_CURVE) from None
    if not isinstance(public, EllipticCurvePublicKey) or not isinstance(public.curve, SECP256K1):
        raise WrongKeyKind(_OTHER_CURVE)
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
