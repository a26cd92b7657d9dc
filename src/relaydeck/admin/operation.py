"""An operation of the admin API: it reads its request, and returns the content of the response or a change.

A change is the work that makes the content. `operation_runner.py` runs it in one transaction.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.admin.bodies import ApplyRequest
from relaydeck.admin.documents import Json, decode_apply, read_document
from relaydeck.admin.views import RecordView
from relaydeck.errors import BadRequest
from relaydeck.http.decoding import body_decoder
from relaydeck.http.envelope import Pagination
from relaydeck.http.parameters import path_identifier, query_parameters
from relaydeck.http.pipeline import Call, Reply
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault

Query = Mapping[str, str]
_decoder = cache(body_decoder)
_LARGE = 1_048_576


class Request:
    """A request, as an operation reads it. Every part that is not valid raises BadRequest."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.query_string = call.query

    @property
    def identifier(self) -> str:
        """The one in the path."""
        return path_identifier(self._call.argument)

    @property
    def if_match(self) -> str | None:
        given = self._call.headers.get(b"if-match")
        return None if given is None else given.decode("latin-1")

    def read_query(self) -> Query:
        """The names and values of the query, unknown ones too."""
        given: dict[str, str] = {}
        for name, value in query_parameters(self.query_string):
            if name in given:
                raise BadRequest("a name is given twice in the query")
            if "\0" in value:
                raise BadRequest("a value in the query contains a NUL character")  # PostgreSQL cannot store it
            given[name] = value
        return given

    def read_document(self) -> Json:
        return read_document(self._call.headers, self._call.body)

    def decode(self, shape: type[msgspec.Struct]) -> Any:
        """The body as a `shape`."""
        return _decoder(shape)(self._call.headers, self._call.body)

    @property
    def is_large(self) -> bool:
        return len(self._call.body) > _LARGE

    def decode_apply(self) -> ApplyRequest:
        return decode_apply(self._call.headers, self._call.body)

    def refuse_content(self) -> None:
        """For an operation without a body; an empty object is accepted."""
        if self._call.body.strip() not in (b"", b"{}"):
            raise BadRequest("this operation takes no body")


class Content(NamedTuple):
    """The data of a successful response, with its status, entity tag, notes and page."""

    data: Any
    status: int = 200
    etag: str = ""
    notes: tuple[str, ...] = ()
    pagination: Pagination | UnsetType = UNSET


def encoded(body: msgspec.Struct) -> msgspec.Raw:
    """The data of a large response, encoded where it is made: encoding it later would delay the event loop."""
    return msgspec.Raw(msgspec.json.encode(body))


def record_content(view: RecordView, status: int = 200) -> Content:
    return Content(view.body, status, view.etag, view.notes)


Change = Callable[[ChangeContext], Content]


ContextOf = Callable[[Transaction, Vault], ChangeContext]  # the vault opens and seals what the transaction contains
# Runs the work in a transaction that it prepares itself, on connections of its own.
Transact = Callable[[ContextOf, Callable[[ChangeContext], Reply]], Awaitable[Reply]]


class RepeatableChange(NamedTuple):
    """A change by POST. With an Idempotency-Key, a repeated request does not make it again."""

    operation: str
    change: Change
    transact: Transact | None = None  # None: in a transaction of the writer, with other changes


Operation = Callable[[Request], Awaitable[Content | Change | RepeatableChange]]
Operations = dict[str, dict[str, Operation]]  # by path and method
