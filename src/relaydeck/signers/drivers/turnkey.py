"""`turnkey`: keys in Turnkey's enclaves. Each request carries a stamp: a P-256 signature over its body."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
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
from relaydeck.signers.drivers import driver_errors as errors
from relaydeck.signers.drivers.curve import identity_of_hex
from relaydeck.signers.drivers.http_client import HttpDriver
from relaydeck.signers.drivers.interface import HttpAnswer, KeyIdentity, RawSignature, failing_as
from relaydeck.signers.signer_types import Config, KeyServiceConfig

_NOT_FOUND = errors.KeyNotFound("Turnkey has no such key in this organization")
_UNKNOWN = errors.AccessDenied("Turnkey does not accept this API key in this organization")


class TurnkeyDriver(HttpDriver):
    config_type: ClassVar[type[Config]] = KeyServiceConfig
    system, default_endpoint = "Turnkey", "https://api.turnkey.com"
    refusals: ClassVar[Mapping[int | str, errors.DriverError]] = {
        5: _NOT_FOUND,  # the gRPC status that an error's body repeats
        400: _UNKNOWN,
        401: _UNKNOWN,
        403: errors.AccessDenied("Turnkey knows this API key, but no policy lets its user use the key"),
        404: _NOT_FOUND,
    }

    async def identify(self, config: KeyServiceConfig) -> KeyIdentity:
        body = {"organizationId": config.organization_id, "privateKeyId": config.private_key_id}
        key = await self._post(config, "query/get_private_key", body)
        if key.get("privateKey.curve", str) != "CURVE_SECP256K1":
            raise errors.WrongKeyKind("the key is not on the curve secp256k1")
        with failing_as(errors.AnswerRejected("Turnkey's public key cannot be read")):
            found = identity_of_hex(key.get("privateKey.publicKey", str))
        with failing_as(errors.ConfigUnusable("config.public_key is not a secp256k1 public key in hexadecimal")):
            given = identity_of_hex(config.public_key)
        if found != given:
            raise errors.AnswerRejected("the public key of the key in Turnkey is not config.public_key")
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
        return _signature(await self._post(config, "submit/sign_raw_payload", body))

    async def _post(self, config: KeyServiceConfig, operation: str, body: dict[str, Any]) -> HttpAnswer:
        content = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", "X-Stamp": _stamp(config, content)}
        answer = await self._client.send("POST", f"{self._endpoint}/public/v1/{operation}", headers, content)
        if answer.status != 200:
            raise self._refusal(answer, answer.find("code", 0))
        return answer


def _stamp(config: KeyServiceConfig, content: bytes) -> str:
    key = _api_key(config.api_private_key)
    public = key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint).hex()
    if public != config.api_public_key.removeprefix("0x").lower():
        raise errors.ConfigUnusable("config.api_private_key is not the private key of config.api_public_key")
    signature = key.sign(content, ECDSA(SHA256())).hex()
    stamp = {"publicKey": public, "scheme": "SIGNATURE_SCHEME_TK_API_P256", "signature": signature}
    return urlsafe_b64encode(msgspec.json.encode(stamp)).rstrip(b"=").decode()


def _api_key(secret: Secret) -> EllipticCurvePrivateKey:
    with failing_as(errors.ConfigUnusable("config.api_private_key is not a P-256 private key in hexadecimal")):
        return derive_private_key(int.from_bytes(bytes.fromhex(secret.reveal().removeprefix("0x"))), SECP256R1())


def _signature(answer: HttpAnswer) -> RawSignature:
    status = answer.get("activity.status", str)
    if status == "ACTIVITY_STATUS_CONSENSUS_NEEDED":
        raise errors.AccessDenied("Turnkey's policy requires the approval of others before this key signs")
    if status in ("ACTIVITY_STATUS_REJECTED", "ACTIVITY_STATUS_FAILED"):
        raise errors.AccessDenied("Turnkey's policy refuses to sign with this key")
    r, s = (answer.find(f"activity.result.signRawPayloadResult.{each}", "") for each in "rs")
    if status != "ACTIVITY_STATUS_COMPLETED" or not (r and s):
        raise errors.AnswerRejected("Turnkey's answer holds no signature")
    with failing_as(errors.AnswerRejected("Turnkey's signature is not in hexadecimal")):
        return RawSignature(int(r.removeprefix("0x"), 16), int(s.removeprefix("0x"), 16))
