"""A request to a page by a signed-in operator, and the pages that are registered for them.

A page registers with the method and the path that it serves: `@get("/relayers/{id}")`, `@post("/relayers")`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from relaydeck.api.operation import Operation
from relaydeck.api.operations import BY_NAME
from relaydeck.console.admin_calls import Json, Operator, Result, Run, call_operation
from relaydeck.console.fleet import read_overviews
from relaydeck.console.formats import visible
from relaydeck.console.node_calls import NodeCalls, NodeTests
from relaydeck.console.rendering import page, path_to, redirect
from relaydeck.console.request import Fields, Headers, reason_of, view_of, whole_number
from relaydeck.doctor import AuditVerification, Finding
from relaydeck.doctor.integrity import verify_stored_audit
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.errors import RequestError
from relaydeck.fees.backtest import BacktestRun
from relaydeck.fees.estimator import Estimator
from relaydeck.http.pipeline import Reply
from relaydeck.http.request import path_identifier
from relaydeck.networks.model import Network
from relaydeck.provisioning.planner import UrlRules
from relaydeck.settings.model import Settings
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.store.audit import AuditLog
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

Found = TypeVar("Found")
Menu = tuple[tuple[tuple[str, str], ...], ...]
_PER_PAGE = 50
_LAST_PAGE = 10**15
_MOST_NAMES = 200
RELAYERS = ("relayers", "events", "balances", "runways", "troubles")  # what shows relayers with their state


@dataclass
class Services:
    """What the worker lends to the console, and what its pages share."""

    settings: Settings
    writer: Writer
    run: Run  # runs an operation of the admin API
    read: Callable[..., Awaitable[Any]]  # the database in the thread of the admin API, as somebody sees it if given
    audit: AuditLog  # with the origin of changes by the console
    revision: Callable[[], int]  # of the database, as far as this worker knows
    is_stopping: Callable[[], bool]
    report_issuer: Callable[[str, str], None]
    report_sign_on: Callable[[str, str], None]
    estimator: Estimator
    keys: SignerKeys
    urls: UrlRules
    examination: SharedRun[list[Finding]]
    backtests: list[tuple[Network, SharedRun[BacktestRun]]] = field(default_factory=list)  # the last ones

    @cached_property
    def node_calls(self) -> NodeCalls:
        return NodeCalls(self.estimator, self.settings.run_folder)

    @cached_property
    def node_tests(self) -> NodeTests:
        return NodeTests(self.settings)

    @cached_property
    def verification(self) -> SharedRun[AuditVerification]:
        """Of the audit log."""
        return SharedRun(partial(verify_stored_audit, self.settings), "audit-verification")


class SignInFailed(Exception):
    """The provider did not sign a person in. `problem` is for the person."""

    def __init__(self, problem: str, status: int) -> None:
        super().__init__(problem)
        self.problem, self.status = problem, status


class Pager(NamedTuple):
    """A page of a list, with links to the one before and after that keep the filters."""

    number: int
    total: int
    query: dict[str, str]
    size: int = _PER_PAGE

    @property
    def last(self) -> int:
        return max(1, -(-self.total // self.size))

    @property
    def first_item(self) -> int:
        return min(self.total, (self.number - 1) * self.size + 1)

    @property
    def last_item(self) -> int:
        return min(self.total, self.number * self.size)

    def link(self, number: int) -> str:
        return "?" + urlencode(self.query | {"page": str(number)})


class PageRequest(NamedTuple):
    operator: Operator
    services: Services
    menu: Menu
    path: str  # below the console, as sent
    argument: str  # the identifier in it, still percent-encoded
    headers: Headers
    query: dict[str, str]
    revision: int  # of the database, before the page reads it
    fields: Fields = ()  # of the form that was sent, in their order
    shows: tuple[str, ...] = ()  # after whose changes the page loads itself again

    @property
    def identifier(self) -> str:
        """The identifier in the path. Raises BadRequest."""
        return path_identifier(self.argument)

    @property
    def form(self) -> dict[str, str]:
        """The fields of the form; of a field that occurs more than once, the last."""
        return dict(self.fields)

    async def read(self, work: Callable[[Store], Found]) -> Found:
        """Read the database, in which there is nothing that the operator may not see. Raises StoreError."""
        found: Found = await self.services.read(work, self.operator.visible)
        return found

    async def call(
        self, operation: str, identifier: str = "", /, *, document: Json | None = None, if_match: str = "", **query: str
    ) -> Result:
        """Call an operation of the admin API by its name. Raises RequestError, Proposed."""
        return await call_operation(self.services.run, self.operator, operation, identifier, document, if_match, query)

    def at_most(self, records: int) -> int:
        """That many, or as many as one page of a list may have."""
        return min(records, self.services.settings.max_per_page)

    async def listed(self, operation: str, /, *, per_page: int = _PER_PAGE, **defaults: str) -> Json:
        """A page of a list, with the filters in the query: the values for its template."""
        filters = [each.name for each in BY_NAME[operation].query if each.name not in ("page", "per_page")]
        query = {each: self.query[each] for each in filters if self.query.get(each)}
        number, per_page = whole_number(self.query.get("page", ""), _LAST_PAGE) or 1, self.at_most(per_page)
        given: Json = {**defaults, **query, "page": str(number), "per_page": str(per_page)}
        found = await self.call(operation, **given)
        return {"listed": found.data, "pager": Pager(number, found.total, query, per_page), "notes": found.notes}

    async def names(self, table: str, identity: str = "id") -> list[str]:
        """Of the newest records, to choose from: to list the records would open what is sealed in them."""
        newest = f"SELECT {identity} AS name FROM {table} ORDER BY seq DESC LIMIT {_MOST_NAMES}"
        return await self.read(lambda store: [row.name for row in store.database.read(newest, {})])

    async def used_by(self, filter: str, value: str) -> Json:
        """The first relayers that match, with the worst problem of each."""
        asked: Json = {filter: value, "per_page": "20"}
        found = await self.call("list_relayers", **asked)
        names = [each["id"] for each in found.data]
        overviews = await self.read(lambda store: read_overviews(store.database.read, names))
        return {"data": found.data, "total": found.total, "overviews": overviews}

    def page(self, template: str, *, status: int = 200, **values: Any) -> Reply:
        shared = {
            "operator": self.operator,
            "path": self.path,
            "query": self.query,
            **view_of(self.headers),
            "revision": self.revision,
            "menu": self.menu,
            # A page that answers a form has something that loading it again would not bring back: a new token, a plan.
            # A page that shows the result of long work passes False: loading it again would repeat the work.
            "is_live": bool(self.shows) and not self.fields,
            "shows": ",".join(self.shows),
        }
        return page(template, status, **shared | values)

    def refusal(self, error: RequestError, *, is_change: bool) -> Reply:
        reason = reason_of(error)
        return self.page("refusal.html", status=error.status, error=error, reason=reason, is_change=is_change)


Page = Callable[[PageRequest], Awaitable[Reply]]
PageT = TypeVar("PageT", bound=Page)


class RegisteredPage(NamedTuple):
    answer: Page
    operation: Operation  # which the session must be allowed to call
    shows: tuple[str, ...] = ()


# By path below the console, with `{id}` for an identifier, and by method.
PAGES: dict[str, dict[str, RegisteredPage]] = {}


def get(
    path: str, operation: str = "list_networks", *, shows: tuple[str, ...] = ("audit",)
) -> Callable[[PageT], PageT]:
    """The page is for sessions that may call the operation: any that reads, where none is named.

    It loads itself again after a change of the tables that it shows, if any; by default of `audit`, which has an entry
    for each change of a record. What is measured, as balances, counts only from time to time,
    and what `nodes` answer always does.
    """
    return _registers("GET", path, operation, shows)


def post(path: str, operation: str) -> Callable[[PageT], PageT]:
    """The page is for sessions that may call the operation. It answers a form, whose token was checked."""
    return _registers("POST", path, operation)


def _registers(method: str, path: str, operation: str, shows: tuple[str, ...] = ()) -> Callable[[PageT], PageT]:
    def register(page: PageT) -> PageT:
        methods = PAGES.setdefault(path, {})
        assert method not in methods, f"two pages at {path}"
        methods[method] = RegisteredPage(page, BY_NAME[operation], shows)
        return page

    return register


def act(operation: str, *, done: str) -> None:
    """Register a button that calls an operation, at the operation's own path, and leads back to its record."""
    *record, verb = BY_NAME[operation].path.split("/")

    @post(path := "/".join(["", *record, verb]), operation)
    async def run(request: PageRequest) -> Reply:
        identifier = request.identifier if "{id}" in path else ""
        await request.call(operation, identifier)
        back = path_to(*(identifier if part == "{id}" else part for part in record))
        return redirect(f"{back}?done={done}")


def deletion(resource: str, consequence: str, *, typed: str = "id") -> None:
    """Register the page that deletes a record, confirmed by typing one of its fields."""
    word = resource.removesuffix("s")

    @get(path := f"/{resource}/{{id}}/delete")
    async def show(request: PageRequest, status: int = 200, problem: str = "") -> Reply:
        found = await request.call(f"get_{word}", request.identifier)
        values = {"resource": resource, "consequence": consequence, "typed": typed, "problem": problem}
        return request.page("delete.html", status=status, record=found.data, etag=found.etag, **values)

    @post(path, f"delete_{word}")
    async def delete(request: PageRequest) -> Reply:
        form, found = request.form, await request.call(f"get_{word}", request.identifier)
        expected: str = found.data[typed]
        if form.get("typed") not in (expected, visible(expected)):
            return await show(request, 400, f"Type the {typed} exactly as it is shown.")
        await request.call(f"delete_{word}", request.identifier, if_match=form.get("etag", "*"))
        return redirect(f"/{resource}?done=deleted")
