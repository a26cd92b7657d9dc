"""A stand-in for AWS KMS. botocore, AWS's own library, verifies the signature of each request.

Credentials come as they do in a container of AWS: from an HTTP endpoint, temporary, with a session token.
"""

import json
import secrets
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from aiohttp import web
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relaydeck.signers.signer_types import KmsConfig
from tests.signers.drivers.system import KeySystem, der_signature

REGION = "eu-central-1"
KEY_ID = "1234abcd-12ab-34cd-56ef-1234567890ab"
RSA_KEY_ID = "1234abcd-12ab-34cd-56ef-1234567890ff"
WRAPPING_KEY_ID = "1234abcd-12ab-34cd-56ef-1234567890ee"


class AwsKmsStandIn(KeySystem):
    signer_type: ClassVar[str] = "provider_a_kms"
    driver: ClassVar[str] = "aws-kms"

    def __init__(self) -> None:
        super().__init__()
        self._cipher = AESGCM(secrets.token_bytes(32))
        self.issued: dict[str, Credentials] = {}
        self.lifetime = timedelta(hours=6)
        self.denied = False
        self.disabled = False
        self.spec_names = ["CustomerMasterKeySpec", "KeySpec"]  # the older name, and today's

    def environment(self) -> dict[str, str]:
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/credentials",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        }

    def config(self) -> KmsConfig:
        return KmsConfig(key_id=KEY_ID, region=REGION)

    def unknown_key(self) -> KmsConfig:
        return KmsConfig(key_id="1234abcd-0000-0000-0000-1234567890ab", region=REGION)

    def key_of_another_kind(self) -> KmsConfig:
        return KmsConfig(key_id=RSA_KEY_ID, region=REGION)

    async def revoke_access(self) -> None:
        self.denied = True

    async def restore_access(self) -> None:
        self.denied = False

    def secrets(self) -> list[str]:
        return [text for each in self.issued.values() for text in (each.secret_key, each.token)]

    def throttled(self) -> web.Response:
        return _problem("ThrottlingException")

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        if request.path == "/credentials":
            return self._issue()
        if refusal := self._refusal(request, body):
            return _problem(refusal)
        asked = json.loads(body)
        if asked["KeyId"] not in (KEY_ID, RSA_KEY_ID, WRAPPING_KEY_ID):
            return _problem("NotFoundException")
        if self.disabled:
            return _problem("DisabledException")
        return self._use(request.headers["X-Amz-Target"], asked)

    def _use(self, target: str, asked: dict[str, Any]) -> web.Response:
        if target in ("TrentService.Encrypt", "TrentService.Decrypt"):
            return self._wrap(target, asked)
        if target == "TrentService.GetPublicKey":
            spec = "ECC_SECG_P256K1" if asked["KeyId"] == KEY_ID else "RSA_2048"
            public = b64encode(self.key.der).decode()
            specs = dict.fromkeys(self.spec_names, spec)
            return _answer({"KeyId": asked["KeyId"], **specs, "KeyUsage": "SIGN_VERIFY", "PublicKey": public})
        assert (target, asked["MessageType"], asked["SigningAlgorithm"]) == (
            "TrentService.Sign",
            "DIGEST",
            "ECDSA_SHA_256",
        )
        signature = der_signature(self.signed(b64decode(asked["Message"])))
        return _answer({"KeyId": asked["KeyId"], "Signature": b64encode(signature).decode()})

    def _wrap(self, target: str, asked: dict[str, Any]) -> web.Response:
        if asked["KeyId"] != WRAPPING_KEY_ID:
            return _problem("InvalidKeyUsageException")
        context = json.dumps(asked["EncryptionContext"], sort_keys=True).encode()
        if target == "TrentService.Encrypt":
            sealed = self._cipher.encrypt(bytes(12), b64decode(asked["Plaintext"]), context)
            return _answer({"KeyId": WRAPPING_KEY_ID, "CiphertextBlob": b64encode(sealed).decode()})
        try:
            plain = self._cipher.decrypt(bytes(12), b64decode(asked["CiphertextBlob"]), context)
        except InvalidTag:
            return _problem("InvalidCiphertextException")
        return _answer({"KeyId": WRAPPING_KEY_ID, "Plaintext": b64encode(plain).decode()})

    def _issue(self) -> web.Response:
        made = Credentials("AKIA" + secrets.token_hex(8).upper(), secrets.token_hex(20), secrets.token_hex(40))
        self.issued[made.access_key] = made
        until = datetime.now(UTC) + self.lifetime
        body = {"AccessKeyId": made.access_key, "SecretAccessKey": made.secret_key, "Token": made.token}
        return web.json_response(body | {"Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ")})

    def _refusal(self, request: web.BaseRequest, body: bytes) -> str:
        """Sign what arrived once more, with the secret that was issued, and compare."""
        given = dict(
            part.strip().split("=", 1) for part in request.headers["Authorization"].split(" ", 1)[1].split(",")
        )
        access_key, _, scope = given["Credential"].partition("/")
        _, region, service, _ = scope.split("/")
        credentials = self.issued.get(access_key)
        if credentials is None:
            return "UnrecognizedClientException"
        if (region, service) != (REGION, "kms"):
            return "InvalidSignatureException"
        names = given["SignedHeaders"].split(";")
        copy = AWSRequest(
            request.method, self.url + request.path, {name: request.headers[name] for name in names}, body
        )
        copy.context["timestamp"] = request.headers["X-Amz-Date"]
        auth = SigV4Auth(credentials, service, region)
        canonical = auth.canonical_request(copy)
        if auth.signature(auth.string_to_sign(copy, canonical), copy) != given["Signature"]:
            return "InvalidSignatureException"
        return "AccessDeniedException" if self.denied else ""


def _answer(body: dict[str, Any]) -> web.Response:
    return web.Response(body=json.dumps(body).encode(), content_type="application/x-amz-json-1.1")


def _problem(name: str) -> web.Response:
    body = json.dumps({"__type": name, "message": "refused by the stand-in"}).encode()
    return web.Response(status=400, body=body, content_type="application/x-amz-json-1.1")
