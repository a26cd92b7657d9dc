"""Bodies that only the admin API has: signers without their secrets, tokens, deliveries and the audit log.

The records themselves are declared in their packages, an event in `notifications` and the explanation of a relayer's
state in `relayers`.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relaydeck.credentials.kinds import TokenKind, describe_kinds
from relaydeck.fields import example_of
from relaydeck.fields import own_field as field
from relaydeck.identifiers import Identifier
from relaydeck.secret import Secret
from relaydeck.signers.check_report import SignerCheckReport
from relaydeck.signers.signer_types import SHAPES, SecretStoreConfig, response_type

Whole = Annotated[int, Meta(ge=0)]
_STATE = "Whether it is accepted. `refused`: Relaydeck did not write the stored token as it is."
_KIND = f"What the token grants access to: {describe_kinds('`')}."
_MOMENT = "2026-01-31T12:00:00Z"
_PRECISE_MOMENT = "2026-01-31T12:00:00.250Z"


CreatedAt = Annotated[str, field("When it was created, in UTC.", example=_MOMENT)]


class Created(msgspec.Struct, frozen=True):
    """What the service adds to a record in every response."""

    created_at: CreatedAt


class SignerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signer to create. The document at `/openapi.json` has the shape of `config` for each `type`."""

    type: Annotated[str, field("Type.", example="provider_c", schema={"enum": list(SHAPES)})]
    config: Annotated[
        msgspec.Raw,
        field("The fields of its type.", example=example_of(SecretStoreConfig), schema={"type": "object"}),
    ]
    id: Annotated[Identifier | UnsetType, field("Identifier. Left out, a UUID is generated.", example="ops")] = UNSET


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[Identifier, field("Identifier.", example="ops")]
    type: Annotated[
        str,
        field("Type.", example="provider_c", schema={"enum": sorted({response_type(each) for each in SHAPES})}),
    ]
    config: Annotated[
        dict[str, Any],
        field(
            "The fields of its type that are not secret.",
            example={"address": "https://secrets.example.com", "key_name": "ops"},
        ),
    ]
    check: Annotated[
        SignerCheckReport | None,
        field(
            "Its latest check; null: none yet, because its type has no driver or its turn has not come.",
            example=example_of(SignerCheckReport),
        ),
    ]
    created_at: CreatedAt


class TokenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[Identifier, field("Name; the audit log shows it.", example="ci")]
    kind: Annotated[TokenKind, field(_KIND, example="readonly")] = TokenKind.API
    expires: Annotated[
        str | UnsetType,
        field("How long the token is valid: 45m, 12h, 30d, 8w. Left out: forever.", example="30d"),
    ] = UNSET


class Token(msgspec.Struct, frozen=True, kw_only=True):
    name: Annotated[Identifier, field("Name.", example="ci")]
    kind: Annotated[TokenKind, field(_KIND, example="readonly")]
    state: Annotated[Literal["live", "expired", "revoked", "refused"], field(_STATE, example="live")]
    created_at: CreatedAt
    expires_at: Annotated[str | None, field("When it expires, in UTC; null: never.", example=None)]
    revoked_at: Annotated[str | None, field("When it was revoked, in UTC.", example=None)]
    migrated: Annotated[bool, field("Whether an upgrade was first to prove its row, as it found it.", example=False)]


class NewToken(Token, frozen=True, kw_only=True):
    token: Annotated[str, field("The token itself. It is not shown again.", example="rdk_example")]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    at: Annotated[str, field("When it began, in UTC.", example=_PRECISE_MOMENT)]
    duration_ms: Annotated[Whole, field("How long it took.", example=38)]
    status: Annotated[Whole | None, field("HTTP status of the response.", example=503)]
    problem: Annotated[str | None, field("What went wrong.", example=None)]
    answer: Annotated[str, field("The first bytes of the response.", example="try later")]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[
        str,
        field("The event's identifier.", example="evt_8a5c1a8e-0f0e-7d27-9d3c-0a3f4f0f8a11"),
    ]
    sequence: Annotated[Whole, field("The event's sequence number.", example=42)]
    type: Annotated[str, field("The event's type.", example="relayer.paused")]
    notification_id: Annotated[str, field("The notification it goes to.", example="pager")]
    relayer_id: Annotated[str | None, field("The relayer it is about.", example="sepolia-1")]
    state: Annotated[
        Literal["pending", "delivered", "dead"],
        field("Whether it is on its way, has arrived, or was given up.", example="pending"),
    ]
    tries: Annotated[Whole, field("How many attempts there were since it was recorded or last sent again.", example=1)]
    created_at: Annotated[str, field("When the event happened, in UTC.", example=_PRECISE_MOMENT)]
    next_try_at: Annotated[
        str | None,
        field(
            "When the next attempt is due, in UTC; null while an earlier delivery is pending, and when finished.",
            example=_PRECISE_MOMENT,
        ),
    ]
    finished_at: Annotated[str | None, field("When it arrived or was given up, in UTC.", example=None)]
    last_status: Annotated[Whole | None, field("HTTP status of the last response.", example=503)]
    last_problem: Annotated[str | None, field("What went wrong last.", example=None)]


class DeliveryWithAttempts(Delivery, frozen=True, kw_only=True):
    attempts: Annotated[tuple[Attempt, ...], field("Every attempt, oldest first.")]


class Replayed(msgspec.Struct, frozen=True):
    replayed: Annotated[Whole, field("How many deliveries are sent again.", example=3)]


class EstimateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    transaction: Annotated[str, field("The encoded transaction, in 0x-hex.", example="0x02f8")]
    token: Annotated[
        str | UnsetType, field("The fee token: symbol or address. Left out: the native coin.", example="ETH")
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
        str, field("Its value before; empty: the record is new. Both empty: a secret has changed.", example="0")
    ]
    after: Annotated[str, field("Its value after; empty: the record is removed.", example="1000000")]


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


class AuditHead(msgspec.Struct, frozen=True):
    head: Annotated[str, field("The number of the newest entry and its hash.", example="7:" + "c0ffee00" * 8)]


class AuditVerification(msgspec.Struct, frozen=True):
    """Either `entries` and `head`, or `problem`, with `broken_at` if it is about an entry."""

    entries: Annotated[Whole | None, field("How many entries were verified; null: there is a problem.", example=7)]
    head: Annotated[str | None, field("The head of the log.", example="7:" + "c0ffee00" * 8)]
    broken_at: Annotated[Whole | None, field("The first broken entry; null: every link holds.", example=None)]
    problem: Annotated[
        str | None, field("What is wrong with it, or with tokens that Relaydeck did not write.", example=None)
    ]


class DoctorFinding(msgspec.Struct, frozen=True):
    """The result of one check."""

    result: Annotated[str, field("How it ended.", example="ok", schema={"enum": ["ok", "warn", "FAIL"]})]
    subject: Annotated[str, field("What was checked.", example="schema")]
    remark: Annotated[str, field("What was found, and what to do about it.", example="version 13")]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    sequence: Annotated[Whole, field("Its position in the chain.", example=7)]
    at: Annotated[str, field("When, in UTC.", example=_MOMENT)]
    actor: Annotated[str, field("Who: `token:NAME`, `cli:USER` or `monitor`.", example="token:root")]
    action: Annotated[str, field("What was done.", example="relayer.paused")]
    record: Annotated[str, field("The record it was done to.", example="sepolia-1")]
    before: Annotated[
        dict[str, Any] | None,
        field("The changed fields before the change; a secret only as `set`.", example={"paused": False}),
    ]
    after: Annotated[
        dict[str, Any] | None,
        field(
            "The changed fields after the change; a secret only as `set` or `changed`.",
            example={"paused": True},
        ),
    ]
    hash: Annotated[str, field("Keyed hash of this entry and of the hash before it.", example="c0ffee" * 10)]
    origin: Annotated[
        str | UnsetType, field("`console` for a change made in the console; left out for any other.", example="console")
    ] = UNSET
