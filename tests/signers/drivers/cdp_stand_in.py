"""A stand-in for the Coinbase Developer Platform. PyJWT verifies both tokens of each request."""

import json
from base64 import b64encode
from hashlib import sha256
from typing import ClassVar

import jwt
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from relaydeck.secret import Secret
from relaydeck.signers.signer_types import WalletServiceConfig
from tests.signers.drivers.system import KeySystem

API_KEY_ID = "11111111-2222-3333-4444-555555555555"
UNKNOWN = "0x" + "42" * 20


class CdpStandIn(KeySystem):
    signer_type: ClassVar[str] = "provider_e"
    driver: ClassVar[str] = "cdp"

    def __init__(self) -> None:
        super().__init__()
        self._api_key = ed25519.Ed25519PrivateKey.generate()
        self._ec_api_key = ec.generate_private_key(ec.SECP256R1())
        self._wallet_key = ec.generate_private_key(ec.SECP256R1())
        self.granted = True
        self.permitted = True

    def config(self, address: str = "", api_key_secret: str = "") -> WalletServiceConfig:
        return WalletServiceConfig(
            account_address=address or self.key.address,
            api_key_id=API_KEY_ID,
            api_key_secret=Secret(api_key_secret or self._ed25519_secret()),
            wallet_secret=Secret(self._wallet_secret()),
        )

    def unknown_key(self) -> WalletServiceConfig:
        return self.config(UNKNOWN)

    def key_of_another_kind(self) -> WalletServiceConfig:
        raise NotImplementedError("an EVM account has no other kind of key")

    def with_ec_api_key(self) -> WalletServiceConfig:
        pem = self._ec_api_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        return self.config(api_key_secret=pem.decode())

    async def revoke_access(self) -> None:
        self.granted = False

    async def restore_access(self) -> None:
        self.granted = True

    def secrets(self) -> list[str]:
        return [self._ed25519_secret(), self._wallet_secret()]

    def throttled(self) -> web.Response:
        return _problem(429, "rate_limit_exceeded")

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        if not self.granted or not self._is_authentic(request):
            return _problem(401, "unauthorized")
        if not self.permitted:
            return _problem(403, "forbidden")
        address = request.path.split("/")[5]
        if address.lower() != self.key.address.lower():
            return _problem(404, "not_found")
        if request.method == "GET":
            return web.json_response({"address": self.key.address, "policies": []})
        if not self._is_authorized_by_wallet(request, body):
            return _problem(401, "unauthorized")
        r, s = self.signed(bytes.fromhex(json.loads(body)["hash"][2:]))
        return web.json_response({"signature": f"0x{r:064x}{s:064x}1b"})

    def _is_authentic(self, request: web.BaseRequest) -> bool:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        header = jwt.get_unverified_header(token)
        key = self._api_key.public_key() if header["alg"] == "EdDSA" else self._ec_api_key.public_key()
        claims = jwt.decode(token, key, algorithms=["EdDSA", "ES256"], issuer="cdp", leeway=10**9)
        assert (header["kid"], header["typ"], claims["sub"]) == (API_KEY_ID, "JWT", API_KEY_ID)
        assert len(header["nonce"]) == 16
        assert claims["exp"] - claims["nbf"] == 120
        return bool(claims["uris"] == [f"{request.method} {self.host}{request.path}"])

    def _is_authorized_by_wallet(self, request: web.BaseRequest, body: bytes) -> bool:
        token = request.headers["X-Wallet-Auth"]
        claims = jwt.decode(
            token,
            self._wallet_key.public_key(),
            algorithms=["ES256"],
            leeway=10**9,
            options={"require": ["iat", "nbf", "jti"]},
        )
        canonical = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
        expected = ([f"POST {self.host}{request.path}"], sha256(canonical).hexdigest())
        return bool((claims["uris"], claims["reqHash"]) == expected)

    def _ed25519_secret(self) -> str:
        seed = self._api_key.private_bytes_raw()
        return b64encode(seed + self._api_key.public_key().public_bytes_raw()).decode()

    def _wallet_secret(self) -> str:
        der = self._wallet_key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return b64encode(der).decode()


def _problem(status: int, kind: str) -> web.Response:
    return web.json_response({"errorType": kind, "errorMessage": "refused", "correlationId": "1"}, status=status)
