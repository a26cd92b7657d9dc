"""What a caller sends, typed: the fields of each request."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

SignerType = Literal[
    "plain", "provider_a_kms", "provider_b_kms", "provider_c", "provider_c_transit", "provider_d", "provider_e"
]
TokenKind = Literal["api", "readonly", "admin"]
RelayerStateName = Literal["active", "paused", "disabled"]
SignerCheckState = Literal["ok", "failing", "none"]
TokenState = Literal["live", "expired", "revoked"]
DeliveryState = Literal["pending", "delivered", "dead"]
Order = Literal["oldest", "newest"]


class LocalConfig(TypedDict):
    key: str


class KmsConfig(TypedDict):
    key_id: str
    region: str


class SecondKmsConfig(TypedDict):
    key: Mapping[str, Any]
    service_account: Mapping[str, Any]


class SecretStoreConfig(TypedDict):
    address: str
    key_name: str
    role_id: str
    secret_id: str
    mount_point: NotRequired[str]
    namespace: NotRequired[str]


class TransitConfig(SecretStoreConfig):
    pubkey: str


class KeyServiceConfig(TypedDict):
    api_private_key: str
    api_public_key: str
    organization_id: str
    private_key_id: str
    public_key: str


class WalletServiceConfig(TypedDict):
    account_address: str
    api_key_id: str
    api_key_secret: str
    wallet_secret: str


SignerConfig = (
    LocalConfig
    | KmsConfig
    | SecondKmsConfig
    | SecretStoreConfig
    | TransitConfig
    | KeyServiceConfig
    | WalletServiceConfig
)


class NodeHeaderDocument(TypedDict):
    """No response contains the value. Left out, the stored one stays, as long as the list is otherwise the same."""

    name: str
    value: NotRequired[str]


class RpcUrlDocument(TypedDict):
    url: str
    weight: NotRequired[int]
    headers: NotRequired[Sequence[NodeHeaderDocument]]


class PoliciesDocument(TypedDict, total=False):
    """In a change, None removes a value."""

    eip1559_pricing: bool | None
    gas_limit_estimation: bool | None
    gas_price_cap: int | None
    min_balance: int | None
    private_transactions: bool | None
    whitelist_receivers: Sequence[str] | None


FeeModel = Literal["ethereum", "op_stack", "arbitrum", "scroll", "zksync", "gas_limit_charged"]


class NetworkDocument(TypedDict):
    name: str
    network_type: Literal["evm"]
    chain_id: int
    native_symbol: str
    rpc_urls: NotRequired[Sequence[RpcUrlDocument]]
    fee_tokens: NotRequired[Mapping[str, Mapping[str, Any]]]
    fee_model: NotRequired[FeeModel]
    tip_floor: NotRequired[int]
    tip_ceiling: NotRequired[int]
    gas_limit_cap: NotRequired[int]
    sequencer_feed: NotRequired[str]
    sequencer_grace_seconds: NotRequired[int]
    max_lag_blocks: NotRequired[int]
    price_factor: NotRequired[int]
    quorum: NotRequired[int]
    runway_warn_hours: NotRequired[int]


class NetworkChange(TypedDict, total=False):
    chain_id: int
    native_symbol: str
    rpc_urls: Sequence[RpcUrlDocument] | None
    fee_tokens: Mapping[str, Mapping[str, Any] | None] | None
    fee_model: FeeModel | None
    tip_floor: int | None
    tip_ceiling: int | None
    gas_limit_cap: int | None
    sequencer_feed: str | None
    sequencer_grace_seconds: int | None
    max_lag_blocks: int | None
    price_factor: int | None
    quorum: int | None
    runway_warn_hours: int | None


class NotificationChange(TypedDict, total=False):
    type: Literal["webhook"]
    url: str
    signing_key: str | None


class RelayerDocument(TypedDict):
    id: NotRequired[str]
    name: str
    network: str
    network_type: Literal["evm"]
    signer_id: str
    address: NotRequired[str]
    notification_id: NotRequired[str]
    custom_rpc_urls: NotRequired[Sequence[RpcUrlDocument]]
    policies: NotRequired[PoliciesDocument]
    runway_warn_hours: NotRequired[int]


class RelayerChange(TypedDict, total=False):
    name: str
    network: str
    signer_id: str
    address: str
    notification_id: str | None
    custom_rpc_urls: Sequence[RpcUrlDocument] | None
    policies: PoliciesDocument | None
    runway_warn_hours: int | None
