"""A call as a value: what to send, how to read the response, and whether it may be sent again."""

from collections.abc import Callable, Generator, Mapping
from enum import Enum
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from relaydeck.client.errors import ApiError, UnexpectedResponse
from relaydeck.client.messages import Response
from relaydeck.client.models import Body, Meta, Page, Pagination, with_meta

T = TypeVar("T")
# What decoding raises: RecursionError for one value within another, thousands of times.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
JSON = {"Content-Type": "application/json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


class Repeat(Enum):
    """Whether a call may be sent again when nobody knows what became of the first attempt."""

    READ = "it changes nothing"
    SAME = "twice has the effect of once"
    NEVER = "twice might be two changes"


class Call(NamedTuple, Generic[T]):
    method: str
    target: str
    read: Callable[[Response], T]
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    repeat: Repeat = Repeat.READ
    # Given the error that a repeated call met after an attempt whose effect is not known: its result, or the error.
    settle: "Callable[[ApiError], Generator[Call[Any], Any, T]] | None" = None

    def __repr__(self) -> str:
        return f"<Call {self.method} {self.target}>"


class Walk(NamedTuple, Generic[T]):
    """A list read page by page."""

    first: Call[Page[T]]
    following: Callable[[Page[T]], Call[Page[T]] | None]


def path(*segments: str) -> str:
    """Segments as one path; an identifier may hold any character."""
    if "" in segments:
        raise ValueError("an identifier is empty")
    return "/" + "/".join([quote(segment, safe="") for segment in segments])


def with_query(target: str, **query: object) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{target}?{urlencode(given)}" if given else target


def header(name: str, value: str) -> dict[str, str]:
    """Raises ValueError for a value that could end its header and begin another."""
    if not value or not value.isascii() or not value.isprintable():
        raise ValueError(f"{name} must hold printable ASCII characters, at least one")
    return {name: value}


def encode(document: object) -> bytes:
    return msgspec.json.encode(document)


def read_one(kind: type[T]) -> Callable[[Response], T]:
    """Reads the envelope of one record."""
    return cast("Callable[[Response], T]", _one_reader(kind))  # type: ignore[arg-type]


def read_page(kind: type[T]) -> Callable[[Response], Page[T]]:
    """Reads the envelope of a list."""
    return cast("Callable[[Response], Page[T]]", _page_reader(kind))  # type: ignore[arg-type]


def read_nothing(response: Response) -> None:
    """Of a call that returns no record. The envelope is still checked."""
    _decode(_bare_decoder(), response)


def read_body(response: Response) -> Body:
    """Reads the envelope and leaves its data as JSON values."""
    found = _decode(_any_decoder(), response)
    return Body(found.data, found.pagination, Meta(response.headers, _messages(found.metadata)))


class _Log(msgspec.Struct, frozen=True):
    message: str


class _Metadata(msgspec.Struct, frozen=True):
    logs: tuple[_Log, ...] = ()


class _Bare(msgspec.Struct, frozen=True, kw_only=True):
    success: bool
    metadata: _Metadata = _Metadata()


class _One(_Bare, Generic[T], frozen=True, kw_only=True):
    data: T


class _Many(_Bare, Generic[T], frozen=True, kw_only=True):
    data: tuple[T, ...]
    pagination: Pagination | None = None


class _Any(_Bare, frozen=True, kw_only=True):
    data: Any = None
    pagination: Pagination | None = None


@cache
def _any_decoder() -> msgspec.json.Decoder[_Any]:
    return msgspec.json.Decoder(_Any)


@cache
def _bare_decoder() -> msgspec.json.Decoder[_Bare]:
    return msgspec.json.Decoder(_Bare)


# Decoders are made on first use: making all of them would be a good part of the import.
@cache
def _one_reader(kind: Any) -> Any:
    decoder = msgspec.json.Decoder(_One[kind])

    def read(response: Response) -> Any:
        found = _decode(decoder, response)
        return with_meta(found.data, Meta(response.headers, _messages(found.metadata)))

    return read


@cache
def _page_reader(kind: Any) -> Any:
    decoder = msgspec.json.Decoder(_Many[kind])

    def read(response: Response) -> Page[Any]:
        found = _decode(decoder, response)
        return Page(found.data, found.pagination, Meta(response.headers, _messages(found.metadata)))

    return read


def _decode(decoder: msgspec.json.Decoder[T], response: Response) -> T:
    try:
        return decoder.decode(response.body)
    except UNREADABLE as error:
        problem = f"the response body is not as described: {error}"
    raise UnexpectedResponse(problem, status=response.status)


def _messages(metadata: _Metadata) -> tuple[str, ...]:
    return tuple([log.message for log in metadata.logs]) if metadata.logs else ()


def walk_pages(build: Callable[[int], Call[Page[T]]]) -> Walk[T]:
    """Page by page, by number. A list is in creation order, so new records never shift a page already read."""

    def following(page: Page[T]) -> Call[Page[T]] | None:
        at = page.pagination
        if at is None or not page.items or at.current_page * at.per_page >= at.total_items:
            return None
        return build(at.current_page + 1)

    return Walk(build(1), following)


def walk_sequence(build: Callable[[int], Call[Page[T]]], after: int) -> Walk[T]:
    """On from a sequence number, until a page is empty."""

    def following(page: Page[T]) -> Call[Page[T]] | None:
        return build(page.items[-1].sequence) if page.items else None  # type: ignore[attr-defined]

    return Walk(build(after), following)
