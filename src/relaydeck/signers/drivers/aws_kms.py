"""`aws-kms`: AWS KMS keys of the spec ECC_SECG_P256K1.

botocore finds the credentials (environment, profile, web identity, container, instance: the platform's usual chain)
and signs the requests. It blocks, so it runs on threads. Relaydeck itself sends the requests to KMS, so the address
guard, the private CA and the deadline hold for them; botocore sends those that obtain credentials.
"""

import logging
from base64 import b64encode
from collections.abc import Mapping
from threading import Lock
from typing import Any, ClassVar

import msgspec
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import (
    BotoCoreError,
    ConfigParseError,
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
    ProfileNotFound,
)
from botocore.session import Session

from relaydeck.process.background import SideThreads
from relaydeck.signers.drivers import driver_errors as errors
from relaydeck.signers.drivers.curve import identity_of_public_key, signature_of_der
from relaydeck.signers.drivers.http_client import HttpDriver
from relaydeck.signers.drivers.interface import DriverContext, HttpAnswer, KeyIdentity, RawSignature
from relaydeck.signers.signer_types import Config, KmsConfig

KEY_SPEC = "ECC_SECG_P256K1"
_THREADS = 4
_CONTEXT = {"purpose": "relaydeck master key"}  # bound to what is wrapped, and in the trail of AWS
_UNKNOWN_KEY = errors.AccessDenied(
    "AWS does not know the access key: it was deleted or deactivated, or is of another partition"
)
_WRONG_SECRET = errors.AccessDenied(
    "AWS does not accept the signature: the secret access key is not that of the access key, or this machine's clock is"
    " wrong"
)
_NO_PERMISSION = errors.AccessDenied(
    "AWS knows these credentials, but no policy allows them what they need of this key: kms:GetPublicKey and kms:Sign"
    " for a signer, kms:Encrypt and kms:Decrypt for the master key"
)
_EXPIRED = errors.AccessDenied("the AWS session token has expired: its source must renew it")
_THROTTLED = errors.Throttled("AWS KMS refuses more requests for now")
_NO_REASON = errors.AccessDenied("AWS KMS refuses these credentials, and does not say why")
_NO_KEY_ID = errors.ConfigUnusable("config.key_id is not a key id, key ARN, alias name or alias ARN")
_OTHER_KEY = errors.AnswerRejected("AWS KMS did not wrap this with this key, or it was changed since")
_REFUSALS: dict[int | str, errors.DriverError] = {
    "AccessDeniedException": _NO_PERMISSION,
    "DisabledException": errors.AccessDenied("the key is disabled in AWS KMS"),
    "ExpiredTokenException": _EXPIRED,
    "IncompleteSignature": _WRONG_SECRET,
    "IncorrectKeyException": _OTHER_KEY,
    "InvalidArnException": _NO_KEY_ID,
    "InvalidCiphertextException": _OTHER_KEY,
    "InvalidClientTokenId": _UNKNOWN_KEY,
    "InvalidKeyUsageException": errors.WrongKeyKind(
        "the key's usage in AWS KMS is not SIGN_VERIFY, or ENCRYPT_DECRYPT for the master key"
    ),
    "InvalidSignatureException": _WRONG_SECRET,
    "KMSInvalidStateException": errors.AccessDenied("the key is not enabled in AWS KMS"),
    "KeyUnavailableException": errors.KeySystemUnreachable("the key is unavailable in AWS KMS for now"),
    "LimitExceededException": _THROTTLED,
    "NotAuthorized": _NO_PERMISSION,
    "NotFoundException": errors.KeyNotFound("AWS KMS has no such key in this region"),
    "OptInRequired": errors.AccessDenied("the AWS account has not enabled this region or service"),
    "SignatureDoesNotMatch": _WRONG_SECRET,
    "ThrottlingException": _THROTTLED,
    "UnrecognizedClientException": _UNKNOWN_KEY,
    "UnsupportedOperationException": errors.WrongKeyKind("the key is not an asymmetric key in AWS KMS"),
    "ValidationException": _NO_KEY_ID,
    401: _NO_REASON,
    403: _NO_REASON,
    "MissingAuthenticationToken": _NO_REASON,
    "MissingAuthenticationTokenException": _NO_REASON,
}


class AwsKmsDriver(HttpDriver):
    config_type: ClassVar[type[Config]] = KmsConfig
    wrapping_config: ClassVar[type[Config]] = KmsConfig
    system, refusals = "AWS KMS", _REFUSALS

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self._threads = SideThreads(_THREADS, "aws-credentials")
        self._session: Session | None = None  # made on a thread: it takes tens of milliseconds
        self._lock = Lock()  # the session finds credentials once; what it found can be used by many threads
        self._urls: dict[str, str] = {}

    async def identify(self, config: KmsConfig) -> KeyIdentity:
        key = await self._call(config, "GetPublicKey", {"KeyId": config.key_id})
        # The field's older name is the only one that local stand-ins of KMS use.
        spec = key.find("KeySpec", "") or key.find("CustomerMasterKeySpec", "")
        if key.get("KeyUsage", str) != "SIGN_VERIFY" or spec != KEY_SPEC:
            raise errors.WrongKeyKind(f"the key is not a signing key of the spec {KEY_SPEC}")
        return identity_of_public_key(self._from_base64(key.get("PublicKey", str), "answer"))

    async def sign_digest(self, config: KmsConfig, digest: bytes) -> RawSignature:
        body = {
            "KeyId": config.key_id,
            "Message": b64encode(digest).decode(),
            "MessageType": "DIGEST",
            "SigningAlgorithm": "ECDSA_SHA_256",
        }
        answer = await self._call(config, "Sign", body)
        return signature_of_der(self._from_base64(answer.get("Signature", str), "answer"))

    async def wrap_key(self, config: KmsConfig, key: bytes) -> str:
        body = {"KeyId": config.key_id, "Plaintext": b64encode(key).decode(), "EncryptionContext": _CONTEXT}
        return (await self._call(config, "Encrypt", body)).get("CiphertextBlob", str)

    async def unwrap_key(self, config: KmsConfig, wrapped: str) -> bytes:
        body = {"KeyId": config.key_id, "CiphertextBlob": wrapped, "EncryptionContext": _CONTEXT}
        return self._from_base64((await self._call(config, "Decrypt", body)).get("Plaintext", str), "answer")

    async def close(self) -> None:
        self._threads.end()

    async def _call(self, config: KmsConfig, operation: str, body: Mapping[str, Any]) -> HttpAnswer:
        content = msgspec.json.encode(body)
        url, headers = await self._threads.run(lambda: self._signed(config.region, operation, content))
        answer = await self._client.send("POST", url, headers, content)
        if answer.status != 200:
            error = self._refusal(answer, answer.find("__type", "").rpartition("#")[2])
            if isinstance(error, errors.AccessDenied):
                self._session = None  # credentials that were replaced at their source are found by a new one
            raise error
        return answer

    def _signed(self, region: str, operation: str, content: bytes) -> tuple[str, dict[str, str]]:
        """On a thread: finding or refreshing credentials may ask a server."""
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"TrentService.{operation}"}
        request: Any = AWSRequest("POST", self._url(region), headers, content)
        SigV4Auth(self._credentials(), "kms", region).add_auth(request)
        return request.url, dict(request.headers.items())

    def _credentials(self) -> Any:
        try:
            with self._lock:
                credentials = self._own_session().get_credentials()
            found = None if credentials is None else credentials.get_frozen_credentials()
        except (CredentialRetrievalError, HTTPClientError, MetadataRetrievalError):
            raise errors.KeySystemUnreachable("the source of the AWS credentials does not answer") from None
        except BotoCoreError as error:
            raise errors.AccessDenied(f"the AWS credential chain failed ({type(error).__name__})") from None
        if found is None:
            raise errors.AccessDenied("the AWS credential chain finds no credentials in this environment")
        return found

    def _url(self, region: str) -> str:
        if self._endpoint:
            return f"{self._endpoint}/"
        if region not in self._urls:
            self._urls[region] = self._regional_url(region)
        return self._urls[region]

    def _regional_url(self, region: str) -> str:
        unused = {"aws_access_key_id": "unused", "aws_secret_access_key": "unused"}  # or it would look for credentials
        try:
            with self._lock:
                client = self._own_session().create_client("kms", region_name=region, **unused)
        except (ProfileNotFound, ConfigParseError):
            raise errors.AccessDenied(
                "the profile or configuration file of AWS in the environment cannot be used"
            ) from None
        except (BotoCoreError, ValueError):
            raise errors.ConfigUnusable("config.region is not an AWS region") from None
        return f"{client.meta.endpoint_url}/"

    def _own_session(self) -> Session:
        """With the lock."""
        session = self._session
        if session is None:  # not written back otherwise: it may be forgotten at this moment
            session = self._session = _new_session()
        return session


def _new_session() -> Session:
    logging.getLogger("botocore.auth").setLevel(logging.WARNING)  # below that it logs session tokens
    return Session()
