"""Every body of the described interface, declared once. Requests are checked while they are decoded.

The OpenAPI document is derived from these types.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relaydeck.http.envelope import Failure as Failure
from relaydeck.http.envelope import LogEntry as LogEntry
from relaydeck.http.envelope import Metadata as Metadata
from relaydeck.http.envelope import Pagination as Pagination
from relaydeck.http.envelope import Success as Success
from relaydeck.secret import Secret
from relaydeck.signers.shapes import (
    KeyServiceConfig,
    KmsConfig,
    LocalConfig,
    SecondKmsConfig,
    SecretStoreConfig,
    TransitConfig,
    WalletServiceConfig,
)

# Requests: unknown fields are refused, null is refused unless a type says it.


class _SignerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    id: str | UnsetType = UNSET


class PlainSignerRequest(_SignerRequest, frozen=True, tag="plain"):
    config: LocalConfig


class ProviderAKmsSignerRequest(_SignerRequest, frozen=True, tag="provider_a_kms"):
    config: KmsConfig


class ProviderCSignerRequest(_SignerRequest, frozen=True, tag="provider_c"):
    config: SecretStoreConfig


class ProviderCTransitSignerRequest(_SignerRequest, frozen=True, tag="provider_c_transit"):
    config: TransitConfig


class ProviderDSignerRequest(_SignerRequest, frozen=True, tag="provider_d"):
    config: KeyServiceConfig


class ProviderESignerRequest(_SignerRequest, frozen=True, tag="provider_e"):
    config: WalletServiceConfig


class ProviderBKmsSignerRequest(_SignerRequest, frozen=True, tag="provider_b_kms"):
    config: SecondKmsConfig


SignerRequest = (
    PlainSignerRequest
    | ProviderAKmsSignerRequest
    | ProviderCSignerRequest
    | ProviderCTransitSignerRequest
    | ProviderDSignerRequest
    | ProviderESignerRequest
    | ProviderBKmsSignerRequest
)


class NotificationUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["webhook"] | UnsetType = UNSET
    url: str | UnsetType = UNSET
    signing_key: Secret | UnsetType | None = UNSET


class RpcRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`params` and `id` stay as they were sent: the method reads the one, the answer repeats the other."""

    jsonrpc: Literal["2.0"]
    method: str
    params: msgspec.Raw
    id: msgspec.Raw = msgspec.Raw(b"null")


# Responses.


class SignerView(msgspec.Struct, frozen=True):
    id: str
    type: str
    config: dict[str, str]


class NotificationView(msgspec.Struct, frozen=True):
    id: str
    type: Literal["webhook"]
    url: str
    has_signing_key: bool


class RpcUrlView(msgspec.Struct, frozen=True):
    url: str
    weight: int


class DisabledReasonView(msgspec.Struct, frozen=True):
    details: str
    type: str


Wei = Annotated[int, Meta(ge=0)]


class PoliciesView(msgspec.Struct, frozen=True, kw_only=True):
    eip1559_pricing: bool
    gas_limit_estimation: bool
    gas_price_cap: Wei | UnsetType = UNSET
    min_balance: Wei
    private_transactions: bool
    whitelist_receivers: tuple[str, ...]


class RelayerView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    network: str
    network_type: Literal["evm"]
    address: str
    signer_id: str
    notification_id: str | UnsetType = UNSET
    paused: bool
    system_disabled: bool
    disabled_reason: DisabledReasonView | UnsetType = UNSET
    custom_rpc_urls: tuple[RpcUrlView, ...] | UnsetType
    policies: PoliciesView


class FeeEstimateResult(msgspec.Struct, frozen=True, kw_only=True):
    conversion_rate: str
    estimated_fee: str
    method: Literal["feeEstimate"] = "feeEstimate"


class RpcErrorView(msgspec.Struct, frozen=True):
    code: int
    message: str
    description: str


class RpcResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of `result` and `error` is present."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: str | None
    result: FeeEstimateResult | UnsetType = UNSET
    error: RpcErrorView | UnsetType = UNSET
