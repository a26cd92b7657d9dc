"""`local`: the key is the signer's own config. Nothing leaves the process."""

from typing import ClassVar

from coincurve import PrivateKey

from relaydeck.secret import Secret
from relaydeck.signers.drivers.curve import identity_of
from relaydeck.signers.drivers.driver_errors import WrongKeyKind
from relaydeck.signers.drivers.interface import DriverContext, KeyIdentity, RawSignature
from relaydeck.signers.signer_types import Config, LocalConfig, is_private_key


class LocalDriver:
    config_type: ClassVar[type[Config]] = LocalConfig

    def __init__(self, context: DriverContext) -> None:
        """Takes nothing of the context."""

    async def identify(self, config: LocalConfig) -> KeyIdentity:
        return identity_of_secret(config.key, "config.key")

    async def sign_digest(self, config: LocalConfig, digest: bytes) -> RawSignature:
        return sign_with_secret(config.key, digest, "config.key")

    async def close(self) -> None:
        return None


def identity_of_secret(key: Secret, where: str) -> KeyIdentity:
    return identity_of(_private_key(key, where).public_key)


def sign_with_secret(key: Secret, digest: bytes, where: str) -> RawSignature:
    signature = _private_key(key, where).sign_recoverable(digest, hasher=None)
    return RawSignature(int.from_bytes(signature[:32]), int.from_bytes(signature[32:64]))


def _private_key(key: Secret, where: str) -> PrivateKey:
    text = key.reveal()
    if not is_private_key(text):
        raise WrongKeyKind(f"{where} is not a 32-byte hexadecimal private key")
    return PrivateKey(bytes.fromhex(text.removeprefix("0x")))
