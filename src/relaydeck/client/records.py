# Generated from `relaydeck.api` by `make docs`: do not edit.
"""What the service returns and takes, typed.

Unknown fields are ignored, so a newer service does not break an older client. A field that a response leaves out is
None: those that only `/admin/v1` returns, such as `created_at`, and the URLs of nodes when the service cannot open the
stored value; `meta.logs` says so. Amounts are whole Wei of any size, or Decimal.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from relaydeck.client.calls import Record


class NodeHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A header of every request to a node, for example with a key."""

    name: str


class RpcUrl(msgspec.Struct, frozen=True, kw_only=True):
    """The URL of a node and its share of the calls. Path, query and user part may contain a key."""

    url: str
    weight: int = 1
    headers: tuple[NodeHeader, ...] = ()

    def __repr__(self) -> str:
        """Without path and query, which may hold a key."""
        scheme, _, rest = self.url.partition("://")
        host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
        return f"RpcUrl(url='{scheme}://{host}/…', weight={self.weight})"


class FeeToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that can pay a fee, and the source of its rate."""

    address: str
    decimals: int
    rate: dict[str, Any]
    margin_percent: Decimal = Decimal("0")


class Network(Record, frozen=True, kw_only=True):
    name: str
    network_type: str
    chain_id: int
    native_symbol: str
    rpc_urls: tuple[RpcUrl, ...] | None = None
    fee_tokens: dict[str, FeeToken] = msgspec.field(default_factory=dict)
    runway_warn_hours: int | None = None
    max_lag_blocks: int | None = None
    quorum: int | None = None
    fee_model: str = "ethereum"
    tip_floor: int | None = None
    tip_ceiling: int | None = None
    fee_horizon_blocks: int | None = None
    gas_limit_cap: int | None = None
    block_seconds: Decimal | None = None
    base_fee_rule: str | None = None
    base_fee_denominator: int | None = None
    base_fee_elasticity: int | None = None
    gas_margin_percent: int | None = None
    sequencer_feed: str | None = None
    sequencer_grace_seconds: int | None = None
    labels: dict[str, Any] | None = None
    created_at: datetime | None = None


class SignerCheck(Record, frozen=True, kw_only=True):
    outcome: str
    explanation: str
    address: str | None
    mismatched_relayers: tuple[str, ...]
    checked_at: datetime
    milliseconds: int | None


class Signer(Record, frozen=True, kw_only=True):
    id: str
    type: str
    config: dict[str, Any]
    labels: dict[str, Any] | None = None
    check: SignerCheck | None = None
    created_at: datetime | None = None


class SignerDriver(Record, frozen=True, kw_only=True):
    type: str
    driver: str


class Notification(Record, frozen=True, kw_only=True):
    id: str
    type: str
    url: str
    labels: dict[str, Any] | None = None
    has_signing_key: bool
    created_at: datetime | None = None


class Event(Record, frozen=True, kw_only=True):
    """An event as a receiver gets it and as the event log shows it."""

    id: str
    type: str
    timestamp: datetime
    sequence: int
    version: int
    data: dict[str, Any]


class Replayed(Record, frozen=True, kw_only=True):
    replayed: int


class DisabledReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why the service disabled a relayer."""

    details: str
    type: str


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """The effective policies of a relayer on an EVM network."""

    eip1559_pricing: bool = True
    gas_limit_estimation: bool = True
    gas_price_cap: int | None = None
    min_balance: int = 0
    private_transactions: bool = False
    whitelist_receivers: tuple[str, ...] = ()


class Relayer(Record, frozen=True, kw_only=True):
    id: str
    name: str
    network: str
    network_type: str
    address: str
    signer_id: str
    notification_id: str | None = None
    paused: bool
    system_disabled: bool
    disabled_reason: DisabledReason | None = None
    custom_rpc_urls: tuple[RpcUrl, ...] | None = None
    runway_warn_hours: int | None = None
    labels: dict[str, Any] | None = None
    policies: Policies
    created_at: datetime | None = None


class RelayerState(msgspec.Struct, frozen=True, kw_only=True):
    state: str
    since: datetime | None
    by: str | None
    cause: str


class RelayerNode(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    weight: int
    ok: bool
    problem: str | None
    chain_id: int | None
    block: int | None
    blocks_behind: int | None
    milliseconds: int
    last_fault: str | None
    last_fault_at: datetime | None
    last_problem: str | None
    last_problem_at: datetime | None


class Explanation(Record, frozen=True, kw_only=True):
    id: str
    address: str
    network: str
    states: tuple[RelayerState, ...]
    nodes: tuple[RelayerNode, ...]
    monitor: str
    next_probe_at: datetime | None
    signer_check: str | None = None


class TopUp(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    amount: int


class BalancePoint(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    balance: int | None


class BalanceHistory(Record, frozen=True, kw_only=True):
    relayer_id: str
    start: datetime
    end: datetime
    step: str
    balance: int | None
    seen_at: datetime | None
    spent: int
    top_ups: tuple[TopUp, ...]
    points: tuple[BalancePoint, ...]


class EstimateReport(Record, frozen=True, kw_only=True):
    steps: tuple[dict[str, Any], ...]
    error: dict[str, Any] | None = None


class RunwayTime(msgspec.Struct, frozen=True, kw_only=True):
    seconds: int
    earliest_seconds: int
    latest_seconds: int | None


class Runway(Record, frozen=True, kw_only=True):
    relayer_id: str
    name: str
    address: str
    network: str
    native_symbol: str
    balance: int | None
    balance_at: datetime | None
    min_balance: int
    warn_hours: int
    low: bool
    unknown: str | None
    spent_per_hour: int | None
    window: str | None
    until_minimum: RunwayTime | None
    until_zero: RunwayTime | None
    days: int
    needed: int | None
    top_ups: tuple[TopUp, ...]


class FirstRunways(Record, frozen=True, kw_only=True):
    runways: tuple[Runway, ...]


class PlannedField(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    before: str
    after: str


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    action: str
    kind: str
    name: str
    fields: tuple[PlannedField, ...]
    title: str = ""


class ApplyReport(Record, frozen=True, kw_only=True):
    applied: bool
    revision: str
    steps: tuple[PlannedStep, ...]
    notes: tuple[str, ...]


class ExportedFile(Record, frozen=True, kw_only=True):
    toml: str


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    relayers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    labels: dict[str, Any] = {}


class Restrictions(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a credential differ from others of its role."""

    scope: Scope | None = None
    addresses: tuple[str, ...] = ()
    rate: int = 0
    burst: int = 0
    approve: bool = False


class Token(Restrictions, frozen=True, kw_only=True):
    name: str
    kind: str
    state: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    migrated: bool
    purpose: str
    made_by: str | None
    last_used_at: datetime | None
    last_used_from: str | None


class NewToken(Token, frozen=True, kw_only=True):
    token: str

    def __repr__(self) -> str:
        return f"NewToken(name={self.name!r}, kind={self.kind!r}, token='***')"


class RotatedToken(NewToken, frozen=True, kw_only=True):
    old_name: str | None

    def __repr__(self) -> str:
        return f"RotatedToken(name={self.name!r}, kind={self.kind!r}, token='***')"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    duration_ms: int
    status: int | None
    problem: str | None
    answer: str


class Delivery(Record, frozen=True, kw_only=True):
    id: str
    sequence: int
    type: str
    notification_id: str
    relayer_id: str | None
    state: str
    tries: int
    created_at: datetime
    next_try_at: datetime | None
    waits_for: str | None
    finished_at: datetime | None
    last_status: int | None
    last_problem: str | None
    attempts: tuple[Attempt, ...] = ()


class AuditEntry(Record, frozen=True, kw_only=True):
    sequence: int
    at: datetime
    actor: str
    action: str
    record: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    hash: str
    origin: str | None = None


class AuditHead(Record, frozen=True, kw_only=True):
    head: str


class AuditVerification(Record, frozen=True, kw_only=True):
    """Either `entries` and `head`, or `problem`, with `broken_at` if it is about an entry."""

    entries: int | None
    head: str | None
    broken_at: int | None
    problem: str | None
    archived: int
    archived_until: str | None


class WhoAmI(Restrictions, frozen=True, kw_only=True):
    actor: str
    role: str
    permissions: tuple[str, ...]
    rule: str
    expires_at: datetime | None


class Found(Record, frozen=True, kw_only=True):
    """A record that a search found."""

    kind: str
    id: str
    name: str
    network: str | None = None
    address: str | None = None


class AffectedRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    note: str
    until: datetime
    by: str
    at: datetime


class FleetProblem(Record, frozen=True, kw_only=True):
    """Records with the same problem are one, so that its cause stands out."""

    id: str
    state: str
    kind: str
    network: str | None
    native_symbol: str | None
    cause: str
    since: datetime | None
    total: int
    records: tuple[AffectedRecord, ...]
    acknowledgement: Acknowledgement | None = None


class ProtectionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which records are protected: every change of one becomes a proposal."""

    name: str
    kinds: tuple[str, ...] = ()
    scope: Scope | None = None
    note: str = ""
    closed: bool = False


class Protection(ProtectionRequest, frozen=True, kw_only=True):
    made_by: str
    created_at: datetime


class Proposal(Record, frozen=True, kw_only=True):
    """A change of protected records that waits for the approval of another, or did."""

    id: str
    state: str
    operation: str
    author: str
    reason: str
    protections: tuple[str, ...]
    revision: str
    steps: tuple[PlannedStep, ...]
    created_at: datetime
    expires_at: datetime
    decided_by: str | None
    decided_at: datetime | None
    decision: str


class Finding(Record, frozen=True, kw_only=True):
    """The result of one check."""

    result: str
    subject: str
    remark: str


SignerType = Literal[
    "plain", "provider_a_kms", "provider_c", "provider_c_transit", "provider_d", "provider_e", "provider_b_kms"
]


class LocalConfig(TypedDict):
    """A key that Relaydeck stores itself."""

    key: str


class KmsConfig(TypedDict):
    """A key in a cloud key-management service."""

    key_id: str
    region: str


class SecretStoreConfig(TypedDict):
    """A key kept in a secret store, which returns it."""

    address: str
    key_name: str
    role_id: str
    secret_id: str
    mount_point: NotRequired[str]
    namespace: NotRequired[str]


class TransitConfig(TypedDict):
    """A key kept in a secret store, which signs with it."""

    address: str
    key_name: str
    pubkey: str
    role_id: str
    secret_id: str
    mount_point: NotRequired[str]
    namespace: NotRequired[str]


class KeyServiceConfig(TypedDict):
    """A key in a key service."""

    api_private_key: str
    api_public_key: str
    organization_id: str
    private_key_id: str
    public_key: str


class WalletServiceConfig(TypedDict):
    """An account in a wallet service."""

    account_address: str
    api_key_id: str
    api_key_secret: str
    wallet_secret: str


class SecondKmsConfig(TypedDict):
    """A key in the second cloud key-management service."""

    key: Mapping[str, Any]
    service_account: Mapping[str, Any]


SignerConfig = (
    LocalConfig
    | KmsConfig
    | SecretStoreConfig
    | TransitConfig
    | KeyServiceConfig
    | WalletServiceConfig
    | SecondKmsConfig
)


class NodeHeaderDocument(TypedDict):
    """A header of every request to a node, for example with a key."""

    name: str
    value: NotRequired[str]


class RpcUrlDocument(TypedDict):
    """The URL of a node and its share of the calls. Path, query and user part may contain a key."""

    url: str
    weight: NotRequired[int]
    headers: NotRequired[Sequence[NodeHeaderDocument]]


class NetworkOptions(TypedDict, total=False):
    rpc_urls: Sequence[RpcUrlDocument] | None
    fee_tokens: Mapping[str, Mapping[str, Any] | None] | None
    runway_warn_hours: int | None
    max_lag_blocks: int | None
    quorum: int | None
    fee_model: (
        Literal["ethereum", "op_stack", "mantle", "celo", "arbitrum", "scroll", "linea", "zksync", "gas_limit_charged"]
        | None
    )
    tip_floor: int | None
    tip_ceiling: int | None
    fee_horizon_blocks: int | None
    gas_limit_cap: int | None
    block_seconds: Decimal | None
    base_fee_rule: Literal["eip1559", "op_stack", "constant", "acp176", "nodes"] | None
    base_fee_denominator: int | None
    base_fee_elasticity: int | None
    gas_margin_percent: int | None
    sequencer_feed: str | None
    sequencer_grace_seconds: int | None
    labels: Mapping[str, Any] | None
    chain: str | None


class NetworkChange(NetworkOptions, total=False):
    network_type: Literal["evm"]
    chain_id: int
    native_symbol: str


class NotificationOptions(TypedDict, total=False):
    signing_key: str | None
    labels: Mapping[str, Any] | None


class NotificationChange(NotificationOptions, total=False):
    type: Literal["webhook"]
    url: str


class PoliciesDocument(TypedDict, total=False):
    """In a change, None removes a value."""

    eip1559_pricing: bool | None
    gas_limit_estimation: bool | None
    gas_price_cap: int | None
    min_balance: int | None
    private_transactions: bool | None
    whitelist_receivers: Sequence[str] | None


class RelayerOptions(TypedDict, total=False):
    address: str | None
    notification_id: str | None
    custom_rpc_urls: Sequence[RpcUrlDocument] | None
    runway_warn_hours: int | None
    labels: Mapping[str, Any] | None
    policies: PoliciesDocument | None


class RelayerChange(RelayerOptions, total=False):
    name: str
    network: str
    network_type: Literal["evm"]
    signer_id: str
