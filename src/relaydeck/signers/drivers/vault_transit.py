"""`vault-transit`: a key that never leaves Vault's transit engine.

The engine has keys on the NIST curves, Ed25519 and RSA, and none on secp256k1 (as of Vault 1.21), so it cannot make an
Ethereum signature. This driver verifies what can be verified: the key exists, this AppRole may read it, and its public
key is the signer's `pubkey`. Then it reports that the key cannot sign.

Its symmetric keys can wrap the master key.
"""

import asyncio
from base64 import b64decode, b64encode
from typing import Any, ClassVar, NoReturn

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from relaydeck.signers.drivers.curve import Algorithm, read_public_key
from relaydeck.signers.drivers.driver_errors import AnswerRejected, CannotSign, ConfigUnusable, WrongKeyKind
from relaydeck.signers.drivers.interface import HttpAnswer, KeyIdentity, RawSignature, failing_as
from relaydeck.signers.drivers.vault_session import VaultDriver, vault_path
from relaydeck.signers.signer_types import Config, SecretStoreConfig, TransitConfig

DEFAULT_MOUNT = "transit"
_EXPLANATION = (
    "the key exists and its public key is config.pubkey, but the transit engine has no secp256k1 keys: "
    "it cannot sign for an Ethereum address"
)


class VaultTransitDriver(VaultDriver):
    config_type: ClassVar[type[Config]] = TransitConfig
    wrapping_config: ClassVar[type[Config]] = SecretStoreConfig
    system = "Vault"

    async def identify(self, config: TransitConfig) -> KeyIdentity:
        """Raises CannotSign when everything is as configured."""
        await self._verify(config)

    async def sign_digest(self, config: TransitConfig, digest: bytes) -> RawSignature:
        await self._verify(config)

    async def wrap_key(self, config: SecretStoreConfig, key: bytes) -> str:
        return (await self._use(config, "encrypt", "plaintext", b64encode(key).decode())).get("data.ciphertext", str)

    async def unwrap_key(self, config: SecretStoreConfig, wrapped: str) -> bytes:
        answer = await self._use(config, "decrypt", "ciphertext", wrapped)
        return self._from_base64(answer.get("data.plaintext", str), "plaintext")

    async def _use(self, config: SecretStoreConfig, operation: str, name: str, value: str) -> HttpAnswer:
        mount = vault_path(config.mount_point or DEFAULT_MOUNT, "mount_point")
        return await self._read(config, f"{mount}/{operation}/{vault_path(config.key_name, 'key_name')}", {name: value})

    async def _verify(self, config: TransitConfig) -> NoReturn:
        mount = vault_path(config.mount_point or DEFAULT_MOUNT, "mount_point")
        answer = await self._read(config, f"{mount}/keys/{vault_path(config.key_name, 'key_name')}")
        with failing_as(ConfigUnusable("config.pubkey is not a public key in PEM, base64 or hexadecimal")):
            given = _public_bytes(config.pubkey)
        # In a thread: an answer has room for thousands of versions.
        if given not in await asyncio.to_thread(_public_keys, answer.get("data.keys", dict)):
            raise AnswerRejected("the public key of the key in Vault is not config.pubkey")
        raise CannotSign(_EXPLANATION)


def _public_keys(versions: dict[str, Any]) -> list[bytes]:
    """Of every version: a rotated key keeps its earlier ones."""
    texts = [each.get("public_key") for each in versions.values() if isinstance(each, dict)]
    if not any(texts):
        raise WrongKeyKind("the key in Vault is not an asymmetric key")
    with failing_as(AnswerRejected("Vault's public key cannot be read")):
        return [_public_bytes(text) for text in texts if text]


def _public_bytes(text: str) -> bytes:
    """One form for all: the DER of a key; of 32 bare bytes, which is how Vault writes Ed25519, too."""
    content = text.encode() if text.lstrip().startswith("-----") else _bare_bytes(text.strip())
    is_bare = len(content) == 32
    key = Ed25519PublicKey.from_public_bytes(content) if is_bare else read_public_key(content, *Algorithm)
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _bare_bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        return b64decode(text, validate=True)
