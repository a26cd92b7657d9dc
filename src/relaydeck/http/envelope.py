"""The JSON envelope of every response."""

from typing import Annotated, Literal

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
from relaydeck.fields import field

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
        list[None],
        field(
            "Always empty: the shape of an item is not described.",
            basis=_SHOWN.but(presence=METADATA, value=TRACE_ITEMS),
            example=[],
            schema={"items": True, "maxItems": 0},
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


def success(data: bytes, notes: list[str], pagination: Pagination | UnsetType = UNSET) -> bytes:
    """The whole body of a success; `data` is JSON already."""
    logs = [LogEntry(message=note) for note in notes]
    return msgspec.json.encode(Success(data=msgspec.Raw(data), metadata=Metadata(logs=logs), pagination=pagination))
