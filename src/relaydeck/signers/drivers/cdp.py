"""`cdp`: EVM accounts of the Coinbase Developer Platform, version 2 of its interface.

Each request carries a JWT made with the API key; a request to sign carries another one made with the wallet secret,
which contains the hash of the request's body. The platform reveals no public keys, so a signature is verified against
the account's address.
"""

import secrets
from base64 import b64decode
from collections.abc import Mapping
from hashlib import sha256
from typing import ClassVar
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from relaydeck.networks.evm.address import checksummed, is_evm_address
from relaydeck.secret import Secret
from relaydeck.signers.drivers import driver_errors as errors
from relaydeck.signers.drivers.curve import Algorithm, read_private_key
from relaydeck.signers.drivers.http_client import HttpDriver, JwtKey, make_jwt
from relaydeck.signers.drivers.interface import HttpAnswer, KeyIdentity, RawSignature, failing_as
from relaydeck.signers.signer_types import Config, WalletServiceConfig

_ACCOUNTS = "/platform/v2/evm/accounts/"
_JWT_SECONDS = 120


class CdpDriver(HttpDriver):
    config_type: ClassVar[type[Config]] = WalletServiceConfig
    system, default_endpoint = "the platform", "https://api.cdp.coinbase.com"
    refusals: ClassVar[Mapping[int | str, errors.DriverError]] = {
        400: errors.AccessDenied("the platform refuses the request of this project with HTTP 400"),
        401: errors.AccessDenied("the platform does not accept this API key or this wallet secret"),
        402: errors.AccessDenied("the platform refuses the request of this project with HTTP 402"),
        403: errors.AccessDenied(
            "the platform knows this API key, but its permissions or the account's policy forbid the use"
        ),
        404: errors.KeyNotFound("the platform has no such account in this project"),
    }

    async def identify(self, config: WalletServiceConfig) -> KeyIdentity:
        address = _address(config)
        account = await self._send(config, "GET", address)
        if account.get("address", str).lower() != address.lower():
            raise errors.AnswerRejected("the platform answered with another account")
        return KeyIdentity(checksummed(address))

    async def sign_digest(self, config: WalletServiceConfig, digest: bytes) -> RawSignature:
        body = msgspec.json.encode({"hash": "0x" + digest.hex()})
        signed = await self._send(config, "POST", f"{_address(config)}/sign", body)
        with failing_as(errors.AnswerRejected("the platform's signature is not 65 bytes in hexadecimal")):
            signature = bytes.fromhex(signed.get("signature", str).removeprefix("0x"))
            if len(signature) != 65:
                raise ValueError
        return RawSignature(int.from_bytes(signature[:32]), int.from_bytes(signature[32:64]))

    async def _send(self, config: WalletServiceConfig, method: str, path: str, body: bytes | None = None) -> HttpAnswer:
        operation = f"{method} {urlsplit(self._endpoint).netloc}{_ACCOUNTS}{path}"
        headers = {"Authorization": f"Bearer {self._bearer(config, operation)}"}
        if body is not None:
            headers |= {"Content-Type": "application/json", "X-Wallet-Auth": self._wallet(config, operation, body)}
        answer = await self._client.send(method, f"{self._endpoint}{_ACCOUNTS}{path}", headers, body)
        if answer.status != 200:
            raise self._refusal(answer)
        return answer

    def _bearer(self, config: WalletServiceConfig, operation: str) -> str:
        now = int(self._clock())
        claims = {"sub": config.api_key_id, "iss": "cdp", "nbf": now, "exp": now + _JWT_SECONDS, "uris": [operation]}
        return make_jwt(_api_key(config.api_key_secret), claims, kid=config.api_key_id, nonce=secrets.token_hex(8))

    def _wallet(self, config: WalletServiceConfig, operation: str, body: bytes) -> str:
        now = int(self._clock())
        # The platform hashes the body with sorted keys and no spaces; with one key it is the body that is sent.
        claims = {"uris": [operation], "iat": now, "nbf": now, "jti": str(uuid4()), "reqHash": sha256(body).hexdigest()}
        return make_jwt(_wallet_key(config.wallet_secret), claims)


def _address(config: WalletServiceConfig) -> str:
    if not is_evm_address(config.account_address):
        raise errors.ConfigUnusable("config.account_address is not a 20-byte hexadecimal address")
    return config.account_address


def _api_key(secret: Secret) -> JwtKey:
    """A P-256 key in PEM, or an Ed25519 key in base64: its seed, followed by its public key."""
    text = secret.reveal().replace("\\n", "\n")
    problem = "config.api_key_secret is neither a P-256 key in PEM nor an Ed25519 key in base64"
    with failing_as(errors.ConfigUnusable(problem)):
        if not text.startswith("-----"):
            return _ed25519_key(b64decode(text, validate=True))
        key = read_private_key(text.encode(), Algorithm.EC, Algorithm.ED25519)
        if isinstance(key, EllipticCurvePrivateKey | Ed25519PrivateKey):
            return key
        raise TypeError


def _ed25519_key(decoded: bytes) -> Ed25519PrivateKey:
    if len(decoded) != 64:
        raise ValueError
    return Ed25519PrivateKey.from_private_bytes(decoded[:32])


def _wallet_key(secret: Secret) -> EllipticCurvePrivateKey:
    with failing_as(errors.ConfigUnusable("config.wallet_secret is not a P-256 key in base64")):
        key = read_private_key(b64decode(secret.reveal(), validate=True), Algorithm.EC)
        if isinstance(key, EllipticCurvePrivateKey):
            return key
        raise TypeError
