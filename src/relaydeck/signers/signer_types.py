"""The types of signers, the config of each, and hints about values in a config that cannot work.

A field of type Secret is secret, and so is a nested object (Raw), which is kept as it was sent and never inspected
or shown. Every other field may be shown to operators.
"""

import re
from functools import cache, partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relaydeck.basis import CONFIG_MEANING, FIELD_LENGTH, NESTED_OBJECTS, shown
from relaydeck.errors import BadRequest
from relaydeck.fields import field, fields_of
from relaydeck.identifiers import identifier_problem, new_identifier
from relaydeck.networks.evm.address import is_evm_address
from relaydeck.secret import Secret, decode_secret
from relaydeck.web_addresses import header_value_problem, key_system_address_problem

# Bounds that no honest value meets: without them, each record could take as much memory as a body may have.
ConfigText = Annotated[str, Meta(max_length=4096)]
_LONGEST_OBJECT = 65_536


# The contract names the fields of each config with their types.
_SHOWN = shown("2.2").but(value=FIELD_LENGTH, meaning=CONFIG_MEANING)
_field = partial(field, basis=_SHOWN)
_secret = partial(_field, write_only=True)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


# sentence: 2.2-config-plain
class LocalConfig(Config, frozen=True):
    """A key that Relaydeck stores itself."""

    key: Annotated[
        Secret,
        _secret(
            "The private key. Secret. One that is not 32 bytes of hex is stored, with a hint in the logs.",
            example="0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
        ),
    ]


# sentence: 2.2-config-provider_a_kms
class KmsConfig(Config, frozen=True):
    """A key in a cloud key-management service."""

    key_id: Annotated[ConfigText, _field("The provider's identifier of the key.", example="alias/ops")]
    region: Annotated[ConfigText, _field("Region of the key.", example="eu-west-1")]


StoreAddress = Annotated[ConfigText, _field("Address of the secret store.", example="https://secrets.example.com")]
KeyName = Annotated[ConfigText, _field("Name of the key in the store.", example="ops")]
RoleId = Annotated[Secret, _secret("Login role. Secret.", example="relaydeck")]
SecretId = Annotated[Secret, _secret("Login secret. Secret.", example="s.example")]
MountPoint = Annotated[ConfigText | UnsetType, _field("Where the secrets engine is mounted.", example="transit")]
Namespace = Annotated[ConfigText | UnsetType, _field("Namespace within the store.", example="ops")]


# sentence: 2.2-config-provider_c
class SecretStoreConfig(Config, frozen=True):
    """A key kept in a secret store, which returns it."""

    address: StoreAddress
    key_name: KeyName
    role_id: RoleId
    secret_id: SecretId
    mount_point: MountPoint = UNSET
    namespace: Namespace = UNSET


# sentence: 2.2-config-provider_c_transit
class TransitConfig(Config, frozen=True):
    """A key kept in a secret store, which signs with it."""

    address: StoreAddress
    key_name: KeyName
    pubkey: Annotated[ConfigText, _field("Public half of the key.", example="Ag4v6z4l")]
    role_id: RoleId
    secret_id: SecretId
    mount_point: MountPoint = UNSET
    namespace: Namespace = UNSET


# sentence: 2.2-config-provider_d
class KeyServiceConfig(Config, frozen=True):
    """A key in a key service."""

    api_private_key: Annotated[Secret, _secret("Private half of the API key. Secret.", example="example")]
    api_public_key: Annotated[ConfigText, _field("Public half of the API key.", example="03b1")]
    organization_id: Annotated[ConfigText, _field("Organization that owns the key.", example="org-1")]
    private_key_id: Annotated[ConfigText, _field("The service's identifier of the key.", example="key-1")]
    public_key: Annotated[ConfigText, _field("Public half of the key.", example="04f2")]


# sentence: 2.2-config-provider_e
class WalletServiceConfig(Config, frozen=True):
    """An account in a wallet service."""

    account_address: Annotated[
        ConfigText, _field("Address of the account.", example="0x2c7536e3605d9c16a7a3d7b1898e529396a65c23")
    ]
    api_key_id: Annotated[ConfigText, _field("Identifier of the API key.", example="key-1")]
    api_key_secret: Annotated[Secret, _secret("Secret of the API key. Secret.", example="example")]
    wallet_secret: Annotated[Secret, _secret("Secret of the wallet. Secret.", example="example")]


_OPAQUE = f"Any JSON object of at most {_LONGEST_OBJECT} bytes: its fields are not described. Secret as a whole."
_OBJECT = {"type": "object"}
_NESTED = shown("2.2").but(value=NESTED_OBJECTS, meaning=NESTED_OBJECTS)


# sentence: 2.2-config-provider_b_kms
class SecondKmsConfig(Config, frozen=True):
    """A key in the second cloud key-management service."""

    key: Annotated[
        msgspec.Raw,
        field(_OPAQUE, basis=_NESTED, example={"name": "ops"}, write_only=True, schema=_OBJECT),
    ]
    service_account: Annotated[
        msgspec.Raw,
        field(_OPAQUE, basis=_NESTED, example={"client": "relaydeck"}, write_only=True, schema=_OBJECT),
    ]


SHAPES: dict[str, type[Config]] = {
    "plain": LocalConfig,
    "provider_a_kms": KmsConfig,
    "provider_c": SecretStoreConfig,
    "provider_c_transit": TransitConfig,
    "provider_d": KeyServiceConfig,
    "provider_e": WalletServiceConfig,
    "provider_b_kms": SecondKmsConfig,
}

# The fields of a config that the described interface shows.
SHOWN_FIELDS = ("address", "key_name", "mount_point", "namespace")


def response_type(request_type: str) -> str:
    """The type in a response: `local` for `plain`, as the contract shows; any other type is unchanged."""
    return "local" if request_type == "plain" else request_type


def encode_secret(value: Any) -> Any:
    """Encode a secret. Only for the sealed form: everywhere else, encoding a secret is an error."""
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"{type(value).__name__} has no sealed form")


_encode_sealed = msgspec.json.Encoder(enc_hook=encode_secret).encode


@cache
def secret_fields(shape: type[Config]) -> frozenset[str]:
    hidden = (Secret, msgspec.Raw)
    return frozenset(each.name for each in fields_of(shape) if each.type in hidden)


@cache
def _nested_fields(shape: type[Config]) -> tuple[str, ...]:
    return tuple(sorted(each.name for each in fields_of(shape) if each.type is msgspec.Raw))


def nested_object_problem(config: Config) -> str:
    """Names the first nested value that is not a JSON object or too long; empty when there is none."""
    for name in _nested_fields(type(config)):
        value = bytes(getattr(config, name))
        if not value.startswith(b"{"):
            return f"config.{name} must be an object"
        if len(value) > _LONGEST_OBJECT:
            return f"config.{name} must have at most {_LONGEST_OBJECT} bytes"
    return ""


class NewSigner(msgspec.Struct, frozen=True, gc=False):
    id: str
    type: str
    config: Config
    labels: dict[str, str] | UnsetType = UNSET
    named: bool = True  # whether the caller chose the id, which can then be in use
    set_locally: bool | None = None  # by a command on the server's machine; None: it is not stored


# sentence: 2.2-id-given 2.2-id-generated
def new_signer(
    signer_type: str, config: Config, signer_id: str | UnsetType, labels: dict[str, str] | UnsetType = UNSET
) -> NewSigner:
    """A signer to create, with a generated id when none is given. Raises BadRequest."""
    if problem := nested_object_problem(config):
        raise BadRequest(problem)
    if signer_id is UNSET:
        return NewSigner(new_identifier(), signer_type, config, labels, named=False)
    if problem := identifier_problem(signer_id):
        raise BadRequest(f"id {problem}")
    return NewSigner(signer_id, signer_type, config, labels)


# sentence: 2.2-no-secrets
def split(config: Config) -> tuple[dict[str, str], bytes]:
    """Split a config into the fields that may be shown and the JSON of the fields that must be sealed."""
    shown: dict[str, str] = {}
    sealed: dict[str, Secret | msgspec.Raw] = {}
    hidden = secret_fields(type(config))
    if len(hidden) == len(config.__struct_fields__):
        return shown, _encode_sealed(config)
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if name in hidden:
            sealed[name] = value
        elif value is not msgspec.UNSET:
            shown[name] = value
    return shown, _encode_sealed(sealed)


def join(signer_type: str, shown: bytes, sealed: bytes) -> Config:
    """The config that `split` took apart."""
    parts = msgspec.json.decode(shown, type=dict[str, msgspec.Raw])
    parts |= msgspec.json.decode(sealed, type=dict[str, msgspec.Raw])
    whole = msgspec.json.encode(parts)
    return msgspec.json.decode(whole, type=SHAPES[signer_type], dec_hook=decode_secret)


_KEY = re.compile(r"(0x)?[0-9a-fA-F]{64}")
CURVE_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141


def is_private_key(text: str) -> bool:
    """Whether `text` is 32 bytes of hex that are a key of the secp256k1 curve."""
    return bool(_KEY.fullmatch(text)) and 0 < int(text, 16) < CURVE_ORDER


def hints(config: Config) -> list[str]:
    """The values are stored anyway, and a hint never quotes one."""
    if isinstance(config, LocalConfig) and is_private_key(config.key.reveal()):
        return []  # by far the most frequent case
    found = [f"config.{name} is empty" for name in config.__struct_fields__ if _is_empty(getattr(config, name))]
    match config:
        case LocalConfig(key=key) if key.reveal():
            found.append("config.key is not a 32-byte hexadecimal private key, so it cannot sign")
        case WalletServiceConfig(account_address=address) if address and not is_evm_address(address):
            found.append("config.account_address is not a 20-byte hexadecimal address")
    address = getattr(config, "address", "")
    if address and (problem := key_system_address_problem(address)):
        found.append(f"config.address {problem}: nothing is sent there")
    namespace = getattr(config, "namespace", "")
    if namespace and (problem := header_value_problem(namespace)):
        found.append(f"config.namespace {problem}: nothing is sent with it")
    return found


def _is_empty(value: str | Secret | msgspec.Raw | msgspec.UnsetType) -> bool:
    return value == "" or (isinstance(value, Secret) and not value.reveal())
