"""A notification, which is a webhook that receives events, and the body of an event."""

from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.basis import FIELD_LENGTH, IDENTIFIER_FORM, URL_FORM, contract, shown
from relaydeck.fields import field, own_field
from relaydeck.identifiers import Identifier
from relaydeck.quantities import Moment
from relaydeck.scope import OwnLabels
from relaydeck.secret import Secret
from relaydeck.web_addresses import WebAddress

_SIGNER_DETAILS = ("signer_id", "outcome", "explanation")
_RUNWAY_DETAILS = (
    "balance",
    "min_balance",
    "spent_per_hour",
    "seconds_until_minimum",
    "seconds_until_zero",
    "warn_hours",
)
_CHANGE_DETAILS = ("proposal_id", "operation", "author", "reason", "actor")


class EventKind(StrEnum):
    """`NAME = type, when it happens, names of its details…`"""

    RELAYER_PAUSED = "relayer.paused", "an operator paused the relayer"
    RELAYER_RESUMED = "relayer.resumed", "an operator resumed the relayer"
    RELAYER_DISABLED = (
        "relayer.disabled",
        "the monitor disabled the relayer because none of its nodes returned the nonce of its address",
    )
    RELAYER_ENABLED = "relayer.enabled", "the monitor enabled the relayer again"
    RELAYER_LOW_BALANCE = (
        "relayer.low_balance",
        "the balance of the relayer fell below `min_balance`; sent once, and again only after the balance has"
        " recovered",
        "balance",
        "min_balance",
    )
    RELAYER_RUNWAY_LOW = (
        "relayer.runway_low",
        "the balance is expected to reach `min_balance` within `runway_warn_hours`; sent once, and again only after"
        " `relayer.runway_recovered`",
        *_RUNWAY_DETAILS,
    )
    RELAYER_RUNWAY_RECOVERED = (
        "relayer.runway_recovered",
        "the balance is expected to last for at least 1.5 times `runway_warn_hours`, or nothing is spent",
        *_RUNWAY_DETAILS,
    )
    SIGNER_UNREACHABLE = (
        "signer.unreachable",
        "a check of the relayer's signer got no valid signature from its key, for the reason in `outcome`;"
        " sent when this begins, not at each check",
        *_SIGNER_DETAILS,
    )
    SIGNER_MISMATCH = (
        "signer.mismatch",
        "the key of the relayer's signer has a different address from the relayer; sent when this begins, not"
        " at each check",
        *_SIGNER_DETAILS,
    )
    SIGNER_RECOVERED = (
        "signer.recovered",
        "the problem that `signer.unreachable` or `signer.mismatch` reported is over",
        *_SIGNER_DETAILS,
    )
    DATABASE_CHANGED = (
        "database.changed",
        "the database failed over or was rolled back: a standby was promoted, or a backup restored; recent changes and"
        " events may be lost; sent to every notification, or to the 1,000 oldest if there are more",
        "problem",
    )
    CHANGE_PROPOSED = (
        "change.proposed",
        "a change of protected records waits for the approval of a second person; sent to every notification that"
        " belongs to what is protected, as the other events about changes",
        *_CHANGE_DETAILS,
    )
    CHANGE_APPLIED = "change.applied", "a second person approved such a change, and it was made", *_CHANGE_DETAILS
    CHANGE_REJECTED = "change.rejected", "somebody rejected such a change, for the `reason`", *_CHANGE_DETAILS
    CHANGE_WITHDRAWN = "change.withdrawn", "its author withdrew such a change", *_CHANGE_DETAILS
    CHANGE_FORCED = (
        "change.forced",
        "an owner made such a change without an approval, for the `reason`",
        *_CHANGE_DETAILS,
    )
    NOTIFICATION_TEST = "notification.test", "an operator sent a test event"

    _value_: str
    description: str
    details: tuple[str, ...]  # the members of `data.details`, amounts in Wei as text

    def __new__(cls, name: str, description: str = "", *details: str) -> "EventKind":
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.description = description
        kind.details = details
        return kind


NotificationType = Literal["webhook"]
_SHOWN = shown("2.3")


# sentence: 2.3-fields 2.3-type 2.3-has-signing-key 2.3-key-not-returned 3-no-state
class Notification(msgspec.Struct, frozen=True):
    id: Annotated[Identifier, field("Identifier.", basis=_SHOWN.but(value=IDENTIFIER_FORM), example="pager")]
    type: Annotated[
        NotificationType, field("The only type there is.", basis=_SHOWN.but(value=contract("2.3")), example="webhook")
    ]
    url: Annotated[
        WebAddress,
        field(
            "Where events are sent: an absolute http(s) URL with a host.",
            basis=_SHOWN.but(value=URL_FORM),
            example="https://hooks.example.com/relaydeck",
        ),
    ]
    signing_key: Annotated[
        Secret | UnsetType,
        field(
            "Signs the events. Left out: the key stays as it is. Empty: it is removed. Anything else becomes the key.",
            basis=_SHOWN.but(value=FIELD_LENGTH),
            example="a new signing key",
            write_only=True,
            sealed_as="sealed_signing_key",
        ),
    ] = UNSET
    labels: OwnLabels = UNSET
    has_signing_key: Annotated[
        bool,
        field(
            "Whether a signing key is set. The key itself is never returned.",
            basis=_SHOWN,
            example=True,
            read_only=True,
            stored=False,
        ),
    ] = False


class NotificationChange(NamedTuple):
    """What to change; None leaves a field as it is. An empty signing key removes the key."""

    type: NotificationType | None = None
    url: str | None = None
    signing_key: Secret | None = None
    labels: dict[str, str] | UnsetType | None = None  # unset: without any


class EventBody(msgspec.Struct, frozen=True):
    """An event as a receiver gets it and as the event log shows it."""

    id: Annotated[
        str,
        own_field(
            "Identifier; also of its delivery and the `webhook-id` of every attempt.",
            example="evt_8a5c1a8e-0f0e-7d27-9d3c-0a3f4f0f8a11",
        ),
    ]
    type: Annotated[
        str,
        own_field("What happened.", example="relayer.paused", schema={"enum": [kind.value for kind in EventKind]}),
    ]
    timestamp: Annotated[Moment, own_field("When it happened, in UTC.", example="2026-03-01T12:00:00Z")]
    sequence: Annotated[int, own_field("Its position among all events.", example=42)]
    version: Annotated[int, own_field("Version of this format.", example=1)]
    data: Annotated[
        msgspec.Raw,
        own_field(
            "What it is about: the relayer as the API shows it, without secrets.",
            example={"notification_id": "pager"},
            schema={"type": "object"},
        ),
    ]
