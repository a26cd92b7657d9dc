"""A request of a signed-in operator, as a page sees it."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from relaydeck.console.admin_calls import AdminCalls
from relaydeck.console.rendering import render
from relaydeck.console.request import Fields, query_of, reason_of, theme_of
from relaydeck.console.responses import page
from relaydeck.console.visitor import Visitor
from relaydeck.errors import Forbidden, RequestError
from relaydeck.http.parameters import path_identifier
from relaydeck.http.pipeline import Call, Find, Reply
from relaydeck.store.open_store import Store

Read = Callable[[Callable[[Store], Any]], Awaitable[Any]]  # reads the database in another thread


class Visit(NamedTuple):
    visitor: Visitor
    call: Call
    admin: AdminCalls
    read: Read
    path: str  # below the console, as sent
    revision: int  # of the database, before the page reads it
    fields: Fields = ()  # of the form that was sent, in their order

    @property
    def identifier(self) -> str:
        """The identifier in the path. Raises BadRequest."""
        return path_identifier(self.call.argument)

    @property
    def query(self) -> dict[str, str]:
        return query_of(self.call)

    @property
    def form(self) -> dict[str, str]:
        """The fields of the form; of a field that occurs more than once, the last."""
        return dict(self.fields)

    @property
    def wants_events(self) -> bool:
        """Whether a script follows the work instead of a reader who waits for the page."""
        return self.call.headers.get(b"accept") == b"text/event-stream"

    def require_change(self) -> None:
        """For a page that only serves to change something. Raises Forbidden."""
        if not self.visitor.may_change:
            raise Forbidden("this session may look, but not change anything")

    def page(self, template: str, *, status: int = 200, **values: Any) -> Reply:
        shared: dict[str, Any] = {"visitor": self.visitor, "path": self.path, "query": self.query}
        # A page that answers a form has something that loading it again would not bring back: a new token, a plan.
        shared |= {"theme": theme_of(self.call), "revision": self.revision, "is_live": not self.fields}
        return page(render(template, **shared, **values), status)

    def refusal(self, error: RequestError, *, is_change: bool) -> Reply:
        reason = reason_of(error)
        return self.page("refusal.html", status=error.status, error=error, reason=reason, is_change=is_change)


class Visits(NamedTuple):
    find_admin: Find
    read: Read
    revision: Callable[[], int]

    def begin(self, visitor: Visitor, call: Call, path: str, identifier: str) -> Visit:
        named = msgspec.structs.replace(call, argument=identifier, credential=visitor.credential)
        admin = AdminCalls(self.find_admin, visitor.credential)
        return Visit(visitor, named, admin, self.read, path, self.revision())

    def begin_without_query(self, visitor: Visitor, call: Call, path: str) -> Visit:
        """For a page that refuses a request, perhaps for what is in its query."""
        return self.begin(visitor, Call("", call.headers, b"", b"", visitor.credential), path, "")
