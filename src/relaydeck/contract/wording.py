"""Texts of the OpenAPI document that belong to no type: its introduction and its headers."""

from relaydeck.basis import STATUSES, UNKNOWN_PATHS, Words, ruling

INTRODUCTION = """\
Relaydeck manages relayers, the signers that hold their keys and the webhooks that receive their events, and runs \
JSON-RPC calls through a relayer.

The five operations under `/api/v1` are the described interface, and nothing else is served there. Each requires a \
bearer credential. A success has one envelope and an error another; the JSON-RPC call has the shape of JSON-RPC.

The interface is described by a contract, which leaves some points open. `x-relaydeck-basis` tells the two apart, for \
each part of each operation, parameter, field, status and header:

- `contract, section 2.4`: the contract shows it in this section.
- `ruling: …`: the contract leaves it open, and this service decides. The text after the colon names the row in the \
page "Open items" of Relaydeck's documentation (`docs/open-items.md`). A later edition of the contract may differ.

A field has up to four parts: its `presence` (required, optional, or left out when), its `type`, its `value` (which \
values of the type, in which unit; absent if any) and its `meaning`.

Every numeric status is a ruling, chosen by the meaning of its message; the messages are contract. An unknown path \
returns 404 with the message `Not Found`. A method that a path does not accept returns 405 with the message \
`Method Not Allowed` and an `Allow` header. Both have the error envelope. HEAD is accepted wherever GET is.

A request is checked in this order: 404 or 405 for the path, 401, 429, 413, 400, 404 for the resource, 409."""

_LIMITS = ruling("rate-limit values and window")
REVISIONS = ruling("visibility of a write on another replica")

HEADERS: dict[str, tuple[str, Words]] = {
    "X-Request-Id": (
        "Identifies this request in the service's log. The request's own `X-Request-Id` is kept when it has 1 to "
        "128 characters of `A-Z a-z 0-9 . _ : / + = @ -`.",
        ruling("`X-Request-Id`"),
    ),
    "Relaydeck-Reason": (
        "What exactly was wrong: at most 200 ASCII characters, with field names but never a value.",
        ruling("the reason for a refusal"),
    ),
    "RateLimit": (
        "Requests that remain (`r`) and seconds until the allowance is full again (`t`). Absent when no limit is set.",
        _LIMITS,
    ),
    "RateLimit-Policy": (
        "Size of the allowance (`q`) and the seconds to refill it (`w`). Absent when no limit is set.",
        _LIMITS,
    ),
    "Relaydeck-Revision": (
        "The revision of this write. A later request to any replica that sends it as `Relaydeck-Min-Revision` sees "
        "the write.",
        REVISIONS,
    ),
    "Relaydeck-Stale": (
        "Seconds since the database last responded. Present only while it is unreachable and the response comes from "
        "memory.",
        ruling("an unavailable database"),
    ),
    "Retry-After": ("Seconds until the next request is accepted.", STATUSES),
    "WWW-Authenticate": ("The required scheme.", STATUSES),
    "Allow": ("The methods that the path accepts.", UNKNOWN_PATHS),
}
