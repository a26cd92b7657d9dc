"""The types of signers and the config of each.

A field of type Secret is secret, and so is a nested object (Raw), which is kept as it was sent and never inspected
or shown. Every other field may be shown to operators.
"""

from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relaydeck.basis import CONFIG_MEANING, FIELD_LENGTH, NESTED_OBJECTS, shown
from relaydeck.errors import BadRequest
from relaydeck.fields import field, fields_of
from relaydeck.identifiers import identifier_problem, new_identifier
from relaydeck.secret import Secret, decode_secret

# Bounds that no honest value meets: without them, each record could take as much memory as a body may have.
ConfigText = Annotated[str, Meta(max_length=4096)]
_LONGEST_OBJECT = 65_536


# The contract names the fields of each config with their types.
_SHOWN = shown("2.2").but(value=FIELD_LENGTH, meaning=CONFIG_MEANING)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


# sentence: 2.2-config-plain
class LocalConfig(Config, frozen=True):
    """A key that Relaydeck stores itself."""

    key: Annotated[
        Secret,
        field(
            "The private key. Secret. One that is not 32 bytes of hex is stored, with a hint in the logs.",
            basis=_SHOWN,
            example="0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
            write_only=True,
        ),
    ]


# sentence: 2.2-config-provider_a_kms
class KmsConfig(Config, frozen=True):
    """A key in a cloud key-management service."""

    key_id: Annotated[ConfigText, field("The provider's identifier of the key.", basis=_SHOWN, example="alias/ops")]
    region: Annotated[ConfigText, field("Region of the key.", basis=_SHOWN, example="eu-west-1")]


StoreAddress = Annotated[
    ConfigText, field("Address of the secret store.", basis=_SHOWN, example="https://secrets.example.com")
]
KeyName = Annotated[ConfigText, field("Name of the key in the store.", basis=_SHOWN, example="ops")]
RoleId = Annotated[Secret, field("Login role. Secret.", basis=_SHOWN, example="relaydeck", write_only=True)]
SecretId = Annotated[Secret, field("Login secret. Secret.", basis=_SHOWN, example="s.example", write_only=True)]
MountPoint = Annotated[
    ConfigText | UnsetType, field("Where the secrets engine is mounted.", basis=_SHOWN, example="transit")
]
Namespace = Annotated[ConfigText | UnsetType, field("Namespace within the store.", basis=_SHOWN, example="ops")]


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
    pubkey: Annotated[ConfigText, field("Public half of the key.", basis=_SHOWN, example="Ag4v6z4l")]
    role_id: RoleId
    secret_id: SecretId
    mount_point: MountPoint = UNSET
    namespace: Namespace = UNSET


# sentence: 2.2-config-provider_d
class KeyServiceConfig(Config, frozen=True):
    """A key in a key service."""

    api_private_key: Annotated[
        Secret, field("Private half of the API key. Secret.", basis=_SHOWN, example="example", write_only=True)
    ]
    api_public_key: Annotated[ConfigText, field("Public half of the API key.", basis=_SHOWN, example="03b1")]
    organization_id: Annotated[ConfigText, field("Organization that owns the key.", basis=_SHOWN, example="org-1")]
    private_key_id: Annotated[ConfigText, field("The service's identifier of the key.", basis=_SHOWN, example="key-1")]
    public_key: Annotated[ConfigText, field("Public half of the key.", basis=_SHOWN, example="04f2")]


# sentence: 2.2-config-provider_e
class WalletServiceConfig(Config, frozen=True):
    """An account in a wallet service."""

    account_address: Annotated[
        ConfigText, field("Address of the account.", basis=_SHOWN, example="0x2c7536e3605d9c16a7a3d7b1898e529396a65c23")
    ]
    api_key_id: Annotated[ConfigText, field("Identifier of the API key.", basis=_SHOWN, example="key-1")]
    api_key_secret: Annotated[
        Secret, field("Secret of the API key. Secret.", basis=_SHOWN, example="example", write_only=True)
    ]
    wallet_secret: Annotated[
        Secret, field("Secret of the wallet. Secret.", basis=_SHOWN, example="example", write_only=True)
    ]


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
    named: bool = True  # whether the caller chose the id, which can then be in use
    set_locally: bool | None = None  # by a command on the server's machine; None: it is not stored


# sentence: 2.2-id-given 2.2-id-generated
def new_signer(signer_type: str, config: Config, signer_id: str | UnsetType) -> NewSigner:
    """A signer to create, with a generated id when none is given. Raises BadRequest."""
    if problem := nested_object_problem(config):
        raise BadRequest(problem)
    if signer_id is UNSET:
        return NewSigner(new_identifier(), signer_type, config, named=False)
    if problem := identifier_problem(signer_id):
        raise BadRequest(f"id {problem}")
    return NewSigner(signer_id, signer_type, config)


# sentence: 2.2-no-secrets
def split(config: Config) -> tuple[dict[str, str], bytes]:
    """Split a config into the fields that may be shown and the JSON of the fields that must be sealed."""
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
