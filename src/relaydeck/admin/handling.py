"""How the operations of the admin API are handled: a handler reads its request, and returns a response or a change.

A change is work that `api.py` runs in one transaction. The same handlers serve requests over HTTP, the console, and
commands on the home: `Services` is what differs between them.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.admin.documents import Json, decode_apply, read_document
from relaydeck.api.list_filters import Parameter
from relaydeck.api.operation import Operation
from relaydeck.api.operations import OPERATIONS
from relaydeck.api.records import ApplyRequest
from relaydeck.credential import Credential
from relaydeck.doctor import Finding
from relaydeck.errors import BadRequest
from relaydeck.fees.estimator import Estimator
from relaydeck.http.body import body_decoder
from relaydeck.http.envelope import Pagination
from relaydeck.http.pipeline import Call, Reply
from relaydeck.http.request import path_identifier, query_parameters
from relaydeck.provisioning.planner import UrlRules
from relaydeck.scope import Scope
from relaydeck.settings.model import Settings
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.known_addresses import KnownAddresses
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.vault import Vault

Query = Mapping[str, str]
Result = TypeVar("Result")
_decoder = cache(body_decoder)
_LARGE = 1_048_576
_PAGING = ("page", "per_page")  # `read_page` checks them: they may have any number of digits


class Request:
    """A request, as a handler reads it. Every part that is not valid raises BadRequest."""

    has_stored_answer = True  # what a repeated request gets: it is written even if nothing else is
    addresses: KnownAddresses | None = None  # of signers, found by a plan of the same request

    def __init__(self, call: Call, operation: Operation) -> None:
        """Refuses what no handler of the operation reads."""
        self._call = call
        self.query_string = call.query
        self.query = _read_query(call.query, operation.parameters) if call.query else {}
        if operation.request is None and call.body.strip() not in (b"", b"{}"):
            raise BadRequest("this operation takes no body")

    @property
    def identifier(self) -> str:
        return path_identifier(self._call.argument)

    @property
    def sender(self) -> Credential | None:
        """None: an operator on the machine."""
        return self._call.credential

    @property
    def if_match(self) -> str | None:
        given = self._call.headers.get(b"if-match")
        return None if given is None else given.decode("latin-1")

    def read_document(self) -> Json:
        return read_document(self._call.headers, self._call.body)

    def decode(self, shape: type[msgspec.Struct]) -> Any:
        return _decoder(shape)(self._call.headers, self._call.body)

    @property
    def is_large(self) -> bool:
        return len(self._call.body) > _LARGE

    def decode_apply(self) -> ApplyRequest:
        return decode_apply(self._call.headers, self._call.body)


def _read_query(query: bytes, known: Mapping[str, Parameter]) -> Query:
    given: dict[str, str] = {}
    for name, value in query_parameters(query):
        if name not in known:
            raise BadRequest(f"unknown query parameter: this operation takes {', '.join(sorted(known)) or 'none'}")
        if name in given:
            raise BadRequest("a name is given twice in the query")
        if "\0" in value:
            raise BadRequest("a value in the query contains a NUL character")  # PostgreSQL cannot store it
        if value and name not in _PAGING and (requirement := known[name].requirement(value)):
            raise BadRequest(f"{name} must be {requirement}")
        given[name] = value
    return given


class Content(NamedTuple):
    """The data of a successful response, with its entity tag, notes and page."""

    data: Any
    etag: str = ""
    notes: tuple[str, ...] = ()
    pagination: Pagination | UnsetType = UNSET
    changed: bool = True  # of a change: whether it made a difference
    proposed: bool = False  # whether it became a proposal, which is the data


def encoded(body: msgspec.Struct) -> msgspec.Raw:
    """The data of a large response, encoded where it is made: encoding it later would delay the event loop."""
    return msgspec.Raw(msgspec.json.encode(body))


Change = Callable[[ChangeContext], Content]
Work = Callable[[Transaction, Vault], Reply]  # the vault opens and seals what the transaction contains
Transact = Callable[[Work], Awaitable[Reply]]  # runs the work in a transaction that it prepares itself


class OwnTransaction(NamedTuple):
    """A change that is not written together with others."""

    change: Change
    transact: Transact


class Services(Protocol):
    """What handlers use. A worker has one for all requests, a command on the home one for itself."""

    settings: Settings
    urls: UrlRules
    keys: SignerKeys
    scope: Scope | None
    local_actor: str  # an operator on the machine; empty: the caller is none

    @property
    def estimator(self) -> Estimator: ...

    async def read(self, work: Callable[[Store], Result]) -> Result:
        """Run `work` on a snapshot that includes every acknowledged write. Raises StoreError."""

    async def examine(self) -> list[Finding]:
        """What `relaydeck doctor` finds."""


Handler = Callable[[Any, Request], Awaitable[Content | Change | OwnTransaction]]
HANDLERS: dict[str, Handler] = {}  # by the name of the operation


def handles(operation: Operation) -> Callable[[Handler], Handler]:
    """Register the handler of an operation."""

    def register(handler: Handler) -> Handler:
        assert operation in OPERATIONS and operation.name not in HANDLERS, operation.name
        HANDLERS[operation.name] = handler
        return handler

    return register


def changes(operation: Operation) -> Callable[[Callable[[ChangeContext, Request, Any], Content]], Handler]:
    """Register what an operation does in its transaction, given the request and its decoded body."""

    def register(change: Callable[[ChangeContext, Request, Any], Content]) -> Handler:
        async def handler(_services: Services, request: Request) -> Change:
            body = None if operation.request is None else request.decode(operation.request)
            return lambda context: change(context, request, body)

        return handles(operation)(handler)

    return register


def require_handlers() -> None:
    missing = [each.name for each in OPERATIONS if each.name not in HANDLERS]
    assert not missing, f"operations without a handler: {missing}"
