"""`vault-kv`: the private key is a secret in Vault's KV engine, version 1 or 2.

The key is fetched for one use and dropped with it. A secret with one field holds the key in that field; a secret with
several fields holds it in the field `value`.
"""

from typing import Any, ClassVar

from relaydeck.secret import Secret
from relaydeck.signers.drivers.driver_errors import KeyNotFound, WrongKeyKind
from relaydeck.signers.drivers.interface import DriverContext, KeyIdentity, RawSignature
from relaydeck.signers.drivers.local import identity_of_secret, sign_with_secret
from relaydeck.signers.drivers.vault_session import VaultDriver, vault_path
from relaydeck.signers.signer_types import Config, SecretStoreConfig

DEFAULT_MOUNT = "secret"
KEY_FIELD = "value"


class VaultKvDriver(VaultDriver):
    config_type: ClassVar[type[Config]] = SecretStoreConfig

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self._versions: dict[tuple[str, str, str], int] = {}  # of the KV engines: as many as there are mounts

    async def identify(self, config: SecretStoreConfig) -> KeyIdentity:
        return identity_of_secret(await self._fetch(config), "the secret in Vault")

    async def sign_digest(self, config: SecretStoreConfig, digest: bytes) -> RawSignature:
        return sign_with_secret(await self._fetch(config), digest, "the secret in Vault")

    async def _fetch(self, config: SecretStoreConfig) -> Secret:
        mount = vault_path(config.mount_point or DEFAULT_MOUNT, "mount_point")
        name = vault_path(config.key_name, "key_name")
        engine = (config.address, config.namespace or "", mount)
        if engine not in self._versions:
            self._versions[engine] = await self._version(config, mount)
        try:
            return await self._fetch_from(config, mount, name, self._versions[engine])
        except KeyNotFound:
            self._versions.pop(engine, None)  # an operator may have upgraded the mount: ask again next time
            raise

    async def _fetch_from(self, config: SecretStoreConfig, mount: str, name: str, version: int) -> Secret:
        if version == 2:
            return _key_of((await self._read(config, f"{mount}/data/{name}")).get("data.data", dict))
        return _key_of((await self._read(config, f"{mount}/{name}")).get("data", dict))

    async def _version(self, config: SecretStoreConfig, mount: str) -> int:
        answer = await self._read(config, f"sys/internal/ui/mounts/{mount}")
        if answer.get("data.type", str) not in ("kv", "generic"):
            raise WrongKeyKind("config.mount_point is not a KV engine of Vault")
        return 2 if answer.find("data.options.version", "1") == "2" else 1


def _key_of(fields: dict[str, Any]) -> Secret:
    key = next(iter(fields.values())) if len(fields) == 1 else fields.get(KEY_FIELD)
    if key is None:
        raise KeyNotFound(f"the secret in Vault has several fields and none named {KEY_FIELD!r}")
    if not isinstance(key, str):
        raise WrongKeyKind("the secret in Vault is not text")
    return Secret(key.strip())
