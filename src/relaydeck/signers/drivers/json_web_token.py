"""JSON Web Tokens, made only: RS256, ES256 and EdDSA in the compact form of RFC 7515."""

from base64 import urlsafe_b64encode
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from relaydeck.signers.drivers.driver_errors import ConfigUnusable

JwtKey = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey


def make_jwt(key: JwtKey, claims: dict[str, Any], **header: str) -> str:
    head = {"alg": _algorithm(key), "typ": "JWT", **header}
    signed = f"{base64url(msgspec.json.encode(head))}.{base64url(msgspec.json.encode(claims))}"
    return f"{signed}.{base64url(_sign(key, signed.encode()))}"


def base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _algorithm(key: JwtKey) -> str:
    match key:
        case RSAPrivateKey():
            return "RS256"
        case Ed25519PrivateKey():
            return "EdDSA"
        case EllipticCurvePrivateKey(curve=SECP256R1()):
            return "ES256"
    raise ConfigUnusable("the credential's key is neither RSA, P-256 nor Ed25519")


def _sign(key: JwtKey, content: bytes) -> bytes:
    match key:
        case RSAPrivateKey():
            return key.sign(content, PKCS1v15(), SHA256())
        case Ed25519PrivateKey():
            return key.sign(content)
    r, s = decode_dss_signature(key.sign(content, ECDSA(SHA256())))
    return r.to_bytes(32) + s.to_bytes(32)
