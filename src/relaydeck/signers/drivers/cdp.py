"""`cdp`: EVM accounts of the Coinbase Developer Platform, version 2 of its interface.

Each request carries a JWT made with the API key; a request to sign carries another one made with the wallet secret,
which contains the hash of the request's body. The platform reveals no public keys, so a signature is verified against
the account's address.
"""

import secrets
from base64 import b64decode
from hashlib import sha256
from typing import ClassVar
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

from relaydeck.networks.evm.address import checksummed, is_evm_address
from relaydeck.secret import Secret
from relaydeck.signers.drivers.driver_errors import AccessDenied, AnswerRejected, ConfigUnusable, KeyNotFound
from relaydeck.signers.drivers.interface import DriverContext, HttpAnswer, KeyIdentity, RawSignature
from relaydeck.signers.drivers.json_web_token import JwtKey, make_jwt
from relaydeck.signers.signer_types import Config, WalletServiceConfig

_ENDPOINT = "https://api.cdp.coinbase.com"
_ACCOUNTS = "/platform/v2/evm/accounts/"
_JWT_SECONDS = 120


class _Account(msgspec.Struct):
    address: str


class _Signed(msgspec.Struct):
    signature: str


class CdpDriver:
    config_type: ClassVar[type[Config]] = WalletServiceConfig

    def __init__(self, context: DriverContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._endpoint = (context.endpoint or _ENDPOINT).rstrip("/")

    async def identify(self, config: WalletServiceConfig) -> KeyIdentity:
        address = _address(config)
        account = (await self._send(config, "GET", address)).decode(_Account)
        if account.address.lower() != address.lower():
            raise AnswerRejected("the platform answered with another account")
        return KeyIdentity(checksummed(address))

    async def sign_digest(self, config: WalletServiceConfig, digest: bytes) -> RawSignature:
        body = msgspec.json.encode({"hash": "0x" + digest.hex()})
        signed = (await self._send(config, "POST", f"{_address(config)}/sign", body)).decode(_Signed)
        try:
            signature = bytes.fromhex(signed.signature.removeprefix("0x"))
        except ValueError:
            signature = b""
        if len(signature) != 65:
            raise AnswerRejected("the platform's signature is not 65 bytes in hexadecimal")
        return RawSignature(int.from_bytes(signature[:32]), int.from_bytes(signature[32:64]))

    async def close(self) -> None:
        return None

    async def _send(self, config: WalletServiceConfig, method: str, path: str, body: bytes | None = None) -> HttpAnswer:
        operation = f"{method} {urlsplit(self._endpoint).netloc}{_ACCOUNTS}{path}"
        headers = {"Authorization": f"Bearer {self._bearer(config, operation)}"}
        if body is not None:
            headers |= {"Content-Type": "application/json", "X-Wallet-Auth": self._wallet(config, operation, body)}
        answer = await self._client.send(method, f"{self._endpoint}{_ACCOUNTS}{path}", headers, body)
        if answer.status != 200:
            raise _refusal(answer)
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
        raise ConfigUnusable("config.account_address is not a 20-byte hexadecimal address")
    return config.account_address


def _api_key(secret: Secret) -> JwtKey:
    """A P-256 key in PEM, or an Ed25519 key in base64: its seed, followed by its public key."""
    text = secret.reveal().replace("\\n", "\n")
    try:
        if text.startswith("-----"):
            key = load_pem_private_key(text.encode(), None)
            if isinstance(key, EllipticCurvePrivateKey | Ed25519PrivateKey):
                return key
        else:
            decoded = b64decode(text, validate=True)
            if len(decoded) == 64:
                return Ed25519PrivateKey.from_private_bytes(decoded[:32])
    except (ValueError, TypeError, UnsupportedAlgorithm):
        pass
    raise ConfigUnusable("config.api_key_secret is neither a P-256 key in PEM nor an Ed25519 key in base64")


def _wallet_key(secret: Secret) -> EllipticCurvePrivateKey:
    try:
        key = load_der_private_key(b64decode(secret.reveal(), validate=True), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ConfigUnusable("config.wallet_secret is not a P-256 key in base64")
    return key


def _refusal(answer: HttpAnswer) -> Exception:
    if answer.status == 404:
        return KeyNotFound("the platform has no such account in this project")
    if answer.status == 401:
        return AccessDenied("the platform does not accept this API key or this wallet secret")
    if answer.status == 403:
        return AccessDenied(
            "the platform knows this API key, but its permissions or the account's policy forbid the use"
        )
    if answer.status in (400, 402):
        return AccessDenied(f"the platform refuses the request of this project with HTTP {answer.status}")
    return AnswerRejected(f"the platform answered HTTP {answer.status}")
