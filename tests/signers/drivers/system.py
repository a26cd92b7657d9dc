"""What the conformance tests need of a key system, whether it is the real one or a stand-in."""

from abc import abstractmethod
from functools import cached_property
from ipaddress import ip_network
from typing import ClassVar

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature, encode_dss_signature

from relaydeck.settings.model import Settings
from relaydeck.signers.signer_types import Config
from tests.signers.drivers.server import FaultyServer
from tests.support.accounts import account
from tests.support.driver_settings import bound

ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141


class OwnedKey:
    """A secp256k1 key, by another library than the one that the drivers verify with."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256K1())
        self.public_key = self._key.public_key()

    @cached_property
    def secret(self) -> str:
        return f"{self._key.private_numbers().private_value:064x}"

    @cached_property
    def address(self) -> str:
        return str(account("0x" + self.secret).address)

    @cached_property
    def der(self) -> bytes:
        return self.public_key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)

    @cached_property
    def pem(self) -> str:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.public_key.public_bytes(serialization.Encoding.PEM, form).decode()

    def point(self, *, compressed: bool = True) -> str:
        form = (
            serialization.PublicFormat.CompressedPoint if compressed else serialization.PublicFormat.UncompressedPoint
        )
        return self.public_key.public_bytes(serialization.Encoding.X962, form).hex()

    def sign(self, digest: bytes, *, high_s: bool = False) -> tuple[int, int]:
        """OpenSSL gives either s; `high_s` gives the one that Ethereum refuses."""
        r, s = decode_dss_signature(self._key.sign(digest, ec.ECDSA(Prehashed(hashes.SHA256()))))
        return r, max(s, ORDER - s) if high_s else s


def der_signature(components: tuple[int, int]) -> bytes:
    return encode_dss_signature(*components)


class KeySystem(FaultyServer):
    signer_type: ClassVar[str]
    driver: ClassVar[str]
    succeeds_with: ClassVar[str] = "ok"

    def __init__(self) -> None:
        super().__init__()
        self.key = OwnedKey()
        self.other_key = OwnedKey()

    def settings(self, *, deadline: float = 60.0, concurrency: int = 16) -> Settings:
        return bound(
            {self.signer_type: self.driver},
            self.endpoints(),
            driver_deadline_seconds=deadline,
            driver_concurrency=concurrency,
            driver_allow=(ip_network("127.0.0.1"),),
        )

    def endpoints(self) -> dict[str, str]:
        return {self.signer_type: self.url}

    def environment(self) -> dict[str, str]:
        return {}

    def signed(self, digest: bytes) -> tuple[int, int]:
        """By the key, or, when that is the fault, by another one or with a high s."""
        key = self.other_key if self.fault == "other key" else self.key
        return key.sign(digest, high_s=self.fault == "high s")

    @abstractmethod
    def config(self) -> Config:
        """A signer that reaches the key."""

    @abstractmethod
    def unknown_key(self) -> Config:
        """The same, with a reference to a key that does not exist."""

    @abstractmethod
    def key_of_another_kind(self) -> Config:
        """A signer that reaches a key which cannot sign for Ethereum."""

    @abstractmethod
    async def revoke_access(self) -> None:
        """As an operator of the key system would."""

    @abstractmethod
    async def restore_access(self) -> None: ...

    @abstractmethod
    def secrets(self) -> list[str]:
        """What must never be seen: the credentials of the config and those that were issued for them."""
