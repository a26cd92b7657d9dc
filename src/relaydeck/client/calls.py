"""A call as a value: what to send, how to read the response, and whether it may be sent again.

A transport sends a `Request` and returns a `Response` or a failure; nothing here does input or output. `operation` and
`walk` turn a method that builds a call into one that runs it.
"""

import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import cache, partial, wraps
from types import GenericAlias
from typing import (
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_origin,
    overload,
)
from urllib.parse import quote, urlencode

import msgspec

from relaydeck.client.errors import ApiError, NotFound, TransportError, UnexpectedResponse

T = TypeVar("T")
R = TypeVar("R", covariant=True)
P = ParamSpec("P")
# What decoding raises: RecursionError for one value within another, thousands of times.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
JSON = {"Content-Type": "application/json"}
PAGE_SIZE = 1000  # of an iterator
_MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
_MOST_DIGITS = 18
_REASON = "`reason`: Why you make the change, for those who approve it."


class Headers(Protocol):
    """Case-insensitive look-up."""

    def get(self, name: str, /) -> str | None: ...


class MaskedText(str):
    """Text that a repr does not show: a dictionary of headers can appear in a traceback that lists variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class Request(NamedTuple):
    method: str
    target: str  # path and query, percent-encoded
    headers: Mapping[str, str]
    body: bytes | None

    def __repr__(self) -> str:
        """Without headers and body: both may hold secrets."""
        return f"<Request {self.method} {self.target}>"


class Response(NamedTuple):
    status: int
    headers: Headers
    body: bytes

    def __repr__(self) -> str:
        return f"<Response {self.status}>"


Outcome = Response | TransportError | UnexpectedResponse
"""The result of one attempt. A failure is a value here: raised later, it carries no frames of the HTTP library, whose
variables hold the token."""


def whole_number(text: str) -> int | None:
    """The number in a header; None when it is not one that the service sends."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


class Meta:
    """What arrived beside a record: `logs` are the service's hints, `etag` goes into `if_match`."""

    __slots__ = ("_headers", "logs", "recognised")

    def __init__(self, headers: Headers, logs: tuple[str, ...] = (), *, recognised: bool = False) -> None:
        self._headers = headers
        self.logs = logs
        self.recognised = recognised

    @property
    def etag(self) -> str:
        return self._headers.get("ETag") or ""

    @property
    def request_id(self) -> str:
        return self._headers.get("X-Request-Id") or ""

    @property
    def stale_seconds(self) -> int | None:
        """How old the list is while the service cannot reach its database; None when it is current."""
        return whole_number(self._headers.get("Relaydeck-Stale") or "")


class Record(msgspec.Struct, frozen=True, dict=True):
    """`meta` describes the response that a record arrived in alone; it takes no part in comparisons."""

    @property
    def meta(self) -> Meta:
        return self.__dict__.get("meta") or Meta({})


def with_meta(record: T, meta: Meta) -> T:
    if isinstance(record, Record):
        record.__dict__["meta"] = meta
    return record


class Pagination(msgspec.Struct, frozen=True):
    current_page: int
    per_page: int
    total_items: int


@dataclass(frozen=True, slots=True, eq=False)
class Page(Generic[T]):
    """One page of a list. `pagination` is None where a list is read on by sequence number (events, deliveries)."""

    items: tuple[T, ...]
    pagination: Pagination | None
    meta: Meta = field(repr=False)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def total_items(self) -> int:
        return len(self.items) if self.pagination is None else self.pagination.total_items


class Body(NamedTuple):
    """A response as JSON values: `data` of its envelope, and what came beside it."""

    data: Any
    pagination: Pagination | None
    meta: Meta
    changed: bool = True  # of a change: whether it made a difference


class Repeat(Enum):
    """Whether a call may be sent again when the outcome of the first attempt is unknown."""

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


def path(*segments: str) -> str:
    """Segments as one path; an identifier may hold any character. A proxy would take a dot segment out of the path."""
    if not {"", ".", ".."}.isdisjoint(segments):
        raise ValueError("an identifier is empty, or a dot segment")
    return "/" + "/".join([quote(segment, safe="") for segment in segments])


def with_query(target: str, **query: object) -> str:
    """A value that is None is left out."""
    given = {name: _query_text(value) for name, value in query.items() if value is not None}
    return f"{target}?{urlencode(given)}" if given else target


def _query_text(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else value


def admin_call(
    method: str,
    segments: Sequence[str],
    read: Callable[[Response], T],
    *,
    query: Mapping[str, object] | None = None,
    document: object = None,
    if_match: str | None = None,
    idempotency_key: str | None = None,
    is_change: bool = True,
) -> Call[T]:
    """An operation of `/admin/v1`.

    Every POST that is a change carries an `Idempotency-Key`, so a repeated POST gets the first response and nothing is
    done twice. A PATCH with `if_match` is not repeated after an attempt whose effect is not known: the repeat would be
    refused for the change that the first attempt made.
    """
    target = with_query(path("admin", "v1", *segments), **(query or {}))
    headers = {} if if_match is None else _header("If-Match", if_match)
    if method == "GET":
        return Call(method, target, read, None, headers)
    body = b"" if document is None else msgspec.json.encode(document)
    if document is not None:
        headers |= _MERGE_PATCH if method == "PATCH" else JSON
    if not is_change:
        return Call(method, target, read, body, headers)
    if method == "POST":
        headers |= _header("Idempotency-Key", str(uuid.uuid4()) if idempotency_key is None else idempotency_key)
    repeat = Repeat.SAME if method == "POST" or if_match is None else Repeat.NEVER
    return Call(method, target, read, body, headers, repeat)


def _header(name: str, value: str) -> dict[str, str]:
    """Raises ValueError for a value that could end its header and begin another."""
    if not value or not value.isascii() or not value.isprintable():
        raise ValueError(f"{name} must hold printable ASCII characters, at least one")
    return {name: value}


def _gone(error: ApiError) -> Generator[Call[Any], Any, None]:
    """A record that a repeated delete does not find was deleted by an attempt before it."""
    if not isinstance(error, NotFound):
        raise error
    return
    yield  # makes this a generator: it needs no further call


class _Log(msgspec.Struct, frozen=True):
    message: str


class _Metadata(msgspec.Struct, frozen=True):
    logs: tuple[_Log, ...] = ()


class _Envelope(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    success: bool
    data: T
    metadata: _Metadata = _Metadata()
    pagination: Pagination | None = None
    changed: bool = True


# Decoders are made on first use: making all of them would be a good part of the import.
@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Envelope[kind])


def _decode(kind: Any, response: Response) -> tuple[_Envelope[Any], Meta]:
    try:
        found: _Envelope[Any] = _decoder(kind).decode(response.body)
    except UNREADABLE as error:
        problem = f"the response body is not as described: {error}"
    else:
        return found, Meta(response.headers, tuple([log.message for log in found.metadata.logs]))
    raise UnexpectedResponse(problem, status=response.status)


def read_one(kind: type[T]) -> Callable[[Response], T]:
    def read(response: Response) -> T:
        found, meta = _decode(kind, response)
        record: T = found.data
        return with_meta(record, meta)

    return read


def read_page(kind: type[T]) -> Callable[[Response], Page[T]]:
    items = GenericAlias(tuple, (kind, ...))

    def read(response: Response) -> Page[T]:
        found, meta = _decode(items, response)
        return Page(found.data, found.pagination, meta)

    return read


def read_body(response: Response) -> Body:
    """Reads the envelope and leaves its data as JSON values."""
    found, meta = _decode(Any, response)
    return Body(found.data, found.pagination, meta, found.changed)


class Blocking:
    """Its operations return their results."""


class Asynchronous:
    """Its operations are awaited, and its iterators are asynchronous."""


class Method(Protocol[P, R]):
    """The type of an operation, in both clients."""

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Blocking, owner: Any = None) -> Callable[P, R]: ...
    @overload
    def __get__(self, instance: Asynchronous, owner: Any = None) -> Callable[P, Awaitable[R]]: ...


class Walk(Protocol[P, R]):
    """The type of an iterator over a list, in both clients."""

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Blocking, owner: Any = None) -> Callable[P, Iterator[R]]: ...
    @overload
    def __get__(self, instance: Asynchronous, owner: Any = None) -> Callable[P, AsyncIterator[R]]: ...


def operation(build: Callable[Concatenate[Any, P], Call[T]]) -> Method[P, T]:
    """A method that runs the call which `build` makes. Its signature shows the type of the result."""
    built = inspect.signature(build)
    (result,) = get_args(built.return_annotation)
    return cast("Method[P, T]", _method(build, build, built.replace(return_annotation=result)))


def sends(
    method: str, template: str, *query: str, **names: str
) -> Callable[[Callable[Concatenate[Any, P], T]], Method[P, T]]:
    """A method of `/admin/v1` from its declaration, which has no body of its own.

    An argument that `template` names is a part of the path. The others are the query of a GET, under their `names`,
    and the document of any other operation, except those that `query` lists. One that is None is left out, except in a
    change. Every change of records takes a reason, which is documented here.
    """

    def decorate(declaration: Callable[Concatenate[Any, P], T]) -> Method[P, T]:
        signature = inspect.signature(declaration)
        if "reason" in query and declaration.__doc__:  # without docstrings, there is none
            declaration.__doc__ = f"{inspect.cleandoc(declaration.__doc__)}\n\n{_REASON}"
        result = signature.return_annotation
        read = read_page(get_args(result)[0]) if get_origin(result) is Page else read_one(result or Any)

        def build(*args: Any, **kwargs: Any) -> Call[Any]:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            arguments = {name: value for name, value in bound.arguments.items() if name != "self"}
            return _declared_call(method, template, arguments, query, names, read)

        return cast("Method[P, T]", _method(build, declaration, signature))

    return decorate


def _declared_call(
    method: str,
    template: str,
    arguments: dict[str, Any],
    query: Sequence[str],
    names: Mapping[str, str],
    read: Callable[[Response], Any],
) -> Call[Any]:
    segments = [arguments.pop(each[1:-1]) if each.startswith("{") else each for each in template.split("/")]
    if method == "GET":
        return admin_call(method, segments, read, query={names.get(each, each): arguments[each] for each in arguments})
    is_change = method != "POST" or "idempotency_key" in arguments
    options: dict[str, Any] = {name: arguments.pop(name, None) for name in ("if_match", "idempotency_key")}
    options["query"] = {name: arguments.pop(name) for name in query}
    if method == "DELETE":
        return admin_call(method, segments, read, **options)._replace(repeat=Repeat.SAME, settle=_gone)
    if method == "PATCH":
        change = arguments["change"] if "change" in arguments else _given(arguments)
        return admin_call(method, segments, read, document=change, **options)
    more = arguments.pop("more", {})
    document = _given(arguments | more)
    return admin_call(method, segments, read, document=document or None, is_change=is_change, **options)


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _method(build: Callable[..., Call[Any]], documented: Callable[..., Any], signature: inspect.Signature) -> Any:
    @wraps(documented)
    def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self._run(build(self, *args, **kwargs))

    run.__signature__ = signature  # type: ignore[attr-defined]
    run.build = build  # type: ignore[attr-defined]
    return run


def walk(listing: Method[P, Page[T]]) -> Walk[P, T]:
    """An iterator over every record of a list. It takes what the list takes, and reads on from there."""
    listed: Any = listing
    signature = inspect.signature(listed)

    def iterate(self: Any, /, **query: Any) -> Any:
        query = {name: value for name, value in query.items() if value is not None}
        query.setdefault("per_page", PAGE_SIZE)
        build = partial(listed.build, self, **query)
        return self._walk(build(), lambda page: _following(page, build))

    iterate.__doc__ = f"Every record of `{listed.__name__}`, with the same arguments, fetched `per_page` at a time."
    records = GenericAlias(Iterator, get_args(signature.return_annotation))
    iterate.__signature__ = signature.replace(return_annotation=records)  # type: ignore[attr-defined]
    return cast("Walk[P, T]", iterate)


def _following(page: Page[Any], build: "partial[Call[Page[Any]]]") -> Call[Page[Any]] | None:
    """A list with pages is in creation order, so new records never shift a page already read."""
    at = page.pagination
    if not page.items:
        return None
    if at is None:
        end = "before" if build.keywords.get("order") == "newest" else "after"
        return build(**{end: page.items[-1].sequence})
    return None if at.current_page * at.per_page >= at.total_items else build(page=at.current_page + 1)
