"""Texts of the OpenAPI document that belong to no type: its introduction, headers and error codes."""

from typing import NamedTuple

from relaydeck.fields import Basis


class Words(NamedTuple):
    text: str
    basis: Basis = "contract"


def ruling(text: str) -> Words:
    return Words(text, "ruling")


INTRODUCTION = """\
Relaydeck manages relayers, the signers that hold their keys and the webhooks that hear about them, and runs \
JSON-RPC calls through a relayer.

Five operations under `/api/v1` are the described interface; nothing else lives there. Every one takes a \
bearer credential. Lists, creations and updates answer in one envelope, errors in another; the JSON-RPC call \
answers in JSON-RPC's own shape.

Each operation, status, field and header carries `x-relaydeck-basis`:

- `contract`: the described interface says so.
- `ruling`: the described interface leaves it open, and this service decided. A later edition may differ.

Every numeric status is a ruling, read off the message it comes with; the messages are contract. A path that \
nothing is served at answers 404 with the message `Not Found`, and a method that a path does not take \
answers 405 with `Method Not Allowed` and an `Allow` header, both in the error envelope. HEAD is accepted wherever GET \
is.

Refusals come in this order: 404 or 405 for the path, 401, 429, 413, 400, 404 for the resource, 409."""

# A config field of a signer that is not shown by default.
WIDENED = ruling("Only with the setting `RELAYDECK_SIGNER_CONFIG=non_secret`.")

RPC_ERRORS: dict[int, str] = {
    -32601: "The method is not `feeEstimate`.",
    -32602: "The params do not fit the method; `description` says where.",
    -32603: "The service itself failed.",
    -32000: "No RPC URL of the relayer or its network answered in time.",
    -32001: "The transaction would fail when executed.",
    -32002: "The relayer's policy does not allow this receiver.",
    -32003: "There is no fresh rate for the fee token.",
    -32004: "A node refused the question for another reason than a revert.",
}

HEADERS: dict[str, Words] = {
    "X-Request-Id": ruling(
        "Names this request in the service's log. A request's own `X-Request-Id` is kept when it has 1 to "
        "128 characters of `A-Z a-z 0-9 . _ : / + = @ -`."
    ),
    "Relaydeck-Reason": ruling(
        "What exactly was wrong: ASCII, at most 200 characters, in the service's words and field names, never a value."
    ),
    "RateLimit": ruling(
        "Requests that remain (`r`) and seconds until the allowance is whole again (`t`). Absent when no limit is set."
    ),
    "RateLimit-Policy": ruling(
        "Requests that may come at once (`q`) and the seconds to refill them (`w`). Absent when no limit is set."
    ),
    "Relaydeck-Revision": ruling(
        "The revision of this write. Sent as `Relaydeck-Min-Revision` with a later request to any replica, it makes "
        "sure that the write is seen."
    ),
    "Relaydeck-Stale": ruling(
        "Seconds since the database last answered; only while it is away and the answer comes from memory."
    ),
    "Retry-After": ruling("Seconds until the next request is admitted."),
    "WWW-Authenticate": ruling("The scheme that is asked for."),
    "Allow": ruling("The methods that the path takes."),
}
