"""`google-kms`: Cloud KMS keys of the algorithm EC_SIGN_SECP256K1_SHA256, over its REST interface.

The signer's `service_account` is the service account's key file as Google issues it. Its `key` names a key version:
either `{"name": "projects/…/cryptoKeyVersions/1"}`, the resource name that Cloud KMS itself uses, or the parts of that
name: `project_id`, `location_id`, `key_ring_id`, `key_id`, `version_id`.
"""

import re
from base64 import b64decode, b64encode
from typing import ClassVar, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from relaydeck.signers.drivers.access_tokens import AccessToken, AccessTokens
from relaydeck.signers.drivers.crc32c import crc32c
from relaydeck.signers.drivers.curve import identity_of_pem, signature_of_der
from relaydeck.signers.drivers.driver_errors import (
    AccessDenied,
    AnswerRejected,
    ConfigUnusable,
    KeyNotFound,
    WrongKeyKind,
)
from relaydeck.signers.drivers.interface import DriverContext, HttpAnswer, KeyIdentity, RawSignature
from relaydeck.signers.drivers.json_web_token import make_jwt
from relaydeck.signers.signer_types import Config, SecondKmsConfig
from relaydeck.web_addresses import key_system_address_problem

ALGORITHM = "EC_SIGN_SECP256K1_SHA256"
_ENDPOINT = "https://cloudkms.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/cloudkms"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_SECONDS = 600
_NAME = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+/cryptoKeyVersions/[^/]+")
T = TypeVar("T")


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


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float

    def __repr__(self) -> str:
        return "_Token(…)"


class _PublicKey(msgspec.Struct):
    pem: str
    algorithm: str
    pem_checksum: str | int | None = msgspec.field(name="pemCrc32c", default=None)


class _Signed(msgspec.Struct):
    signature: str
    name: str
    verified_digest: bool = msgspec.field(name="verifiedDigestCrc32c", default=False)
    checksum: str | int | None = msgspec.field(name="signatureCrc32c", default=None)


class _LoginProblem(msgspec.Struct):
    error_description: str = ""


class _Problem(msgspec.Struct):
    status: str = ""


class _ErrorBody(msgspec.Struct):
    error: _Problem


class GoogleKmsDriver:
    config_type: ClassVar[type[Config]] = SecondKmsConfig

    def __init__(self, context: DriverContext) -> None:
        self._client = context.client
        self._token_client = context.guarded_client
        self._clock = context.clock
        self._endpoint = (context.endpoint or _ENDPOINT).rstrip("/")
        self._tokens = AccessTokens(context.clock)

    async def identify(self, config: SecondKmsConfig) -> KeyIdentity:
        answer = await self._send(config, "GET", f"{_key_name(config)}/publicKey")
        key = answer.decode(_PublicKey)
        if key.algorithm != ALGORITHM:
            raise WrongKeyKind(f"the key's algorithm is not {ALGORITHM}")
        _require_checksum(key.pem.encode(), key.pem_checksum)
        return identity_of_pem(key.pem)

    async def sign_digest(self, config: SecondKmsConfig, digest: bytes) -> RawSignature:
        # The field is named for the key's algorithm. Cloud KMS signs the 32 bytes in it as they are.
        body = {"digest": {"sha256": b64encode(digest).decode()}, "digestCrc32c": str(crc32c(digest))}
        name = _key_name(config)
        signed = (await self._send(config, "POST", f"{name}:asymmetricSign", msgspec.json.encode(body))).decode(_Signed)
        if not signed.verified_digest or signed.name != name:
            raise AnswerRejected("Cloud KMS does not confirm that it signed this digest with this key")
        der = _from_base64(signed.signature)
        _require_checksum(der, signed.checksum)
        return signature_of_der(der)

    async def close(self) -> None:
        self._tokens.clear()

    async def _send(self, config: SecondKmsConfig, method: str, path: str, body: bytes | None = None) -> HttpAnswer:
        account = _service_account(config)
        answer = await self._send_once(account, method, path, body)
        if answer.status == 401:  # the token was revoked: it is dropped, and one more is obtained
            answer = await self._send_once(account, method, path, body)
        if answer.status != 200:
            raise _refusal(answer)
        return answer

    async def _send_once(self, account: _ServiceAccount, method: str, path: str, body: bytes | None) -> HttpAnswer:
        token = await self._tokens.get(account, lambda _: self._log_in(account))
        headers = {"Authorization": f"Bearer {token.value.reveal()}", "Content-Type": "application/json"}
        url = f"{self._endpoint}/v1/{quote(path, safe='/:')}"
        answer = await self._client.send(method, url, headers, body)
        if answer.status in (401, 403):
            self._tokens.drop(account, token)
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
        token = answer.decode(_Token)
        return self._tokens.issued(token.access_token, token.expires_in)


def _login_refusal(answer: HttpAnswer) -> Exception:
    problem = answer.error(_LoginProblem) or _LoginProblem()
    if "account not found" in problem.error_description:
        return AccessDenied("Google does not know the service account: its client_email is wrong, or it was deleted")
    if "Invalid JWT Signature" in problem.error_description:
        return AccessDenied("the private_key is not, or no longer, a key of the service account")
    if "reasonable timeframe" in problem.error_description:
        return AccessDenied("Google does not accept the time of the request: this machine's clock is wrong")
    return AccessDenied("Google refuses the service account's key")


def _refusal(answer: HttpAnswer) -> Exception:
    error = answer.error(_ErrorBody)
    status = error.error.status if error else ""
    if answer.status == 401:
        return AccessDenied("Cloud KMS does not accept the access token that Google issued for the service account")
    if answer.status == 403:
        return AccessDenied(
            "Cloud KMS knows the service account, but it lacks the permission to use this key: grant it"
            " roles/cloudkms.signerVerifier"
        )
    if answer.status == 404:
        return KeyNotFound("Cloud KMS has no such key version")
    if status == "FAILED_PRECONDITION":
        return AccessDenied("the key version is not enabled in Cloud KMS")
    if status == "INVALID_ARGUMENT":
        return WrongKeyKind("Cloud KMS refuses to use this key to sign a digest")
    return AnswerRejected(f"Cloud KMS answered HTTP {answer.status}")


def _key_name(config: SecondKmsConfig) -> str:
    named: _Named | _Parts
    try:
        named = msgspec.json.decode(config.key, type=_Named)
    except msgspec.MsgspecError:
        named = _read_object(config.key, _Parts, "config.key names no key version of Cloud KMS")
    if not _NAME.fullmatch(named.name) or "/../" in named.name or "/./" in named.name:
        raise ConfigUnusable("config.key names no key version of Cloud KMS")
    return named.name


def _service_account(config: SecondKmsConfig) -> _ServiceAccount:
    problem = "config.service_account lacks client_email, private_key or token_uri"
    account = _read_object(config.service_account, _ServiceAccount, problem)
    if problem := key_system_address_problem(account.token_uri):
        raise ConfigUnusable(f"config.service_account.token_uri {problem}: nothing was sent there")
    return account


def _read_object(raw: msgspec.Raw, shape: type[T], problem: str) -> T:
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.MsgspecError:
        raise ConfigUnusable(problem) from None


def _rsa_key(account: _ServiceAccount) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(account.private_key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise ConfigUnusable("config.service_account.private_key is not an RSA key in PEM")
    return key


def _require_checksum(content: bytes, checksum: str | int | None) -> None:
    if checksum is not None and str(checksum) != str(crc32c(content)):
        raise AnswerRejected("the checksum of Cloud KMS's answer does not hold")


def _from_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise AnswerRejected("Cloud KMS's signature is not in base64") from None
