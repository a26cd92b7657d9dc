"""A stand-in for Google's token endpoint and Cloud KMS.

PyJWT verifies the service account's assertion, and Google's own library verifies the checksums.
"""

import json
import secrets
import time
from base64 import b64decode, b64encode
from functools import cache
from typing import Any, ClassVar
from urllib.parse import parse_qs

import google_crc32c
import jwt
import msgspec
from aiohttp import web
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relaydeck.signers.signer_types import SecondKmsConfig
from tests.signers.drivers.system import KeySystem, der_signature

RING = "projects/demo/locations/europe-west3/keyRings/relayers/cryptoKeys"
NAME = f"{RING}/one/cryptoKeyVersions/1"
WRAPPING = f"{RING}/wrapping"
OTHER_KIND = f"{RING}/p256/cryptoKeyVersions/1"
EMAIL = "relaydeck@demo.iam.gserviceaccount.com"


@cache
def _account_key() -> rsa.RSAPrivateKey:
    """One for all stand-ins: to find the primes takes a tenth of a second."""
    return rsa.generate_private_key(65537, 2048)


class GoogleKmsStandIn(KeySystem):
    signer_type: ClassVar[str] = "provider_b_kms"
    driver: ClassVar[str] = "google-kms"

    def __init__(self) -> None:
        super().__init__()
        self._account_key = _account_key()
        self._cipher = AESGCM(secrets.token_bytes(32))
        self.tokens: dict[str, float] = {}
        self.granted = True
        self.permitted = True
        self.disabled = False
        self.damaged = False
        self.sends_numbers = False
        self.lifetime = 3600

    def config(self, key: dict[str, Any] | None = None) -> SecondKmsConfig:
        pem = self._account_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        account = {
            "type": "service_account",
            "project_id": "demo",
            "private_key_id": "k1",
            "private_key": pem,
            "client_email": EMAIL,
            "client_id": "1",
            "token_uri": f"{self.url}/token",
        }
        return SecondKmsConfig(
            key=msgspec.Raw(json.dumps(key or {"name": NAME}).encode()),
            service_account=msgspec.Raw(json.dumps(account).encode()),
        )

    def unknown_key(self) -> SecondKmsConfig:
        return self.config({"name": f"{RING}/two/cryptoKeyVersions/1"})

    def key_of_another_kind(self) -> SecondKmsConfig:
        return self.config({"name": OTHER_KIND})

    async def revoke_access(self) -> None:
        self.granted = False
        self.tokens.clear()

    async def restore_access(self) -> None:
        self.granted = True

    def secrets(self) -> list[str]:
        account = json.loads(bytes(self.config().service_account))
        lines = [line for line in account["private_key"].splitlines() if not line.startswith("-")]
        return [*self.tokens, *lines]

    def throttled(self) -> web.Response:
        return _problem(429, "RESOURCE_EXHAUSTED")

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        if request.path == "/token":
            return self._issue(body)
        token = request.headers["Authorization"].removeprefix("Bearer ")
        if token not in self.tokens:
            return _problem(401, "UNAUTHENTICATED")
        if not self.permitted:
            return _problem(403, "PERMISSION_DENIED")
        key, _, operation = request.path.removeprefix("/v1/").partition(":")
        if operation in ("encrypt", "decrypt"):
            return self._wrap(operation, json.loads(body)) if key == WRAPPING else _problem(404, "NOT_FOUND")
        name = request.path.removeprefix("/v1/").removesuffix("/publicKey").removesuffix(":asymmetricSign")
        if name not in (NAME, OTHER_KIND):
            return _problem(404, "NOT_FOUND")
        if self.disabled:
            return _problem(400, "FAILED_PRECONDITION")
        return self._public_key(name) if request.method == "GET" else self._sign(name, json.loads(body))

    def _public_key(self, name: str) -> web.Response:
        algorithm = "EC_SIGN_SECP256K1_SHA256" if name == NAME else "EC_SIGN_P256_SHA256"
        pem = self.key.pem
        return web.json_response({"pem": pem, "algorithm": algorithm, "pemCrc32c": self._checksum(pem.encode())})

    def _sign(self, name: str, asked: dict[str, Any]) -> web.Response:
        digest = b64decode(asked["digest"]["sha256"])
        if asked["digestCrc32c"] != str(google_crc32c.value(digest)):
            return _problem(400, "INVALID_ARGUMENT")
        signature = der_signature(self.signed(digest))
        body = {"signature": b64encode(signature).decode(), "signatureCrc32c": self._checksum(signature)}
        return web.json_response(body | {"name": name, "verifiedDigestCrc32c": True, "protectionLevel": "HSM"})

    def _wrap(self, operation: str, asked: dict[str, str]) -> web.Response:
        given, found = ("plaintext", "ciphertext") if operation == "encrypt" else ("ciphertext", "plaintext")
        content, bound = b64decode(asked[given]), b64decode(asked["additionalAuthenticatedData"])
        if asked[f"{given}Crc32c"] != str(google_crc32c.value(content)):
            return _problem(400, "INVALID_ARGUMENT")
        try:
            work = self._cipher.encrypt if operation == "encrypt" else self._cipher.decrypt
            made = work(bytes(12), content, bound)
        except InvalidTag:
            return _problem(400, "INVALID_ARGUMENT")
        body = {found: b64encode(made).decode(), f"{found}Crc32c": self._checksum(made)}
        return web.json_response(body | {"name": WRAPPING, "verifiedPlaintextCrc32c": not self.damaged})

    def _checksum(self, content: bytes) -> str | int:
        checksum: int = google_crc32c.value(content) ^ (1 if self.damaged else 0)
        return checksum if self.sends_numbers else str(checksum)

    def _issue(self, body: bytes) -> web.Response:
        form = parse_qs(body.decode())
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        if not self.granted:
            return _login_problem(
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
            )
        try:
            claims = jwt.decode(
                form["assertion"][0],
                self._account_key.public_key(),
                algorithms=["RS256"],
                audience=f"{self.url}/token",
                issuer=EMAIL,
                options={"require": ["exp", "iat", "iss", "aud"]},
                leeway=10**9,  # the tests move the driver's clock
            )
        except jwt.InvalidIssuerError:
            return _login_problem("Invalid grant: account not found")
        except jwt.InvalidSignatureError:
            return _login_problem("Invalid JWT Signature.")
        assert claims["scope"] == "https://www.googleapis.com/auth/cloudkms"
        assert jwt.get_unverified_header(form["assertion"][0])["kid"] == "k1"
        token = "ya29." + secrets.token_urlsafe(32)
        self.tokens[token] = time.time()
        return web.json_response({"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"})


def _login_problem(description: str) -> web.Response:
    return web.json_response({"error": "invalid_grant", "error_description": description}, status=400)


def _problem(status: int, name: str) -> web.Response:
    return web.json_response({"error": {"code": status, "status": name, "message": "refused"}}, status=status)
