"""What the service returns, typed. Unknown fields are ignored, so a newer service does not break an older client.

Fields that only `/admin/v1` returns (`created_at`) are None on `/api/v1`.
"""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

T = TypeVar("T")
_MOST_DIGITS = 18


class Headers(Protocol):
    """Case-insensitive look-up."""

    def get(self, name: str, /) -> str | None: ...


def whole_number(text: str) -> int | None:
    """The number in a header; None when it is not one that the service sends."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


class Meta:
    """What arrived beside a record: `logs` are the service's hints, `etag` goes into `if_match`."""

    __slots__ = ("_headers", "logs", "recognised")

    def __init__(self, headers: Headers, logs: tuple[str, ...] = (), *, recognised: bool = False) -> None:
        self._headers = headers
        self.logs = logs
        self.recognised = recognised

    @property
    def etag(self) -> str:
        return self._headers.get("ETag") or ""

    @property
    def request_id(self) -> str:
        return self._headers.get("X-Request-Id") or ""

    @property
    def stale_seconds(self) -> int | None:
        """How old the list is while the service cannot reach its database; None when it is current."""
        return whole_number(self._headers.get("Relaydeck-Stale") or "")


class Record(msgspec.Struct, frozen=True, dict=True):
    """`meta` describes the response that a record arrived in alone; it takes no part in comparisons."""

    @property
    def meta(self) -> Meta:
        return self.__dict__.get("meta") or Meta({})


def with_meta(record: T, meta: Meta) -> T:
    if isinstance(record, Record):
        record.__dict__["meta"] = meta
    return record


class Pagination(msgspec.Struct, frozen=True):
    current_page: int
    per_page: int
    total_items: int


class Page(Generic[T]):
    """One page of a list. `pagination` is None where a list is read on by sequence number (events, deliveries)."""

    __slots__ = ("items", "meta", "pagination")

    def __init__(self, items: tuple[T, ...], pagination: Pagination | None, meta: Meta) -> None:
        self.items = items
        self.pagination = pagination
        self.meta = meta

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Page(items={self.items!r}, pagination={self.pagination!r})"

    @property
    def total_items(self) -> int:
        return len(self.items) if self.pagination is None else self.pagination.total_items


class Body(NamedTuple):
    """A response as JSON values: `data` of its envelope, and what came beside it."""

    data: Any
    pagination: Pagination | None
    meta: Meta


class SignerCheck(Record, frozen=True, kw_only=True):
    """Whether a signer reaches its key; `outcome` is `ok` if it does."""

    outcome: str
    explanation: str
    address: str | None
    mismatched_relayers: tuple[str, ...]
    checked_at: datetime
    milliseconds: int | None


class SignerDriver(msgspec.Struct, frozen=True):
    type: str
    driver: str


class Signer(Record, frozen=True):
    """`config` holds no secret. A signer of type `plain` is returned as `local`. `check` is its latest one."""

    id: str
    type: str
    config: dict[str, Any]
    check: SignerCheck | None = None
    created_at: datetime | None = None


class Notification(Record, frozen=True):
    id: str
    type: str
    url: str
    has_signing_key: bool
    created_at: datetime | None = None


class NodeHeader(msgspec.Struct, frozen=True):
    """A header that a node gets with each request. No response contains its value."""

    name: str


class RpcUrl(msgspec.Struct, frozen=True):
    """`url` may hold a key, so the repr shows neither path nor query."""

    url: str
    weight: int = 1
    headers: tuple[NodeHeader, ...] = ()

    def __repr__(self) -> str:
        scheme, _, rest = self.url.partition("://")
        host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
        return f"RpcUrl(url='{scheme}://{host}/…', weight={self.weight})"


class DisabledReason(msgspec.Struct, frozen=True):
    type: str
    details: str


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts are whole Wei of any size."""

    eip1559_pricing: bool = True
    gas_limit_estimation: bool = True
    gas_price_cap: int | None = None
    min_balance: int = 0
    private_transactions: bool = False
    whitelist_receivers: tuple[str, ...] = ()


class Relayer(Record, frozen=True, kw_only=True):
    """`custom_rpc_urls` is None when the service could not open the stored value; `meta.logs` says so."""

    id: str
    name: str
    network: str
    network_type: str
    address: str
    signer_id: str
    paused: bool
    system_disabled: bool
    policies: Policies
    notification_id: str | None = None
    disabled_reason: DisabledReason | None = None
    custom_rpc_urls: tuple[RpcUrl, ...] | None = None
    runway_warn_hours: int | None = None
    created_at: datetime | None = None


class FeeEstimate(Record, frozen=True):
    """`estimated_fee` in whole units of the fee token; `conversion_rate`: units of it for one native coin."""

    conversion_rate: Decimal
    estimated_fee: Decimal
    method: str


class FeeToken(msgspec.Struct, frozen=True, kw_only=True):
    address: str
    decimals: int
    rate: dict[str, Any]
    margin_percent: Decimal = Decimal(0)


class Network(Record, frozen=True, kw_only=True):
    """`rpc_urls` is None when the service could not open the stored value."""

    name: str
    network_type: str
    chain_id: int
    native_symbol: str
    rpc_urls: tuple[RpcUrl, ...] | None = None
    fee_tokens: dict[str, FeeToken] = {}
    fee_model: str = "ethereum"
    tip_floor: int | None = None
    tip_ceiling: int | None = None
    gas_limit_cap: int | None = None
    sequencer_feed: str | None = None
    sequencer_grace_seconds: int | None = None
    max_lag_blocks: int | None = None
    price_factor: int | None = None
    quorum: int | None = None
    runway_warn_hours: int | None = None
    created_at: datetime | None = None


class RelayerState(msgspec.Struct, frozen=True):
    """One thing that is wrong with a relayer, and what to do about it."""

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
    milliseconds: int
    blocks_behind: int | None = None
    last_fault: str | None = None
    last_fault_at: datetime | None = None
    last_problem: str | None = None
    last_problem_at: datetime | None = None


class Explanation(Record, frozen=True, kw_only=True):
    """The answer to why a relayer is in its state; its nodes are queried for it."""

    id: str
    address: str
    network: str
    states: tuple[RelayerState, ...]
    nodes: tuple[RelayerNode, ...]
    monitor: str
    next_probe_at: datetime | None = None
    signer_check: str | None = None


class BalancePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A balance in Wei; None where it is not known."""

    at: datetime
    balance: int | None


class TopUp(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    amount: int


class BalanceHistory(Record, frozen=True, kw_only=True):
    """The balance of a relayer at each `step` from `start` to `end`. Amounts are Wei."""

    relayer_id: str
    start: datetime
    end: datetime
    step: str
    balance: int | None
    seen_at: datetime | None
    spent: int
    top_ups: tuple[TopUp, ...]
    points: tuple[BalancePoint, ...]


class RunwayTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from now, expected and in a range; `latest_seconds` is None when it has no end."""

    seconds: int
    earliest_seconds: int
    latest_seconds: int | None


class Runway(Record, frozen=True, kw_only=True):
    """How long a balance lasts. `unknown` says why there is no forecast. Amounts are Wei."""

    relayer_id: str
    network: str
    native_symbol: str
    balance: int | None
    min_balance: int
    warn_hours: int
    low: bool
    unknown: str | None
    spent_per_hour: int | None
    window: str | None
    until_minimum: RunwayTime | None
    until_zero: RunwayTime | None
    top_ups: tuple[TopUp, ...]


class FirstRunways(Record, frozen=True, kw_only=True):
    """What runs out first, the first one first."""

    runways: tuple[Runway, ...]


class Token(Record, frozen=True, kw_only=True):
    name: str
    kind: str
    state: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    migrated: bool = False


class NewToken(Token, frozen=True, kw_only=True):
    """`token` is the credential itself; the service does not show it again."""

    token: str

    def __repr__(self) -> str:
        return f"NewToken(name={self.name!r}, kind={self.kind!r}, token='***')"


class Event(Record, frozen=True, kw_only=True):
    id: str
    type: str
    timestamp: datetime
    sequence: int
    version: int
    data: dict[str, Any]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    duration_ms: int
    status: int | None
    problem: str | None
    answer: str | None


class Delivery(Record, frozen=True, kw_only=True):
    """`attempts` is filled when one delivery is read alone."""

    id: str
    sequence: int
    type: str
    notification_id: str
    relayer_id: str | None
    state: str
    tries: int
    created_at: datetime
    next_try_at: datetime | None = None
    finished_at: datetime | None = None
    last_status: int | None = None
    last_problem: str | None = None
    attempts: tuple[Attempt, ...] = ()


class Replayed(Record, frozen=True):
    replayed: int


class PlannedField(msgspec.Struct, frozen=True):
    """Both values are empty for a secret, which has changed."""

    name: str
    before: str
    after: str


class PlannedStep(msgspec.Struct, frozen=True):
    """`title` is the name of a relayer, if `name` is its id."""

    action: str
    kind: str
    name: str
    fields: tuple[PlannedField, ...]
    title: str = ""


class ApplyReport(Record, frozen=True):
    """`revision` identifies the plan; `applied` is false for a plan alone."""

    applied: bool
    revision: str
    steps: tuple[PlannedStep, ...]
    notes: tuple[str, ...] = ()


class ExportedFile(Record, frozen=True):
    toml: str


class EstimateReport(Record, frozen=True):
    """Each step of an estimate with its facts; amounts are text. `error` says why there is no estimate."""

    steps: tuple[dict[str, Any], ...]
    error: dict[str, Any] | None = None


class AuditHead(Record, frozen=True):
    head: str


class AuditVerification(Record, frozen=True):
    """`entries` and `head` if every link holds, else `broken_at` and `problem`."""

    entries: int | None
    head: str | None
    broken_at: int | None
    problem: str | None


class Finding(Record, frozen=True):
    """The result of one check: `ok`, `warn` or `FAIL`."""

    result: str
    subject: str
    remark: str


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
