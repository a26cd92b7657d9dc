"""Bodies that only the admin API has: signers without their secrets, tokens, deliveries and the audit log.

The records themselves are declared in their packages, an event in `notifications` and the explanation of a relayer's
state in `relayers`.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relaydeck.credentials.grants import Restrictions
from relaydeck.fields import example_of
from relaydeck.fields import own_field as field
from relaydeck.http.envelope import Success
from relaydeck.identifiers import Identifier
from relaydeck.quantities import Moment, Whole
from relaydeck.roles import Role, describe_roles
from relaydeck.scope import MOST_LABELS, Label, OwnLabels, Scope
from relaydeck.secret import Secret
from relaydeck.signers.check import SignerCheckReport
from relaydeck.signers.signer_types import SHAPES, SecretStoreConfig, response_type

_STATE = "Whether it is accepted. `refused`: Relaydeck did not write the stored token as it is."
_KIND = f"What the token grants access to: {describe_roles('`')}."
_MOMENT = "2026-01-31T12:00:00Z"
_PRECISE_MOMENT = "2026-01-31T12:00:00.250Z"


CreatedAt = Annotated[Moment, field("When it was created, in UTC.", example=_MOMENT)]


class Created(msgspec.Struct, frozen=True):
    """What the service adds to a record in every response."""

    created_at: CreatedAt


class AdminSuccess(Success, frozen=True, kw_only=True):
    """The envelope of every success under `/admin/v1`."""

    changed: Annotated[
        bool | UnsetType, field("Of a change: whether it made a difference. Left out by any other.", example=True)
    ] = UNSET


class SignerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signer to create. The document at `/openapi.json` has the shape of `config` for each `type`."""

    type: Annotated[str, field("Type.", example="provider_c", schema={"enum": list(SHAPES)})]
    config: Annotated[
        msgspec.Raw, field("The fields of its type.", example=example_of(SecretStoreConfig), schema={"type": "object"})
    ]
    id: Annotated[Identifier | UnsetType, field("Identifier. Left out, a UUID is generated.", example="ops")] = UNSET
    labels: OwnLabels = UNSET


class SignerChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be changed of a signer: its labels, by a merge patch. Its key material never changes."""

    labels: Annotated[
        Annotated[dict[Label, Label | None], Meta(max_length=MOST_LABELS)] | UnsetType,
        field("Labels to set; null removes one.", example={"team": "payments"}),
    ] = UNSET


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[Identifier, field("Identifier.", example="ops")]
    type: Annotated[
        str, field("Type.", example="provider_c", schema={"enum": sorted({response_type(each) for each in SHAPES})})
    ]
    config: Annotated[
        dict[str, Any],
        field(
            "The fields of its type that are not secret.",
            example={"address": "https://secrets.example.com", "key_name": "ops"},
        ),
    ]
    labels: OwnLabels = UNSET
    check: Annotated[
        SignerCheckReport | None,
        field(
            "Its latest check; null: none yet, because its type has no driver or its turn has not come.",
            example=example_of(SignerCheckReport),
        ),
    ]
    created_at: CreatedAt


_PURPOSE = field("What it is for.", example="the nightly job")
Purpose = Annotated[str, Meta(max_length=255)]


class TokenRequest(Restrictions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: Annotated[Identifier, field("Name; the audit log shows it.", example="ci")]
    kind: Annotated[Role, field(_KIND, example="readonly")] = Role.API
    expires: Annotated[
        str | UnsetType,
        field(
            "How long the token is valid: 45m, 12h, 30d, 8w. Left out: forever.",
            example="30d",
            schema={"pattern": "^[1-9][0-9]{0,5}[mhdw]$"},
        ),
    ] = UNSET
    purpose: Annotated[Purpose, _PURPOSE] = ""


class RotationRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    overlap: Annotated[
        str | UnsetType,
        field(
            "How long the old secret works beside the new one: 45m, 12h, 30d, 8w. Left out: not at all.",
            example="24h",
            schema={"pattern": "^[1-9][0-9]{0,5}[mhdw]$"},
        ),
    ] = UNSET


class Token(Restrictions, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=False):
    name: Annotated[Identifier, field("Name.", example="ci")]
    kind: Annotated[Role, field(_KIND, example="readonly")]
    state: Annotated[Literal["live", "expired", "revoked", "refused"], field(_STATE, example="live")]
    created_at: CreatedAt
    expires_at: Annotated[Moment | None, field("When it expires, in UTC; null: never.", example=None)]
    revoked_at: Annotated[Moment | None, field("When it was revoked, in UTC.", example=None)]
    migrated: Annotated[bool, field("Whether an upgrade was first to prove its row, as it found it.", example=False)]
    purpose: Annotated[Purpose, _PURPOSE]
    made_by: Annotated[str | None, field("Who made it; null: not recorded.", example="cli:alice")]
    last_used_at: Annotated[
        Moment | None, field("When it was last used, in UTC, to the minute; null: no use is recorded.", example=_MOMENT)
    ]
    last_used_from: Annotated[str | None, field("The interface and the address of that use.", example="admin 10.1.2.3")]


class NewToken(Token, frozen=True, kw_only=True):
    token: Annotated[str, field("The token itself. It is not shown again.", example="rdk_example")]


class RotatedToken(NewToken, frozen=True, kw_only=True):
    old_name: Annotated[
        str | None,
        field("The name under which the old secret is listed while it works; null: it works no more.", example=None),
    ]


class WhoAmI(Restrictions, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=False):
    actor: Annotated[str, field("Who you are, as the audit log names you.", example="token:ci")]
    role: Annotated[str, field("Your role.", example="editor")]
    permissions: Annotated[tuple[str, ...], field("What it grants.", example=["list", "look", "view"])]
    rule: Annotated[str, field("Why you have this role.", example="the token ci")]
    expires_at: Annotated[Moment | None, field("Until when, in UTC; null: it does not end.", example=None)]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    at: Annotated[Moment, field("When it began, in UTC.", example=_PRECISE_MOMENT)]
    duration_ms: Annotated[Whole, field("How long it took.", example=38)]
    status: Annotated[Whole | None, field("HTTP status of the response.", example=503)]
    problem: Annotated[str | None, field("What went wrong.", example=None)]
    answer: Annotated[str, field("The first bytes of the response.", example="try later")]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, field("The event's identifier.", example="evt_8a5c1a8e-0f0e-7d27-9d3c-0a3f4f0f8a11")]
    sequence: Annotated[Whole, field("The event's sequence number.", example=42)]
    type: Annotated[str, field("The event's type.", example="relayer.paused")]
    notification_id: Annotated[str, field("The notification it goes to.", example="pager")]
    relayer_id: Annotated[str | None, field("The relayer it is about.", example="sepolia-1")]
    state: Annotated[
        Literal["pending", "delivered", "dead"],
        field("Whether it is on its way, has arrived, or was given up.", example="pending"),
    ]
    tries: Annotated[Whole, field("How many attempts count since it was recorded or last sent again.", example=1)]
    created_at: Annotated[Moment, field("When the event happened, in UTC.", example=_PRECISE_MOMENT)]
    next_try_at: Annotated[
        Moment | None,
        field(
            "When the next attempt is due, in UTC; null while an earlier delivery is pending, and when finished.",
            example=_PRECISE_MOMENT,
        ),
    ]
    waits_for: Annotated[
        str | None,
        field(
            "The pending delivery of an earlier event of the relayer that it waits for; null if it waits for none.",
            example=None,
        ),
    ]
    finished_at: Annotated[Moment | None, field("When it arrived or was given up, in UTC.", example=None)]
    last_status: Annotated[Whole | None, field("HTTP status of the last response.", example=503)]
    last_problem: Annotated[str | None, field("What went wrong last.", example=None)]


class DeliveryWithAttempts(Delivery, frozen=True, kw_only=True):
    attempts: Annotated[tuple[Attempt, ...], field("The newest 100 attempts, oldest first.")]


class Replayed(msgspec.Struct, frozen=True):
    replayed: Annotated[Whole, field("How many deliveries are sent again.", example=3)]


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    note: Annotated[str, field("What is done about it.", example="provider told")]
    until: Annotated[Moment, field("Until when it is acknowledged, in UTC.", example="2026-01-31T18:00:00Z")]
    by: Annotated[str, field("Who acknowledged it, as the audit log names them.", example="token:root")]
    at: Annotated[Moment, field("When, in UTC.", example=_MOMENT)]


class AcknowledgementRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    note: Annotated[
        Annotated[str, Meta(min_length=1, max_length=500)], field("What is done about it.", example="provider told")
    ]
    until: Annotated[
        str,
        field(
            "Until when: a moment as in RFC 3339, or a span from now such as 45m, 4h or 7d; at most a year.",
            example="4h",
        ),
    ]


class AffectedRecord(msgspec.Struct, frozen=True):
    id: Annotated[str, field("Identifier.", example="sepolia-1")]
    name: Annotated[str, field("Name of a relayer; of another record, its identifier.", example="Sepolia one")]


ProblemState = Literal[
    "disabled", "failing", "signer_unreachable", "signer_mismatch", "receiver_failing", "low_balance", "low_runway"
]


class FleetProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Records with the same problem are one, so that its cause stands out."""

    id: Annotated[str, field("Identifies it as long as its cause is the same.", example="6f1ed002ab559585")]
    state: Annotated[ProblemState, field("What is wrong.", example="failing")]
    kind: Annotated[
        Literal["relayer", "signer", "notification"], field("What the affected records are.", example="relayer")
    ]
    network: Annotated[str | None, field("Of relayers: their network.", example="sepolia")]
    native_symbol: Annotated[str | None, field("Symbol of its native coin.", example="ETH")]
    cause: Annotated[str, field("Why.", example="https://node.example.com refused the connection")]
    since: Annotated[Moment | None, field("Since when, in UTC; of several, the earliest.", example=_MOMENT)]
    total: Annotated[Whole, field("How many records are affected.", example=1)]
    records: Annotated[tuple[AffectedRecord, ...], field("Three of them: the lowest balances, otherwise the first.")]
    acknowledgement: Annotated[
        Acknowledgement | None, field("Who takes care of it; null: nobody has said so.", example=None)
    ] = None


class EstimateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    transaction: Annotated[str, field("The encoded transaction, in 0x-hex.", example="0x02f8")]
    token: Annotated[
        str | UnsetType, field("The fee token: symbol or address. Left out: the native coin.", example="ETH")
    ] = UNSET


class EstimateFailure(msgspec.Struct, frozen=True):
    code: Annotated[int, field("The JSON-RPC error code.", example=-32000)]
    message: Annotated[str, field("The kind of failure.", example="Node unreachable")]
    description: Annotated[str, field("What went wrong.", example="no RPC URL answered")]


class EstimateReport(msgspec.Struct, frozen=True):
    steps: Annotated[
        tuple[dict[str, Any], ...],
        field(
            "Each step with its facts; amounts are text.",
            example=[{"step": "inputs", "relayer": "sepolia-1", "network": "sepolia", "chain_id": "11155111"}],
        ),
    ]
    error: Annotated[
        EstimateFailure | UnsetType, field("Why there is no estimate; absent when there is one.", example=UNSET)
    ] = UNSET


class ResolvedReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Either `value`, or `missing`."""

    kind: Annotated[Literal["env", "file"], field("Kind of the reference.", example="env")]
    name: Annotated[str, field("Name of the variable, or path of the file, as in the document.", example="OPS_KEY")]
    value: Annotated[Secret | UnsetType, field("The secret.", example="0x" + "11" * 32)] = UNSET
    missing: Annotated[
        str | UnsetType,
        field(
            "Why there is none. A stored record keeps the secret it has.",
            example="the environment variable OPS_KEY is not set",
        ),
    ] = UNSET


class ApplyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    document: Annotated[
        dict[str, Any],
        field(
            "The content of an apply file: `networks`, `signers`, `notifications` and `relayers`.",
            example={
                "networks": {"local": {"network_type": "evm", "chain_id": 31337, "native_symbol": "ETH"}},
                "signers": [{"id": "ops", "type": "plain", "config": {"key": {"env": "OPS_KEY"}}}],
            },
        ),
    ]
    references: Annotated[
        tuple[ResolvedReference, ...],
        field(
            "What the references in the document stand for. The service reads no variable and no file for them.",
            example=[{"kind": "env", "name": "OPS_KEY", "value": "0x" + "11" * 32}],
        ),
    ] = ()
    prune: Annotated[
        bool, field("Also remove records that an earlier apply created and the document omits.", example=False)
    ] = False
    plan_only: Annotated[bool, field("Plan, and change nothing.", example=False)] = False


class PlannedField(msgspec.Struct, frozen=True):
    name: Annotated[str, field("Name of the field.", example="policies.min_balance")]
    before: Annotated[
        str,
        field(
            "Its value before; `unset`: it had none; empty: the record is new. Both empty: a secret has changed.",
            example="0",
        ),
    ]
    after: Annotated[
        str, field("Its value after; `unset`: it has none; empty: the record is removed.", example="1000000")
    ]


class PlannedStep(msgspec.Struct, frozen=True, omit_defaults=True):
    action: Annotated[Literal["create", "change", "remove"], field("What is done.", example="change")]
    kind: Annotated[str, field("What the record is.", example="relayer")]
    name: Annotated[str, field("Its name or id.", example="sepolia-1")]
    fields: Annotated[
        tuple[PlannedField, ...],
        field("The fields that change; of a new or removed signer, its type and the fields that are not secret."),
    ]
    title: Annotated[str, field("The name of a relayer, if `name` is its id.", example="Sepolia one")] = ""


class ApplyReport(msgspec.Struct, frozen=True):
    applied: Annotated[bool, field("Whether the steps were taken.", example=True)]
    revision: Annotated[
        str,
        field("Identifies the plan. As `If-Match`, only this plan is applied.", example="42-" + "0123456789abcdef" * 6),
    ]
    steps: Annotated[tuple[PlannedStep, ...], field("The steps, in their order.")]
    notes: Annotated[tuple[str, ...], field("Notes about the document.", example=[])]


RecordKind = Literal["network", "signer", "notification", "relayer"]


class ProtectionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which records are protected: every change of one becomes a proposal."""

    name: Annotated[Identifier, field("Name.", example="mainnet")]
    kinds: Annotated[
        tuple[RecordKind, ...], field("Kinds of record. Empty: every kind.", example=["relayer", "network"])
    ] = ()
    scope: Annotated[
        Scope | None,
        field(
            "The records that a credential with this scope would see; null: every record.",
            example={"networks": ["mainnet"]},
        ),
    ] = None
    note: Annotated[
        Annotated[str, Meta(max_length=500)], field("What it is for: text for people.", example="holds customer funds")
    ] = ""
    closed: Annotated[
        bool,
        field(
            "Whether its records are also outside the scope of every credential with the role `api` or `readonly`.",
            example=False,
        ),
    ] = False


class Protection(ProtectionRequest, frozen=True, kw_only=True, forbid_unknown_fields=False):
    made_by: Annotated[str, field("Who made it.", example="token:root")]
    created_at: CreatedAt


class ProposalDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Annotated[
        Annotated[str, Meta(min_length=1, max_length=500)],
        field("Why.", example="the chain has halted, and nobody else is awake"),
    ]


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change of protected records that waits for the approval of another, or did."""

    id: Annotated[str, field("Identifier.", example="01890a5d-ac96-774b-bcce-b302099a8057")]
    state: Annotated[
        Literal["open", "applied", "forced", "rejected", "withdrawn", "expired"],
        field("`forced`: an owner applied it without an approval. `withdrawn`: by its author.", example="open"),
    ]
    operation: Annotated[str, field("What was asked for.", example="update_relayer")]
    author: Annotated[str, field("Who asked for it, as the audit log names them.", example="token:ci")]
    reason: Annotated[str, field("Why; empty: not given.", example="raise the price cap")]
    protections: Annotated[
        tuple[str, ...],
        field("The protections that cover its records. Empty for a credential with a scope.", example=["mainnet"]),
    ]
    revision: Annotated[
        str,
        field("What the approval pins: of a plan its revision, of a record its ETag.", example='"0123456789abcdef"'),
    ]
    steps: Annotated[tuple[PlannedStep, ...], field("What changes, as the audit log will show it.")]
    created_at: CreatedAt
    expires_at: Annotated[Moment, field("Until when it can be approved, in UTC.", example=_MOMENT)]
    decided_by: Annotated[str | None, field("Who decided; null: nobody has.", example=None)]
    decided_at: Annotated[Moment | None, field("When, in UTC.", example=None)]
    decision: Annotated[str, field("Why it was rejected or forced.", example="")]


class ExportedFile(msgspec.Struct, frozen=True):
    toml: Annotated[
        str,
        field(
            "The stored records as an apply file, with references in place of secrets.",
            example="[networks.sepolia]\nchain_id = 11155111\n",
        ),
    ]


class SignerDriver(msgspec.Struct, frozen=True):
    type: Annotated[str, field("Type of the signers.", example="provider_c", schema={"enum": list(SHAPES)})]
    driver: Annotated[str, field("The driver that reaches their keys.", example="vault-kv")]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a search found."""

    kind: Annotated[
        str,
        field(
            "Its kind.",
            example="relayer",
            schema={"enum": ["relayer", "network", "signer", "notification", "token", "event"]},
        ),
    ]
    id: Annotated[str, field("What identifies it: its id, or the name of a network or token.", example="sepolia-1")]
    name: Annotated[str, field("Its name; of an event, its type.", example="Sepolia one")]
    network: Annotated[str | None, field("Of a relayer: its network.", example="sepolia")] = None
    address: Annotated[
        str | None, field("Of a relayer: its address.", example="0x2c7536E3605D9C16a7a3D7b1898e529396a65c23")
    ] = None


class AuditHead(msgspec.Struct, frozen=True):
    head: Annotated[str, field("The number of the newest entry and its hash.", example="7:" + "c0ffee00" * 8)]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    sequence: Annotated[Whole, field("Its position in the chain.", example=7)]
    at: Annotated[Moment, field("When, in UTC.", example=_MOMENT)]
    actor: Annotated[
        str,
        field(
            "Who: `token:NAME`, `person:NAME`, `person:NAME via token:NAME` (a token that the person made),"
            " `workload:ISSUER:SUBJECT`, `cli:USER` or `monitor`.",
            example="token:root",
        ),
    ]
    action: Annotated[str, field("What was done.", example="relayer.paused")]
    record: Annotated[str, field("The record it was done to.", example="sepolia-1")]
    before: Annotated[
        dict[str, Any] | None,
        field("The changed fields before the change; a secret only as `set`.", example={"paused": False}),
    ]
    after: Annotated[
        dict[str, Any] | None,
        field("The changed fields after the change; a secret only as `set` or `changed`.", example={"paused": True}),
    ]
    hash: Annotated[str, field("Keyed hash of this entry and of the hash before it.", example="c0ffee" * 10)]
    origin: Annotated[
        str | UnsetType, field("`console` for a change made in the console; left out for any other.", example="console")
    ] = UNSET
