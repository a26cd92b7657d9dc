"""The seven shapes of a signer's config.

A field of type Secret is secret, and so is a nested object (Raw): it is kept as it came, and neither
looked into nor shown. Every other field may be shown to operators.
"""

from functools import cache
from typing import Any

import msgspec

from relaydeck.secret import Secret, decode_secret


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class LocalConfig(Config, frozen=True):
    key: Secret


class KmsConfig(Config, frozen=True):
    key_id: str
    region: str


class SecretStoreConfig(Config, frozen=True):
    address: str
    key_name: str
    role_id: Secret
    secret_id: Secret
    mount_point: str | msgspec.UnsetType = msgspec.UNSET
    namespace: str | msgspec.UnsetType = msgspec.UNSET


class TransitConfig(Config, frozen=True):
    address: str
    key_name: str
    pubkey: str
    role_id: Secret
    secret_id: Secret
    mount_point: str | msgspec.UnsetType = msgspec.UNSET
    namespace: str | msgspec.UnsetType = msgspec.UNSET


class KeyServiceConfig(Config, frozen=True):
    api_private_key: Secret
    api_public_key: str
    organization_id: str
    private_key_id: str
    public_key: str


class WalletServiceConfig(Config, frozen=True):
    account_address: str
    api_key_id: str
    api_key_secret: Secret
    wallet_secret: Secret


class SecondKmsConfig(Config, frozen=True):
    key: msgspec.Raw
    service_account: msgspec.Raw


SHAPES: dict[str, type[Config]] = {
    "plain": LocalConfig,
    "provider_a_kms": KmsConfig,
    "provider_c": SecretStoreConfig,
    "provider_c_transit": TransitConfig,
    "provider_d": KeyServiceConfig,
    "provider_e": WalletServiceConfig,
    "provider_b_kms": SecondKmsConfig,
}

# The fields that a signer answers with on the described interface.
SHOWN_FIELDS = ("address", "key_name", "mount_point", "namespace")


def response_type(request_type: str) -> str:
    """`plain` answers `local`, which is shown; every other type answers as it was asked."""
    return "local" if request_type == "plain" else request_type


def encode_secret(value: Any) -> Any:
    """msgspec's hook the other way, for the sealed form alone."""
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"{type(value).__name__} has no sealed form")


@cache
def secret_fields(shape: type[Config]) -> frozenset[str]:
    hidden = (Secret, msgspec.Raw)
    return frozenset(field.name for field in msgspec.structs.fields(shape) if field.type in hidden)


@cache
def _nested_fields(shape: type[Config]) -> tuple[str, ...]:
    return tuple(sorted(field.name for field in msgspec.structs.fields(shape) if field.type is msgspec.Raw))


def nested_object_problem(config: Config) -> str:
    """The first nested value that is no JSON object; empty when there is none."""
    for name in _nested_fields(type(config)):
        if not bytes(getattr(config, name)).startswith(b"{"):
            return f"config.{name} must be an object"
    return ""


def split(config: Config) -> tuple[dict[str, str], bytes]:
    """A config in two: what may be shown, and what must be sealed, as JSON."""
    shown: dict[str, str] = {}
    sealed: dict[str, Secret | msgspec.Raw] = {}
    hidden = secret_fields(type(config))
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if name in hidden:
            sealed[name] = value
        elif value is not msgspec.UNSET:
            shown[name] = value
    return shown, msgspec.json.encode(sealed, enc_hook=encode_secret)


def join(signer_type: str, shown: bytes, sealed: bytes) -> Config:
    """The config that `split` took apart."""
    parts = msgspec.json.decode(shown, type=dict[str, msgspec.Raw])
    parts |= msgspec.json.decode(sealed, type=dict[str, msgspec.Raw])
    whole = msgspec.json.encode(parts)
    return msgspec.json.decode(whole, type=SHAPES[signer_type], dec_hook=decode_secret)
