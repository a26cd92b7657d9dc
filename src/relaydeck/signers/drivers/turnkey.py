"""`turnkey`: keys in Turnkey's enclaves. Each request carries a stamp: a P-256 signature over its body."""

from typing import Any, ClassVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    derive_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from relaydeck.secret import Secret
from relaydeck.signers.drivers.curve import identity_of_hex
from relaydeck.signers.drivers.driver_errors import (
    AccessDenied,
    AnswerRejected,
    ConfigUnusable,
    KeyNotFound,
    WrongKeyKind,
)
from relaydeck.signers.drivers.interface import DriverContext, HttpAnswer, KeyIdentity, RawSignature
from relaydeck.signers.drivers.json_web_token import base64url
from relaydeck.signers.signer_types import Config, KeyServiceConfig

_ENDPOINT = "https://api.turnkey.com"
_NOT_FOUND = 5  # the gRPC status that an error's body repeats


class _Key(msgspec.Struct, rename="camel"):
    public_key: str
    curve: str


class _KeyAnswer(msgspec.Struct, rename="camel"):
    private_key: _Key


class _Components(msgspec.Struct):
    r: str
    s: str


class _Result(msgspec.Struct, rename="camel"):
    sign_raw_payload_result: _Components | None = None


class _Activity(msgspec.Struct):
    status: str
    result: _Result | None = None


class _ActivityAnswer(msgspec.Struct):
    activity: _Activity


class _Problem(msgspec.Struct):
    code: int = 0


class TurnkeyDriver:
    config_type: ClassVar[type[Config]] = KeyServiceConfig

    def __init__(self, context: DriverContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._endpoint = (context.endpoint or _ENDPOINT).rstrip("/")

    async def identify(self, config: KeyServiceConfig) -> KeyIdentity:
        body = {"organizationId": config.organization_id, "privateKeyId": config.private_key_id}
        key = (await self._post(config, "query/get_private_key", body)).decode(_KeyAnswer).private_key
        if key.curve != "CURVE_SECP256K1":
            raise WrongKeyKind("the key is not on the curve secp256k1")
        try:
            found = identity_of_hex(key.public_key)
        except ValueError:
            raise AnswerRejected("Turnkey's public key cannot be read") from None
        if found != _given_identity(config):
            raise AnswerRejected("the public key of the key in Turnkey is not config.public_key")
        return found

    async def sign_digest(self, config: KeyServiceConfig, digest: bytes) -> RawSignature:
        body = {
            "type": "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2",
            "timestampMs": str(int(self._clock() * 1000)),
            "organizationId": config.organization_id,
            "parameters": {
                "signWith": config.private_key_id,
                "payload": digest.hex(),
                "encoding": "PAYLOAD_ENCODING_HEXADECIMAL",
                "hashFunction": "HASH_FUNCTION_NO_OP",
            },
        }
        answer = await self._post(config, "submit/sign_raw_payload", body)
        return _signature(answer.decode(_ActivityAnswer).activity)

    async def close(self) -> None:
        return None

    async def _post(self, config: KeyServiceConfig, operation: str, body: dict[str, Any]) -> HttpAnswer:
        content = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", "X-Stamp": _stamp(config, content)}
        answer = await self._client.send("POST", f"{self._endpoint}/public/v1/{operation}", headers, content)
        if answer.status != 200:
            raise _refusal(answer)
        return answer


def _stamp(config: KeyServiceConfig, content: bytes) -> str:
    key = _api_key(config.api_private_key)
    public = key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint).hex()
    if public != config.api_public_key.removeprefix("0x").lower():
        raise ConfigUnusable("config.api_private_key is not the private key of config.api_public_key")
    signature = key.sign(content, ECDSA(SHA256())).hex()
    stamp = {"publicKey": public, "scheme": "SIGNATURE_SCHEME_TK_API_P256", "signature": signature}
    return base64url(msgspec.json.encode(stamp))


def _api_key(secret: Secret) -> EllipticCurvePrivateKey:
    try:
        return derive_private_key(int.from_bytes(bytes.fromhex(secret.reveal().removeprefix("0x"))), SECP256R1())
    except ValueError:
        raise ConfigUnusable("config.api_private_key is not a P-256 private key in hexadecimal") from None


def _given_identity(config: KeyServiceConfig) -> KeyIdentity:
    try:
        return identity_of_hex(config.public_key)
    except ValueError:
        raise ConfigUnusable("config.public_key is not a secp256k1 public key in hexadecimal") from None


def _signature(activity: _Activity) -> RawSignature:
    if activity.status == "ACTIVITY_STATUS_CONSENSUS_NEEDED":
        raise AccessDenied("Turnkey's policy requires the approval of others before this key signs")
    if activity.status in ("ACTIVITY_STATUS_REJECTED", "ACTIVITY_STATUS_FAILED"):
        raise AccessDenied("Turnkey's policy refuses to sign with this key")
    components = activity.result.sign_raw_payload_result if activity.result else None
    if activity.status != "ACTIVITY_STATUS_COMPLETED" or components is None:
        raise AnswerRejected("Turnkey's answer holds no signature")
    try:
        return RawSignature(int(components.r.removeprefix("0x"), 16), int(components.s.removeprefix("0x"), 16))
    except ValueError:
        raise AnswerRejected("Turnkey's signature is not in hexadecimal") from None


def _refusal(answer: HttpAnswer) -> Exception:
    problem = answer.error(_Problem)
    if answer.status == 404 or (problem is not None and problem.code == _NOT_FOUND):
        return KeyNotFound("Turnkey has no such key in this organization")
    if answer.status == 403:
        return AccessDenied("Turnkey knows this API key, but no policy lets its user use the key")
    if answer.status in (400, 401):
        return AccessDenied("Turnkey does not accept this API key in this organization")
    return AnswerRejected(f"Turnkey answered HTTP {answer.status}")
