"""A stand-in for Turnkey. PyCryptodome verifies the stamp of each request."""

import json
from base64 import urlsafe_b64decode
from typing import Any, ClassVar

from aiohttp import web
from Crypto.Hash import SHA256
from Crypto.PublicKey import ECC
from Crypto.Signature import DSS

from relaydeck.secret import Secret
from relaydeck.signers.signer_types import KeyServiceConfig
from tests.signers.drivers.system import KeySystem

ORGANIZATION = "105d7217-3600-42b5-a818-226efdb25019"
KEY_ID = "6f2c1d8e-0000-4000-8000-000000000001"
ED25519_KEY_ID = "6f2c1d8e-0000-4000-8000-000000000002"


class TurnkeyStandIn(KeySystem):
    signer_type: ClassVar[str] = "provider_d"
    driver: ClassVar[str] = "turnkey"

    def __init__(self) -> None:
        super().__init__()
        self._api_key = ECC.generate(curve="P-256")
        self.known_api_keys = {self._public()}
        self.permitted = True
        self.activity_status = "ACTIVITY_STATUS_COMPLETED"

    def _public(self) -> str:
        return self._api_key.public_key().export_key(format="SEC1", compress=True).hex()

    def config(self, key_id: str = KEY_ID) -> KeyServiceConfig:
        return KeyServiceConfig(
            api_private_key=Secret(f"{int(self._api_key.d):064x}"),
            api_public_key=self._public(),
            organization_id=ORGANIZATION,
            private_key_id=key_id,
            public_key=self.key.point(),
        )

    def unknown_key(self) -> KeyServiceConfig:
        return self.config("6f2c1d8e-0000-4000-8000-00000000000f")

    def key_of_another_kind(self) -> KeyServiceConfig:
        return self.config(ED25519_KEY_ID)

    async def revoke_access(self) -> None:
        self.known_api_keys.clear()

    async def restore_access(self) -> None:
        self.known_api_keys.add(self._public())

    def secrets(self) -> list[str]:
        return [f"{int(self._api_key.d):064x}"]

    def throttled(self) -> web.Response:
        return _problem(429, 8)

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        if not self._is_authentic(request.headers["X-Stamp"], body):
            return _problem(401, 16)
        if not self.permitted:
            return _problem(403, 7)
        asked = json.loads(body)
        assert asked["organizationId"] == ORGANIZATION
        if request.path == "/public/v1/query/get_private_key":
            return self._private_key(asked["privateKeyId"])
        assert request.path == "/public/v1/submit/sign_raw_payload"
        return self._sign(asked)

    def _private_key(self, key_id: str) -> web.Response:
        if key_id not in (KEY_ID, ED25519_KEY_ID):
            return _problem(404, 5)
        curve = "CURVE_SECP256K1" if key_id == KEY_ID else "CURVE_ED25519"
        key = {"privateKeyId": key_id, "publicKey": self.key.point(compressed=False), "curve": curve, "addresses": []}
        return web.json_response({"privateKey": key})

    def _sign(self, asked: dict[str, Any]) -> web.Response:
        assert asked["type"] == "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2"
        assert asked["timestampMs"].isdigit()
        parameters = asked["parameters"]
        assert (parameters["encoding"], parameters["hashFunction"], parameters["signWith"]) == (
            "PAYLOAD_ENCODING_HEXADECIMAL",
            "HASH_FUNCTION_NO_OP",
            KEY_ID,
        )
        r, s = self.signed(bytes.fromhex(parameters["payload"]))
        done = self.activity_status == "ACTIVITY_STATUS_COMPLETED"
        result = {"signRawPayloadResult": {"r": f"{r:064x}", "s": f"{s:064x}", "v": "00"}} if done else {}
        activity = {"id": "a1", "status": self.activity_status, "type": asked["type"], "result": result}
        return web.json_response({"activity": activity})

    def _is_authentic(self, stamp: str, body: bytes) -> bool:
        assert "=" not in stamp
        parts = json.loads(urlsafe_b64decode(stamp + "=" * (-len(stamp) % 4)))
        if parts["scheme"] != "SIGNATURE_SCHEME_TK_API_P256" or parts["publicKey"] not in self.known_api_keys:
            return False
        key = ECC.import_key(bytes.fromhex(parts["publicKey"]), curve_name="P-256")
        try:
            DSS.new(key, "fips-186-3", encoding="der").verify(SHA256.new(body), bytes.fromhex(parts["signature"]))
        except ValueError:
            return False
        return True


def _problem(status: int, code: int) -> web.Response:
    return web.json_response({"code": code, "message": "refused", "details": []}, status=status)
