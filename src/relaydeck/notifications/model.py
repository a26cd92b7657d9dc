"""A notification, which is a webhook that receives events, and the body of an event."""

from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.basis import FIELD_LENGTH, IDENTIFIER_FORM, URL_FORM, contract, shown
from relaydeck.fields import field, own_field
from relaydeck.identifiers import Identifier
from relaydeck.notifications.kinds import EventKind
from relaydeck.secret import Secret
from relaydeck.web_addresses import WebAddress

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
    timestamp: Annotated[str, own_field("When it happened, in UTC.", example="2026-03-01T12:00:00Z")]
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
