"""A request of a signed-in operator, as a page sees it."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from relaydeck.console.admin_calls import AdminCalls, SessionCredential
from relaydeck.console.guard import form_token
from relaydeck.console.rendering import render
from relaydeck.console.responses import page
from relaydeck.credentials.console_sessions import ConsoleSession
from relaydeck.errors import BadRequest, Forbidden
from relaydeck.http.parameters import path_identifier, query_parameters
from relaydeck.http.pipeline import Call, Reply
from relaydeck.secret import Secret
from relaydeck.store.open_store import Store

T = TypeVar("T")
Read = Callable[[Callable[[Store], Any]], Awaitable[Any]]  # reads the database in another thread
_MOST_FIELDS = 2000
_THEMES = ("light", "dark")


class Visitor(NamedTuple):
    """Who is signed in."""

    session: ConsoleSession
    secret: Secret
    credential: SessionCredential

    @property
    def name(self) -> str:
        return self.session.token_name

    @property
    def kind(self) -> str:
        return self.session.kind

    @property
    def may_change(self) -> bool:
        return self.credential.may_change

    @property
    def form_token(self) -> str:
        return form_token(self.secret)


class Visit(NamedTuple):
    visitor: Visitor
    call: Call
    admin: AdminCalls
    read: Read
    path: str  # below the console, as sent
    revision: int  # of the database, before the page reads it

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
        return dict(form_fields(self.call))

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
        shared |= {"theme": theme_of(self.call), "revision": self.revision}
        return page(render(template, **shared, **values), status)


def query_of(call: Call) -> dict[str, str]:
    found = dict(query_parameters(call.query))
    if any("\0" in value for value in found.values()):
        raise BadRequest("a value in the query contains a NUL character")
    return found


def form_fields(call: Call) -> list[tuple[str, str]]:
    """Raises BadRequest."""
    if call.headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/x-www-form-urlencoded":
        raise BadRequest("the content type is not that of a form")
    try:
        return parse_qsl(call.body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise BadRequest("the form cannot be read") from None


def cookies_of(call: Call) -> dict[str, str]:
    given = call.headers.get(b"cookie", b"").decode("latin-1")
    pairs = (part.strip().partition("=") for part in given.split(";"))
    return {name: value for name, _, value in pairs if name}


def theme_of(call: Call) -> str:
    """The theme that the operator chose; empty: that of the system."""
    chosen = cookies_of(call).get("relaydeck_theme", "")
    return chosen if chosen in _THEMES else ""
