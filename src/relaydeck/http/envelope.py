"""What every answer is wrapped in."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    level: Literal["log"] = "log"
    message: str


class Metadata(msgspec.Struct, frozen=True):
    logs: list[LogEntry] = []
    traces: list[None] = []


class Pagination(msgspec.Struct, frozen=True):
    current_page: int
    per_page: int
    total_items: int


class Success(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of every success; `data` is a typed object, or arrives already encoded."""

    data: msgspec.Struct | msgspec.Raw
    error: str = ""
    metadata: Metadata = Metadata()
    pagination: Pagination | UnsetType = UNSET
    success: Literal[True] = True


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of every error."""

    data: None = None
    message: str
    success: Literal[False] = False


def success(data: bytes, notes: list[str], pagination: Pagination | UnsetType = UNSET) -> bytes:
    """The whole body of a success; `data` is JSON already."""
    logs = [LogEntry(message=note) for note in notes]
    return msgspec.json.encode(Success(data=msgspec.Raw(data), metadata=Metadata(logs=logs), pagination=pagination))
