"""Getting in and out: by an access token or a one-time link."""

from relaydeck.console.guard import FailedSignIns, require_same_origin
from relaydeck.console.rendering import render
from relaydeck.console.request import form_fields, query_of, reason_of, theme_of, with_form
from relaydeck.console.responses import page, redirect
from relaydeck.console.services import Sources
from relaydeck.console.sessions import Sessions
from relaydeck.errors import RequestError, TooManyRequests
from relaydeck.http.pipeline import Call, Reply
from relaydeck.secret import Secret

_UNKNOWN_TOKEN = "This is not a live access token."  # noqa: S105
_WRONG_KIND = "A token of this kind cannot use the console. Use one of kind admin or readonly."
_UNKNOWN_LINK = "This link was used before or has expired. Print another with: relaydeck console"
_TOO_MANY = "Too many attempts failed. Try again in a minute. A valid token or link works at once."
_MOST_BYTES = 4096  # of a form without a session; tokens and codes are short
_ENDED = "Your session has ended. Sign in again."


class SignIn:
    def __init__(self, sources: Sources) -> None:
        self._sessions = Sessions(sources)
        self.visitor = self._sessions.visitor
        self._failures = FailedSignIns(sources.settings.trusted_proxies, self._sessions.now)

    async def answer(self, call: Call, method: str, path: str) -> Reply | None:
        """What is served without a session; None: the path needs one. Raises Forbidden, TooManyRequests."""
        match method, path:
            case "GET", "/sign-in":
                return _form(call)
            case "POST", "/sign-in":
                return await self._by_token(call)
            case "GET", "/enter":  # uses nothing up: browsers and chat programs load links by themselves
                return _form(call, code=query_of(call).get("code", ""))
            case "POST", "/enter":
                return await self._by_link(call)
        return None

    def ask(self, call: Call, method: str) -> Reply:
        """To someone who has to sign in first."""
        if b"x-console-refresh" in call.headers or method != "GET":
            return _form(call, _ENDED, 401)
        return redirect("/sign-in")

    def refuse(self, call: Call, error: RequestError) -> Reply:
        return _form(call, _TOO_MANY if isinstance(error, TooManyRequests) else reason_of(error), error.status)

    async def _by_token(self, call: Call) -> Reply:
        token = await _submitted(call, "token")
        found = await self._sessions.token_of(token)
        if found is None:
            self._failures.add(call, token)
            return _form(call, _UNKNOWN_TOKEN, 401)
        if not found.may_look:
            return _form(call, _WRONG_KIND, 403)
        return self._enter(call, await self._sessions.open(found))

    async def _by_link(self, call: Call) -> Reply:
        code = await _submitted(call, "code")
        secret = await self._sessions.open_with_code(code)
        if secret is None:
            self._failures.add(call, code)
            return _form(call, _UNKNOWN_LINK, 401)
        return self._enter(call, secret)

    async def sign_out(self, call: Call, session: Secret) -> Reply:
        await self._sessions.close(session)
        return redirect("/sign-in", (self._sessions.cookie(call, None),))

    def _enter(self, call: Call, secret: Secret) -> Reply:
        return redirect("", (self._sessions.cookie(call, secret),))


async def _submitted(call: Call, field: str) -> Secret:
    """What a form of this site contains. Raises Forbidden, BadRequest."""
    require_same_origin(call.headers)
    return Secret(dict(form_fields(await with_form(call, _MOST_BYTES))).get(field, "").strip())


def _form(call: Call, problem: str = "", status: int = 200, code: str = "") -> Reply:
    return page(render("sign_in.html", problem=problem, code=code, theme=theme_of(call)), status)
