"""The JSON envelope of every response, and problem details (RFC 9457), the body of an error under `/admin/v1`."""

import re
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relaydeck.basis import (
    ERROR_ON_SUCCESS,
    LARGEST_PAGE,
    LOG_LEVELS,
    METADATA,
    PAGE_ZERO,
    TRACE_ITEMS,
    UNKNOWN_PATHS,
    contract,
    shown,
)
from relaydeck.errors import Header, RequestError
from relaydeck.fields import field, own_field

_JSON: Header = (b"content-type", b"application/json")
_PROBLEM: Header = (b"content-type", b"application/problem+json")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


_SHOWN = shown("2.1")


# sentence: 2.1-logs
class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    level: Annotated[Literal["log"], field("Always `log`.", basis=_SHOWN.but(value=LOG_LEVELS), example="log")] = "log"
    message: Annotated[
        str,
        field("The hint. It never quotes a value.", basis=_SHOWN.but(meaning=METADATA), example="config.key is empty"),
    ]


# sentence: 2.1-metadata
class Metadata(msgspec.Struct, frozen=True):
    logs: Annotated[
        list[LogEntry],
        field(
            "Hints about values that were accepted but look unusable. Usually empty.",
            basis=_SHOWN.but(presence=METADATA, meaning=METADATA),
            example=[],
        ),
    ] = []
    traces: Annotated[
        list[Any],
        field(
            "Always empty: the shape of an item is not described.",
            basis=_SHOWN.but(presence=METADATA, value=TRACE_ITEMS),
            example=[],
            schema={"items": {}, "maxItems": 0},
        ),
    ] = []


# sentence: 2.1-pagination
class Pagination(msgspec.Struct, frozen=True):
    current_page: Annotated[
        Annotated[int, Meta(ge=1)],
        field(
            "The number of this page, counted from 1.", basis=_SHOWN.but(value=contract("4.2") + PAGE_ZERO), example=1
        ),
    ]
    per_page: Annotated[
        Annotated[int, Meta(ge=1)],
        field(
            "The page size that was applied.",
            basis=_SHOWN.but(value=PAGE_ZERO, meaning=contract("4.2") + LARGEST_PAGE),
            example=10,
        ),
    ]
    total_items: Annotated[
        Annotated[int, Meta(ge=0)],
        field("The number of items on all pages.", basis=_SHOWN.but(value=contract("2.1")), example=1),
    ]


# sentence: 1-envelope 2.1-data 2.1-error 2.1-success
class Success(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of every success."""

    # `data` is a typed object, or JSON that is already encoded.
    data: Annotated[msgspec.Struct | msgspec.Raw, field("The payload.", basis=_SHOWN)]
    error: Annotated[
        str,
        field(
            "Always the empty string on success.",
            basis=_SHOWN.but(presence=ERROR_ON_SUCCESS, value=ERROR_ON_SUCCESS),
            example="",
            schema={"const": ""},
        ),
    ] = ""
    metadata: Annotated[Metadata, field("Contains `logs` and `traces`.", basis=_SHOWN.but(presence=METADATA))] = (
        Metadata()
    )
    pagination: Annotated[Pagination | UnsetType, field("Which part of the list this is.", basis=_SHOWN)] = UNSET
    success: Annotated[
        Literal[True], field("True on success.", basis=_SHOWN.but(value=contract("2.1")), example=True)
    ] = True


# sentence: 2.1-failure
class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of every error: exactly these three fields."""

    data: Annotated[None, field("Always null.", basis=shown("7").but(value=contract("7")))] = None
    message: Annotated[
        str,
        field(
            "What went wrong, in one fixed phrase per kind of error.",
            basis=shown("7").but(value=contract("7") + UNKNOWN_PATHS),
            example="Bad Request",
        ),
    ]
    success: Annotated[
        Literal[False], field("False on every error.", basis=shown("7").but(value=contract("7")), example=False)
    ] = False


_encode = msgspec.json.Encoder().encode
_NO_NOTES = Metadata()


def encode_success(data: msgspec.Struct, notes: list[str]) -> bytes:
    """The whole body of a success with typed data."""
    metadata = Metadata(logs=[LogEntry(message=note) for note in notes]) if notes else _NO_NOTES
    return _encode(Success(data=data, metadata=metadata))


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
