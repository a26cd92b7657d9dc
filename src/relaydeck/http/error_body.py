"""The body of an error: the envelope of the contract, or problem details (RFC 9457) under `/admin/v1`."""

import re
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.errors import Header, RequestError
from relaydeck.fields import own_field
from relaydeck.http.envelope import Failure

_JSON: Header = (b"content-type", b"application/json")
_PROBLEM: Header = (b"content-type", b"application/problem+json")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class ProblemMistake(msgspec.Struct, frozen=True):
    place: Annotated[str, own_field("Where it is in the document.", example="relayers[0].signer_id")]
    problem: Annotated[str, own_field("What is wrong.", example="there is no such signer")]


class ProblemChange(msgspec.Struct, frozen=True):
    at: Annotated[str, own_field("When, in UTC.", example="2026-01-31T12:00:00Z")]
    actor: Annotated[str, own_field("Who.", example="token:ci")]
    action: Annotated[str, own_field("What was done.", example="relayer.updated")]
    record: Annotated[str, own_field("The record it was done to.", example="sepolia-1")]


class ProblemRecord(msgspec.Struct, frozen=True):
    kind: Annotated[str, own_field("What the record is; `option`: `name` is that of an option.", example="relayer")]
    name: Annotated[
        str,
        own_field(
            "Its name or id; empty: several of the kind differ, or one that is not in the document.", example="one"
        ),
    ]


class Problem(msgspec.Struct, frozen=True):
    """Problem details, as RFC 9457 defines them."""

    type: Annotated[str, own_field("Identifies the kind of problem.", example="urn:relaydeck:problem:bad-request")]
    title: Annotated[str, own_field("Names the kind of problem.", example="Bad Request")]
    status: Annotated[int, own_field("The HTTP status.", example=400)]
    detail: Annotated[str, own_field("States what exactly went wrong.", example="the body is not valid JSON")]
    instance: Annotated[
        str, own_field("The request id, as in `X-Request-Id` and in the log.", example="5f0c8a1e9b7d-2a")
    ]
    mistakes: Annotated[
        tuple[ProblemMistake, ...] | UnsetType, own_field("Every mistake in an apply document.", example=UNSET)
    ] = UNSET
    changes: Annotated[
        tuple[ProblemChange, ...] | UnsetType,
        own_field("What has changed since the plan was made, oldest first, at most 50.", example=UNSET),
    ] = UNSET
    records: Annotated[
        tuple[ProblemRecord, ...] | UnsetType,
        own_field("The records that differ from the plan that was reviewed.", example=UNSET),
    ] = UNSET


def problem_of(error: RequestError | type[RequestError], instance: str) -> Problem:
    """For a class, the problem of an example of the error."""
    kind = error if isinstance(error, type) else type(error)
    words = _CAPITAL.sub(" ", kind.__name__).lower()
    title = words.capitalize() if kind.example else kind.message
    problem = Problem(
        f"urn:relaydeck:problem:{words.replace(' ', '-')}", title, kind.status, _detail(error, kind), instance
    )
    return msgspec.structs.replace(problem, **error.members) if error.members else problem


def _detail(error: RequestError | type[RequestError], kind: type[RequestError]) -> str:
    if isinstance(error, type):
        return error.example or error.description
    if kind.example:
        return error.message
    # What made the service fail is for its operator, not for the caller.
    return (error.reason if kind.status < 500 else "") or kind.description


def failure_body(error: RequestError, request_id: bytes, *, as_problem: bool) -> tuple[Header, bytes]:
    """The content type and the body of an error response."""
    if as_problem:
        return _PROBLEM, msgspec.json.encode(problem_of(error, request_id.decode()))
    return _JSON, _envelope(error.message)


@lru_cache(maxsize=64)
def _envelope(message: str) -> bytes:
    return msgspec.json.encode(Failure(message=message))
