"""Texts of the OpenAPI document that belong to no type: its introduction and its headers."""

from typing import NamedTuple

from relaydeck.fields import Basis


class Words(NamedTuple):
    text: str
    basis: Basis = "contract"


def ruling(text: str) -> Words:
    return Words(text, "ruling")


INTRODUCTION = """\
Relaydeck manages relayers, the signers that hold their keys and the webhooks that receive their events, and runs \
JSON-RPC calls through a relayer.

The five operations under `/api/v1` are the described interface, and nothing else is served there. Each requires a \
bearer credential. A success has one envelope and an error another; the JSON-RPC call has the shape of JSON-RPC.

Each operation, status, field and header carries `x-relaydeck-basis`:

- `contract`: the described interface defines it.
- `ruling`: the described interface leaves it open, and this service defines it. A later edition may differ.

Every numeric status is a ruling, chosen by the meaning of its message; the messages are contract. An unknown path \
returns 404 with the message `Not Found`. A method that a path does not accept returns 405 with the message \
`Method Not Allowed` and an `Allow` header. Both have the error envelope. HEAD is accepted wherever GET is.

A request is checked in this order: 404 or 405 for the path, 401, 429, 413, 400, 404 for the resource, 409."""

HEADERS: dict[str, Words] = {
    "X-Request-Id": ruling(
        "Identifies this request in the service's log. The request's own `X-Request-Id` is kept when it has 1 to "
        "128 characters of `A-Z a-z 0-9 . _ : / + = @ -`."
    ),
    "Relaydeck-Reason": ruling(
        "What exactly was wrong: at most 200 ASCII characters, with field names but never a value."
    ),
    "RateLimit": ruling(
        "Requests that remain (`r`) and seconds until the allowance is full again (`t`). Absent when no limit is set."
    ),
    "RateLimit-Policy": ruling(
        "Size of the allowance (`q`) and the seconds to refill it (`w`). Absent when no limit is set."
    ),
    "Relaydeck-Revision": ruling(
        "The revision of this write. A later request to any replica that sends it as `Relaydeck-Min-Revision` sees "
        "the write."
    ),
    "Relaydeck-Stale": ruling(
        "Seconds since the database last responded. Present only while it is unreachable and the response comes from "
        "memory."
    ),
    "Retry-After": ruling("Seconds until the next request is accepted."),
    "WWW-Authenticate": ruling("The required scheme."),
    "Allow": ruling("The methods that the path accepts."),
}
