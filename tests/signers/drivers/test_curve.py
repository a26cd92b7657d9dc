"""Public keys, addresses and signatures: against vectors and another implementation."""

import pytest
from coincurve import PrivateKey
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from relaydeck.signers.drivers.curve import (
    Algorithm,
    identity_of_hex,
    identity_of_public_key,
    read_private_key,
    read_public_key,
    require_signed,
    signature_of_der,
)
from relaydeck.signers.drivers.driver_errors import AnswerRejected, WrongKeyKind
from relaydeck.signers.drivers.google_kms import crc32c
from relaydeck.signers.drivers.interface import KeyIdentity, RawSignature
from tests.signers.drivers.system import ORDER, OwnedKey, der_signature
from tests.support.hostile_texts import rsa_private_key

DIGEST = bytes(range(32))
KEYS: dict[Algorithm, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey] = {
    Algorithm.EC: ec.generate_private_key(ec.SECP521R1()),
    Algorithm.ED25519: ed25519.Ed25519PrivateKey.generate(),
    Algorithm.RSA: rsa.generate_private_key(65537, 2048),
}


def test_a_public_key_has_the_same_address_in_every_form() -> None:
    key = OwnedKey()
    found = {
        identity_of_public_key(key.der),
        identity_of_public_key(key.pem.encode()),
        identity_of_hex(key.point()),
        identity_of_hex("0x" + key.point(compressed=False)),
    }
    assert {identity.address for identity in found} == {key.address}
    assert len(found) == 1


@pytest.mark.parametrize("kind", ["P-256", "RSA"])
def test_another_kind_of_key_is_refused(kind: str) -> None:
    made = ec.generate_private_key(ec.SECP256R1()) if kind == "P-256" else rsa.generate_private_key(65537, 2048)
    with pytest.raises(WrongKeyKind):
        identity_of_public_key(made.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


@pytest.mark.parametrize("content", [b"", b"\x30\x00", b"not DER at all", b"-----BEGIN PUBLIC KEY-----"])
def test_what_is_no_public_key_is_rejected(content: bytes) -> None:
    with pytest.raises(AnswerRejected):
        identity_of_public_key(content)


@pytest.mark.parametrize("algorithm", Algorithm)
@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_a_private_key_is_read_in_every_form(algorithm: Algorithm, encoding: Encoding, form: PrivateFormat) -> None:
    key = KEYS[algorithm]
    if algorithm is Algorithm.ED25519:
        form = PrivateFormat.PKCS8
    read = read_private_key(key.private_bytes(encoding, form, NoEncryption()), algorithm)
    assert _private_bytes(read) == _private_bytes(key)


@pytest.mark.parametrize("algorithm", Algorithm)
@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
@pytest.mark.parametrize("form", [PublicFormat.SubjectPublicKeyInfo, PublicFormat.PKCS1])
def test_a_public_key_is_read_in_every_form(algorithm: Algorithm, encoding: Encoding, form: PublicFormat) -> None:
    key = KEYS[algorithm].public_key()
    if algorithm is not Algorithm.RSA:
        form = PublicFormat.SubjectPublicKeyInfo
    read = read_public_key(key.public_bytes(encoding, form), algorithm)
    assert _public_bytes(read) == _public_bytes(key)


def test_text_around_a_key_in_pem_is_passed_over() -> None:
    """As OpenSSL itself writes it before a key on a curve."""
    key = KEYS[Algorithm.EC].private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    before = b"-----BEGIN EC PARAMETERS-----\r\nBgUrgQQAIw==\r\n-----END EC PARAMETERS-----\r\n"
    read = read_private_key(before + key.replace(b"\n", b"\r\n"), Algorithm.EC)
    assert _private_bytes(read) == _private_bytes(KEYS[Algorithm.EC])


def test_the_largest_rsa_key_is_read_and_has_4096_bits() -> None:
    p, q = 2**2048 - 3, 2**2048 - 9
    largest = read_private_key(rsa_private_key(p, q), Algorithm.RSA)
    assert isinstance(largest, rsa.RSAPrivateKey)
    assert largest.key_size == 4096
    with pytest.raises(ValueError):
        read_private_key(rsa_private_key(2**2049 + 3, q), Algorithm.RSA)


@pytest.mark.parametrize("algorithm", Algorithm)
def test_a_key_of_an_algorithm_that_is_not_expected_is_refused(algorithm: Algorithm) -> None:
    key = KEYS[algorithm].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(TypeError):
        read_public_key(key, *(each for each in Algorithm if each is not algorithm))


def _private_bytes(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def _public_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def test_either_s_verifies_with_either_recovery_id() -> None:
    """The recovery id of coincurve's own signatures is found again from r and s alone."""
    recovery_ids = set()
    for number in range(1, 17):
        private = PrivateKey(number.to_bytes(32))
        whole = private.sign_recoverable(DIGEST, hasher=None)
        r, s = int.from_bytes(whole[:32]), int.from_bytes(whole[32:64])
        identity = identity_of_hex(private.public_key.format().hex())
        require_signed(DIGEST, RawSignature(r, s), identity)
        require_signed(DIGEST, RawSignature(r, ORDER - s), identity)
        recovery_ids.add(whole[64])
    assert recovery_ids == {0, 1}


def test_an_address_alone_is_enough_to_verify() -> None:
    key, other = OwnedKey(), OwnedKey()
    raw = RawSignature(*key.sign(DIGEST))
    require_signed(DIGEST, raw, KeyIdentity(key.address))
    with pytest.raises(AnswerRejected):
        require_signed(DIGEST, raw, KeyIdentity(other.address))


@pytest.mark.parametrize(("r", "s"), [(0, 1), (1, 0), (ORDER, 1), (1, ORDER), (2**256, 1), (5, 5)])
def test_a_signature_that_cannot_be_is_rejected(r: int, s: int) -> None:
    with pytest.raises(AnswerRejected):
        require_signed(DIGEST, RawSignature(r, s), KeyIdentity(OwnedKey().address))


def test_a_signature_over_another_digest_is_rejected() -> None:
    key = OwnedKey()
    with pytest.raises(AnswerRejected):
        require_signed(bytes(32), RawSignature(*key.sign(DIGEST)), identity_of_public_key(key.der))


def test_der_is_read_back() -> None:
    components = OwnedKey().sign(DIGEST)
    assert signature_of_der(der_signature(components)) == components
    with pytest.raises(AnswerRejected):
        signature_of_der(b"\x00")


def test_crc32c_has_the_value_of_its_standard() -> None:
    """The check value of the algorithm, and a vector of RFC 3720."""
    assert (crc32c(b"123456789"), crc32c(bytes(32))) == (0xE3069283, 0x8A9136AA)
