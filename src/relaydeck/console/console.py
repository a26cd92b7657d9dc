"""Everything below `/console`: finds the page of a request, checks who sent it, and renders refusals."""

from functools import partial

from relaydeck.console.admin_calls import AdminCalls
from relaydeck.console.forms import reason_of
from relaydeck.console.guard import require_form_token, require_same_origin
from relaydeck.console.live import LiveUpdates
from relaydeck.console.pages import PAGES
from relaydeck.console.responses import ROOT, asset, event_stream, redirect
from relaydeck.console.services import Page, Pages, PageServices, Sources
from relaydeck.console.sign_in import SignIn
from relaydeck.console.visit import Read, Visit, Visitor, form_fields
from relaydeck.doctor.audit_log import verify_stored_audit
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.errors import Forbidden, RequestError, UnknownPath, WrongMethod
from relaydeck.http.pipeline import Call, Find, Reply
from relaydeck.settings import Settings
from relaydeck.store.row_proofs import RowProofs
from relaydeck.store.writer import Writer


class Console:
    """`find_admin` finds operations of the admin API, `read` reads the database in the thread of the admin API."""

    def __init__(
        self, settings: Settings, writer: Writer, find_admin: Find, read: Read, sources: Sources, proofs: RowProofs
    ) -> None:
        self._find_admin = find_admin
        self._revision = sources.revision
        self._live = LiveUpdates(sources.revision, sources.is_stopping, settings.console_streams)
        self._read = read
        self._sign_in = SignIn(settings, writer, read, proofs)
        self._pages: Pages = {}
        self._verification = SharedRun(partial(verify_stored_audit, settings), "audit-verification")
        services = PageServices(settings, sources, self._verification)
        for pages in PAGES:
            self._pages |= pages(services)

    def close(self) -> None:
        self._live.close()
        self._verification.close()

    async def answer(self, call: Call) -> Reply:
        """`call.argument` is the method and the path. A refusal becomes a page; a failure is left to the pipeline."""
        method, _, target = call.argument.partition(" ")
        path = target.removeprefix(ROOT)
        if path.startswith("/assets/"):
            return asset(path.rpartition("/")[2])
        return await self._answer(call, "GET" if method == "HEAD" else method, path)

    async def _answer(self, call: Call, method: str, path: str) -> Reply:
        visitor = None
        try:
            if (reply := await self._enter(call, method, path)) is not None:
                return reply
            visitor = await self._sign_in.visitor(call)
            if visitor is None:
                return self._send_to_sign_in(call, method)
            return await self._show(call, method, path, visitor)
        except RequestError as error:
            if error.status >= 500:
                raise
            return self._refusal(call, path, visitor, error)

    async def _enter(self, call: Call, method: str, path: str) -> Reply | None:
        """What is served without a session; None: the path needs one."""
        match method, path:
            case "GET", "/sign-in":
                return self._sign_in.form(call)
            case "POST", "/sign-in":
                return await self._sign_in.by_token(call)
            case "GET", "/enter":
                return await self._sign_in.by_link(call)
        return None

    def _send_to_sign_in(self, call: Call, method: str) -> Reply:
        if b"x-console-refresh" in call.headers or method != "GET":
            return self._sign_in.form(call, "Your session has ended. Sign in again.", 401)
        return redirect("/sign-in")

    async def _show(self, call: Call, method: str, path: str, visitor: Visitor) -> Reply:
        if method != "GET":
            require_same_origin(call.headers)
            require_form_token(visitor.secret, dict(form_fields(call)).get("form_token", ""))
            if path == "/sign-out":
                return await self._sign_in.sign_out(call, visitor)
            if not visitor.may_change:
                raise Forbidden("this session may look, but not change anything")
        if path == "/live":
            return event_stream(self._live.open())
        found, identifier = self._find(method, path)
        admin = AdminCalls(self._find_admin, visitor.credential)
        named = Call(identifier, call.headers, call.body, call.query, visitor.credential, call.scheme, call.peer)
        return await found(Visit(visitor, named, admin, self._read, path, self._revision()))

    def _find(self, method: str, path: str) -> tuple[Page, str]:
        template, identifier = self._template(path)
        methods = self._pages.get(template)
        if methods is None:
            raise UnknownPath("there is no such page")
        if method not in methods:
            raise WrongMethod(", ".join(methods))
        return methods[method], identifier

    def _template(self, path: str) -> tuple[str, str]:
        if path in self._pages:
            return path, ""
        match path.split("/"):
            case ["", resource, identifier, *verb] if identifier:
                return "/".join(["", resource, "{id}", *verb]), identifier
        return path, ""

    def _refusal(self, call: Call, path: str, visitor: Visitor | None, error: RequestError) -> Reply:
        if visitor is None:
            reply = self._sign_in.form(call, reason_of(error), error.status)
        else:
            # Without the query, which may be what is refused.
            plain = Call("", call.headers, b"", b"", visitor.credential)
            admin = AdminCalls(self._find_admin, visitor.credential)
            visit = Visit(visitor, plain, admin, self._read, path, self._revision())
            reply = visit.page("refusal.html", status=error.status, error=error, reason=reason_of(error))
        return Reply(reply.status, reply.body, reply.content_type, (*reply.headers, *error.headers))
