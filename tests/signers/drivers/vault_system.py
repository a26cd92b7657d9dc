"""A real Vault, behind a proxy of ours that counts requests and adds the faults which a healthy Vault does not have."""

import secrets
from typing import Any, ClassVar

import aiohttp
from aiohttp import web

from relaydeck.secret import Secret
from relaydeck.signers.signer_types import Config, SecretStoreConfig, TransitConfig
from tests.signers.drivers.system import KeySystem
from tests.vault.process import Vault

POLICY = """
path "secret/data/relayers/*" { capabilities = ["read"] }
path "kv1/relayers/*" { capabilities = ["read"] }
path "transit/keys/*" { capabilities = ["read"] }
path "transit/encrypt/*" { capabilities = ["update"] }
path "transit/decrypt/*" { capabilities = ["update"] }
"""


def prepare(vault: Vault) -> None:
    """What an operator sets up once: the engines, AppRole, and a policy that permits reading alone."""
    vault.call("POST", "sys/auth/approle", {"type": "approle"})
    vault.call("POST", "sys/mounts/secret", {"type": "kv", "options": {"version": "2"}})
    vault.call("POST", "sys/mounts/kv1", {"type": "kv", "options": {"version": "1"}})
    vault.call("POST", "sys/mounts/transit", {"type": "transit"})
    vault.call("POST", "sys/policies/acl/relaydeck", {"policy": POLICY})


class _VaultSystem(KeySystem):
    def __init__(self, vault: Vault) -> None:
        super().__init__()
        self.vault = vault
        self.name = secrets.token_hex(8)
        self.secret_id = secrets.token_hex(16)
        self.headers: list[dict[str, str]] = []
        self._tokens: list[str] = []
        role = {"token_policies": "relaydeck", "token_ttl": "1h", "token_max_ttl": "4h"}
        vault.call("POST", f"auth/approle/role/{self.name}", role)
        self.role_id = vault.call("GET", f"auth/approle/role/{self.name}/role-id")["data"]["role_id"]
        self._create_secret_id()

    async def start(self) -> None:
        await super().start()
        self._client = aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(60))

    async def stop(self) -> None:
        await super().stop()
        await self._client.close()
        self.vault.call("DELETE", f"auth/approle/role/{self.name}")

    def endpoints(self) -> dict[str, str]:
        return {}  # the address is part of the config

    async def revoke_access(self) -> None:
        self.vault.call("POST", f"auth/approle/role/{self.name}/secret-id/destroy", {"secret_id": self.secret_id})
        self.revoke_tokens()

    async def restore_access(self) -> None:
        self._create_secret_id()

    def revoke_tokens(self) -> None:
        while self._tokens:
            self.vault.call("POST", "auth/token/revoke", {"token": self._tokens.pop()})

    def secrets(self) -> list[str]:
        return [self.secret_id, self.role_id, self.key.secret, *self._tokens]

    def throttled(self) -> web.Response:
        return web.json_response({"errors": ["request path: rate limit quota exceeded"]}, status=429)

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        self.headers.append(dict(request.headers))
        path = self.redirected(request.path)
        headers = {name: value for name, value in request.headers.items() if name.startswith("X-Vault")}
        async with self._client.request(request.method, self.vault.address + path, headers=headers, data=body) as real:
            content = await real.read()
            if request.path.endswith("/login") and real.status == 200:
                self._tokens.append((await real.json())["auth"]["client_token"])
        return web.Response(status=real.status, body=content, content_type="application/json")

    def redirected(self, path: str) -> str:
        return path

    def _create_secret_id(self) -> None:
        path = f"auth/approle/role/{self.name}/custom-secret-id"
        self.vault.call("POST", path, {"secret_id": self.secret_id})

    def _common(self, key_name: str) -> dict[str, Any]:
        roles = {"role_id": Secret(self.role_id), "secret_id": Secret(self.secret_id)}
        return {"address": self.url, "key_name": key_name, **roles}


class VaultKvSystem(_VaultSystem):
    signer_type: ClassVar[str] = "provider_c"
    driver: ClassVar[str] = "vault-kv"

    def __init__(self, vault: Vault) -> None:
        super().__init__(vault)
        self._reads = 0
        self.write("one", {"value": "0x" + self.key.secret})
        self.write("other", {"value": self.other_key.secret})
        self.write("number", {"value": 7})

    def write(self, name: str, fields: dict[str, Any]) -> None:
        self.vault.call("POST", f"secret/data/relayers/{self.name}/{name}", {"data": fields})

    def config(self, name: str = "one", **more: Any) -> SecretStoreConfig:
        return SecretStoreConfig(**self._common(f"relayers/{self.name}/{name}"), **more)

    def unknown_key(self) -> Config:
        return self.config("two")

    def key_of_another_kind(self) -> Config:
        return self.config("number")

    def redirected(self, path: str) -> str:
        """The secret is replaced between the two times that a check reads it."""
        if self.fault != "other key" or not path.endswith("/one"):
            return path
        self._reads += 1
        return path if self._reads % 2 else path.removesuffix("one") + "other"


class VaultTransitSystem(_VaultSystem):
    signer_type: ClassVar[str] = "provider_c_transit"
    driver: ClassVar[str] = "vault-transit"
    succeeds_with: ClassVar[str] = "cannot_sign"

    def __init__(self, vault: Vault) -> None:
        super().__init__(vault)
        for name, kind in (("one", "ecdsa-p256"), ("ed", "ed25519"), ("symmetric", "aes256-gcm96")):
            vault.call("POST", f"transit/keys/{self.name}-{name}", {"type": kind})

    def public_key(self, name: str) -> str:
        key = self.vault.call("GET", f"transit/keys/{self.name}-{name}")["data"]["keys"]["1"]
        return str(key["public_key"])

    def config(self, name: str = "one", pubkey: str = "") -> TransitConfig:
        return TransitConfig(**self._common(f"{self.name}-{name}"), pubkey=pubkey or self.public_key(name))

    def unknown_key(self) -> Config:
        return self.config("two", self.public_key("one"))

    def key_of_another_kind(self) -> Config:
        return self.config("symmetric", self.public_key("one"))
