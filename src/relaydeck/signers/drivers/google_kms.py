"""`google-kms`: Cloud KMS keys of the algorithm EC_SIGN_SECP256K1_SHA256, over its REST interface.

The signer's `service_account` is the service account's key file as Google issues it. Its `key` names a key version:
either `{"name": "projects/…/cryptoKeyVersions/1"}`, the resource name that Cloud KMS itself uses, or the parts of that
name: `project_id`, `location_id`, `key_ring_id`, `key_id`, `version_id`.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote, urlencode

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from relaydeck.secret import Secret
from relaydeck.signers.drivers import driver_errors as errors
from relaydeck.signers.drivers.curve import Algorithm, identity_of_public_key, read_private_key, signature_of_der
from relaydeck.signers.drivers.http_client import AccessToken, HttpDriver, make_jwt
from relaydeck.signers.drivers.interface import DriverContext, HttpAnswer, KeyIdentity, RawSignature, failing_as
from relaydeck.signers.signer_types import Config, SecondKmsConfig
from relaydeck.web_addresses import key_system_address_problem

ALGORITHM = "EC_SIGN_SECP256K1_SHA256"
_SCOPE = "https://www.googleapis.com/auth/cloudkms"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_SECONDS = 600
_PURPOSE = b"relaydeck master key"  # bound to what is wrapped
_POLYNOMIAL = 0x82F63B78  # of CRC-32C, reversed
_NAME = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+/cryptoKeyVersions/[^/]+")
_LOGIN_REFUSALS = {
    "account not found": "Google does not know the service account: its client_email is wrong, or it was deleted",
    "Invalid JWT Signature": "the private_key is not, or no longer, a key of the service account",
    "reasonable timeframe": "Google does not accept the time of the request: this machine's clock is wrong",
    "": "Google refuses the service account's key",
}


class _ServiceAccount(msgspec.Struct, frozen=True):
    client_email: str
    private_key: str
    token_uri: str
    private_key_id: str = ""

    def __repr__(self) -> str:
        return "_ServiceAccount(…)"


class _Parts(msgspec.Struct, forbid_unknown_fields=True):
    project_id: str
    location_id: str
    key_ring_id: str
    key_id: str
    version_id: str | int

    @property
    def name(self) -> str:
        ring = f"projects/{self.project_id}/locations/{self.location_id}/keyRings/{self.key_ring_id}"
        return f"{ring}/cryptoKeys/{self.key_id}/cryptoKeyVersions/{self.version_id}"


class _Named(msgspec.Struct):
    name: str


class GoogleKmsDriver(HttpDriver):
    config_type: ClassVar[type[Config]] = SecondKmsConfig
    wrapping_config: ClassVar[type[Config]] = SecondKmsConfig
    system, default_endpoint = "Cloud KMS", "https://cloudkms.googleapis.com"
    refusals: ClassVar[Mapping[int | str, errors.DriverError]] = {
        401: errors.AccessDenied(
            "Cloud KMS does not accept the access token that Google issued for the service account"
        ),
        403: errors.AccessDenied(
            "Cloud KMS knows the service account, but it lacks the permission to use this key: grant it"
            " roles/cloudkms.signerVerifier, or for the master key roles/cloudkms.cryptoKeyEncrypterDecrypter"
        ),
        404: errors.KeyNotFound("Cloud KMS has no such key or key version"),
        "FAILED_PRECONDITION": errors.AccessDenied("the key version is not enabled in Cloud KMS"),
        "INVALID_ARGUMENT": errors.WrongKeyKind(
            "Cloud KMS refuses to use this key for this: it is of another kind, or another key wrapped the master key"
        ),
    }

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self._token_client = context.guarded_client

    async def identify(self, config: SecondKmsConfig) -> KeyIdentity:
        key = await self._send(config, "GET", f"{_key_name(config)}/publicKey")
        if key.get("algorithm", str) != ALGORITHM:
            raise errors.WrongKeyKind(f"the key's algorithm is not {ALGORITHM}")
        pem = key.get("pem", str).encode()
        _require_checksum(pem, key, "pemCrc32c")
        return identity_of_public_key(pem)

    async def sign_digest(self, config: SecondKmsConfig, digest: bytes) -> RawSignature:
        # The field is named for the key's algorithm. Cloud KMS signs the 32 bytes in it as they are.
        body = {"digest": {"sha256": b64encode(digest).decode()}, "digestCrc32c": str(crc32c(digest))}
        name = _key_name(config)
        signed = await self._send(config, "POST", f"{name}:asymmetricSign", msgspec.json.encode(body))
        if not signed.find("verifiedDigestCrc32c", False) or signed.get("name", str) != name:
            raise errors.AnswerRejected("Cloud KMS does not confirm that it signed this digest with this key")
        der = self._from_base64(signed.get("signature", str), "signature")
        _require_checksum(der, signed, "signatureCrc32c")
        return signature_of_der(der)

    async def wrap_key(self, config: SecondKmsConfig, key: bytes) -> str:
        answer = await self._use(config, "encrypt", "plaintext", key)
        if not answer.find("verifiedPlaintextCrc32c", False):
            raise errors.AnswerRejected("Cloud KMS does not confirm that it wrapped this key")
        wrapped = answer.get("ciphertext", str)
        _require_checksum(self._from_base64(wrapped, "ciphertext"), answer, "ciphertextCrc32c")
        return wrapped

    async def unwrap_key(self, config: SecondKmsConfig, wrapped: str) -> bytes:
        answer = await self._use(config, "decrypt", "ciphertext", self._from_base64(wrapped, "wrapped key"))
        key = self._from_base64(answer.get("plaintext", str), "plaintext")
        _require_checksum(key, answer, "plaintextCrc32c")
        return key

    async def _use(self, config: SecondKmsConfig, operation: str, name: str, content: bytes) -> HttpAnswer:
        with failing_as(errors.ConfigUnusable("key does not name a key of Cloud KMS: projects/…/cryptoKeys/…")):
            key = msgspec.json.decode(config.key, type=str)
            if not _NAME.fullmatch(f"{key}/cryptoKeyVersions/1") or "/../" in key or "/./" in key:
                raise ValueError
        body = {name: b64encode(content).decode(), f"{name}Crc32c": str(crc32c(content))}
        bound = {"additionalAuthenticatedData": b64encode(_PURPOSE).decode()}
        return await self._send(config, "POST", f"{key}:{operation}", msgspec.json.encode(body | bound))

    async def _send(self, config: SecondKmsConfig, method: str, path: str, body: bytes | None = None) -> HttpAnswer:
        account, url = _service_account(config), f"{self._endpoint}/v1/{quote(path, safe='/:')}"

        async def send(token: Secret) -> HttpAnswer:
            headers = {"Authorization": f"Bearer {token.reveal()}", "Content-Type": "application/json"}
            return await self._client.send(method, url, headers, body)

        answer = await self._tokens.send(account, lambda _: self._log_in(account), send, revoked=401)
        if answer.status != 200:
            raise self._refusal(answer, answer.find("error.status", ""))
        return answer

    async def _log_in(self, account: _ServiceAccount) -> AccessToken:
        now = int(self._clock())
        claims = {"iss": account.client_email, "scope": _SCOPE, "aud": account.token_uri, "iat": now}
        key_id = {"kid": account.private_key_id} if account.private_key_id else {}
        assertion = make_jwt(_rsa_key(account), claims | {"exp": now + _ASSERTION_SECONDS}, **key_id)
        form = urlencode({"grant_type": _GRANT, "assertion": assertion}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await self._token_client.send("POST", account.token_uri, headers, form)
        if answer.status != 200:
            raise _login_refusal(answer)
        return self._tokens.issued(answer.get("access_token", str), answer.get("expires_in", int))


def _login_refusal(answer: HttpAnswer) -> Exception:
    said = answer.find("error_description", "")
    return errors.AccessDenied(next(reason for words, reason in _LOGIN_REFUSALS.items() if words in said))


def _key_name(config: SecondKmsConfig) -> str:
    with failing_as(errors.ConfigUnusable("config.key names no key version of Cloud KMS")):
        try:
            name = msgspec.json.decode(config.key, type=_Named).name
        except msgspec.MsgspecError:
            name = msgspec.json.decode(config.key, type=_Parts).name
        if not _NAME.fullmatch(name) or "/../" in name or "/./" in name:
            raise ValueError
    return name


def _service_account(config: SecondKmsConfig) -> _ServiceAccount:
    with failing_as(errors.ConfigUnusable("config.service_account lacks client_email, private_key or token_uri")):
        account = msgspec.json.decode(config.service_account, type=_ServiceAccount)
    if problem := key_system_address_problem(account.token_uri):
        raise errors.ConfigUnusable(f"config.service_account.token_uri {problem}: nothing was sent there")
    return account


def _rsa_key(account: _ServiceAccount) -> RSAPrivateKey:
    with failing_as(errors.ConfigUnusable("config.service_account.private_key is not an RSA key in PEM")):
        key = read_private_key(account.private_key.encode(), Algorithm.RSA)
        if isinstance(key, RSAPrivateKey):
            return key
        raise TypeError


def _require_checksum(content: bytes, answer: HttpAnswer, name: str) -> None:
    """If Cloud KMS sends one: a number, which its JSON has as a text."""
    checksum = answer.get(name, object)
    if checksum is not None and str(checksum) != str(crc32c(content)):
        raise errors.AnswerRejected("the checksum of Cloud KMS's answer does not hold")


def crc32c(content: bytes) -> int:
    remainder = 0xFFFF_FFFF
    for byte in content:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (_POLYNOMIAL if remainder & 1 else 0)
    return remainder ^ 0xFFFF_FFFF
