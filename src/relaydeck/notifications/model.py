"""A notification: a webhook that receives the events of relayers."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.fields import field
from relaydeck.identifiers import Identifier
from relaydeck.secret import Secret
from relaydeck.web_addresses import WebAddress

NotificationType = Literal["webhook"]


class Notification(msgspec.Struct, frozen=True):
    id: Annotated[Identifier, field("Identifier.", example="pager")]
    type: Annotated[NotificationType, field("The only type there is.", example="webhook")]
    url: Annotated[
        WebAddress,
        field(
            "Where events are sent: an absolute http(s) URL with a host.",
            example="https://hooks.example.com/relaydeck",
        ),
    ]
    has_signing_key: Annotated[
        bool,
        field(
            "Whether a signing key is set. The key itself is never returned.",
            example=True,
            read_only=True,
            stored=False,
        ),
    ] = False
    signing_key: Annotated[
        Secret | UnsetType,
        field(
            "Signs the events. Left out: the key stays as it is. Empty: it is removed. Anything else becomes the key.",
            example="a new signing key",
            write_only=True,
            sealed_as="sealed_signing_key",
        ),
    ] = UNSET
