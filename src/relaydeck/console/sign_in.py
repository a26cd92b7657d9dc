"""Getting in and out: sessions, opened with an access token or a one-time link, and the cookie that shows them."""

import time
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlencode

import msgspec

from relaydeck.console.admin_calls import Operator
from relaydeck.console.guard import SignInLimits, form_token, require_same_origin
from relaydeck.console.page_request import Services, SignInFailed
from relaydeck.console.rendering import ROOT, page, redirect
from relaydeck.console.request import Fields, cookies_of, query_of, read_form, reason_of, theme_of
from relaydeck.credential import Limits
from relaydeck.credentials import console_sessions
from relaydeck.credentials.console_sessions import SessionLimits
from relaydeck.credentials.tokens import Token
from relaydeck.errors import BadRequest, BodyTooLarge, Forbidden, RequestError, TooManyRequests, Unauthorized
from relaydeck.http.pipeline import Call, Reply
from relaydeck.http.request import ClientAddress
from relaydeck.roles import APPLICATIONS, requirement
from relaydeck.scope import ClosedRecords, OpenRecords
from relaydeck.secret import Secret
from relaydeck.store.database import Transaction
from relaydeck.store.protection import closed_records

if TYPE_CHECKING:
    from relaydeck.console.single_sign_on import PersonCredential, SingleSignOn

OperatorT = TypeVar("OperatorT", bound=Operator)
_COOKIE = "relaydeck_session"
_NOT_STORED = (b"cache-control", b"no-store")
_UNKNOWN_TOKEN = "This is not a live access token."  # noqa: S105
_NO_PAGES = f"This token does not open the console: {requirement('look')}."
_UNKNOWN_LINK = "This link was used before or has expired. Print another with: relaydeck console"
_TOO_MANY = "Too many attempts failed: signing in is blocked until {} UTC. A valid token or link still works at once."
_TOO_OFTEN = "This token has signed in too often. It can sign in again at {} UTC; its open sessions go on."
_MOST_KEPT_BYTES = 64 * 1024  # of a form that was sent after its session had ended
_MOST_BYTES = 4096  # of a form without a session; tokens and codes are short
_NOT_REPEATED = {"/sign-out": "", "/apply/plan": "/apply"}  # a plan is sealed with a key of its session
_KEPT = "kept."  # before the names of its fields
_PERSON = "p-"  # begins the secret of a session of a person
_ENDED = "Your session has ended. Sign in again."
_NOT_YET = "You are not signed in yet. What you sent is still kept."


class SignIn:
    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._limits = SessionLimits(settings.console_idle_seconds, settings.console_session_seconds)
        self._read, self._write, self._audit = services.read, services.writer.write, services.audit
        self._proofs = services.audit.vault.proofs
        self._clients = ClientAddress(settings.trusted_proxies)
        self._attempts = SignInLimits(self._clients, time.time)

        self._sso = self._single_sign_on(services)

    def _single_sign_on(self, services: Services) -> "SingleSignOn | None":
        """Loaded only where the settings name a provider."""
        if not any(each.is_for_people for each in services.settings.issuers):
            return None
        from relaydeck.console.single_sign_on import SingleSignOn

        return SingleSignOn(services, self._limits, self._attempts)

    async def close(self) -> None:
        if self._sso is not None:
            await self._sso.close()

    async def operator(self, call: Call) -> Operator | None:
        """Who is signed in; None: nobody. A refresh by the page itself does not keep a session alive."""
        secret = _secret(call)
        if not secret.reveal():
            return None
        now, proofs = time.time(), self._proofs
        if self._sso is not None and secret.reveal().startswith(_PERSON):
            return await self._person(self._sso, call, secret)
        session = await self._read(
            lambda store: console_sessions.find_session(store.database.read, proofs, secret, self._limits, now)
        )
        if session is None:
            return None
        if session.is_stale(now) and b"x-console-refresh" not in call.headers:
            await self._write(
                lambda transaction: console_sessions.touch_session(transaction, proofs, secret, session, now)
            )
        operator = await self._limited(Operator(session, secret))
        self._require_address(call, operator.limits)
        return operator

    async def _limited(self, operator: OperatorT) -> OperatorT:
        """What it sees now: an application sees no closed records."""
        if operator.role in APPLICATIONS:
            closed: tuple[ClosedRecords, ...] = await self._read(lambda store: closed_records(store.database.read))
            operator.visible = OpenRecords(operator.scope, closed) if closed else operator.scope
        return operator

    def _require_address(self, call: Call, limits: Limits | None) -> None:
        """Raises Forbidden."""
        if limits is not None and not limits.admits(
            self._clients.address_of(call.peer, call.headers.get(b"x-forwarded-for"))
        ):
            raise Forbidden("the token may not be used from this address")

    async def _person(self, sso: "SingleSignOn", call: Call, secret: Secret) -> Operator | None:
        session = await sso.session(secret)
        if session is None:
            return None
        shown = session.shown(self._limits)
        if "look" not in shown.grant.permissions:
            return None
        if shown.is_stale(time.time()) and b"x-console-refresh" not in call.headers:
            await sso.touch(session)
        return await self._limited(Operator(shown, secret))

    async def answer(self, call: Call, method: str, path: str) -> Reply | None:
        """What is served without a session; None: the path needs one. Raises Forbidden, TooManyRequests."""
        match method, path:
            case "GET", "/sign-in":
                return self._form(call, kept=_kept([("next", query_of(call).get("next", ""))]))
            case "POST", "/sign-in":
                return await self._by_token(call)
            case "GET", "/enter":  # uses nothing up: browsers and chat programs load links by themselves
                return self._form(call, code=query_of(call).get("code", ""))
            case "POST", "/enter":
                return await self._by_link(call)
        if self._sso is not None and path.startswith("/sso/"):
            return await self._by_provider(self._sso, call, method, path)
        return None

    async def _by_provider(self, sso: "SingleSignOn", call: Call, method: str, path: str) -> Reply | None:
        try:
            match method, path.split("/"):
                case "GET", ["", "sso", "begin"]:
                    query = query_of(call)
                    wanted = query.get("next", "")
                    place, begun = await sso.begin(query.get("issuer", ""), wanted if _is_own_path(wanted) else "")
                    return Reply(303, b"", headers=((b"location", place.encode()), begun))
                case "GET" | "POST", ["", "sso", "command"]:
                    return await self._for_command(sso, call, method)
                case "POST", ["", "sso", "token"]:
                    return await self._to_command(sso, call)
                case "POST", ["", "sso", "revoke"]:
                    await sso.sign_out(Secret(dict(await read_form(call, _MOST_BYTES)).get("token", "")))
                    return Reply(200, b"", headers=(_NOT_STORED,))
                case "GET", ["", "sso", "callback"]:
                    secret, wanted, ended = await sso.finish(call)
                    if secret is None:
                        return _onward(call, wanted, ended)
                    cookie = _cookie(call, secret, round(self._limits.most_seconds))
                    return _onward(call, f"{ROOT}{wanted}", cookie, ended)
                case "POST", ["", "sso", "logout", name]:
                    return await sso.logged_out(call, name)
        except SignInFailed as failure:
            return self._form(call, failure.problem, failure.status)
        return None

    async def _for_command(self, sso: "SingleSignOn", call: Call, method: str) -> Reply:
        """The page that `relaydeck login --sso` opens, and its form. Raises RequestError."""
        from relaydeck.console.single_sign_on import CommandSignIn

        fields = query_of(call) if method == "GET" else dict(await self._submitted(call))
        try:
            asked = msgspec.convert(fields, CommandSignIn)
        except msgspec.ValidationError:
            raise BadRequest("this is not the address that the command has printed") from None
        if method == "GET":
            given = msgspec.to_builtins(asked)
            values = {"code": asked.code, "fields": given, "theme": theme_of(call.headers)}
            return page("sign_in_command.html", providers=sso.names, **values)
        try:
            place, cookie = await sso.begin(fields.get("issuer", ""), "", asked)
        except SignInFailed as failure:
            return _onward(call, asked.refused(failure))
        return _onward(call, place, cookie)

    async def _to_command(self, sso: "SingleSignOn", call: Call) -> Reply:
        """As the token endpoint of OAuth 2.0: the command has nothing but a code and its verifier."""
        fields = dict(await read_form(call, _MOST_BYTES))
        try:
            secret = await sso.exchange_code(fields.get("code", ""), fields.get("code_verifier", ""))
            status, said = 200, {"access_token": secret.reveal(), "token_type": "Bearer"}
        except SignInFailed as failure:
            status, said = failure.status, {"error": "invalid_grant", "error_description": failure.problem}
        content = (b"content-type", b"application/json")
        return Reply(status, msgspec.json.encode(said), headers=(content, _NOT_STORED))

    async def bearer(self, token: bytes) -> "PersonCredential":
        """Whose session of `relaydeck login --sso` it is. Raises Unauthorized."""
        from relaydeck.console.single_sign_on import PersonCredential

        secret = Secret(token.decode("latin-1"))
        session = await self._sso.session(secret) if self._sso is not None else None
        if self._sso is None or session is None:
            raise Unauthorized("the session is unknown or has ended")
        shown = session.shown(self._limits)
        if shown.is_stale(time.time()):
            await self._sso.touch(session)
        return await self._limited(PersonCredential(shown, secret))

    async def ask(self, call: Call, method: str, path: str) -> Reply:
        """To someone who has to sign in first, and continues then: with the page, or with the form that was sent.

        Raises Forbidden, BodyTooLarge, BadRequest.
        """
        if b"x-console-refresh" in call.headers:
            return self._form(call, _ENDED, 401)
        if method == "GET":
            wanted = path + (f"?{call.query.decode('latin-1')}" if call.query else "")
            return redirect(f"/sign-in?{urlencode({'next': wanted})}" if path else "/sign-in")
        if not _secret(call).reveal():  # the form of a stranger is not read
            return self._form(call, _ENDED, 401)
        require_same_origin(call.headers)
        if path in _NOT_REPEATED:
            return self._form(call, _ENDED, 401, kept=[("next", _NOT_REPEATED[path])])
        try:
            most = _MOST_KEPT_BYTES if await self._had_session(call) else _MOST_BYTES
            fields = [(f"{_KEPT}{name}", value) for name, value in await read_form(call, most)]
        except BodyTooLarge:
            return self._form(call, f"{_ENDED} What you sent is too large to be kept.", 401)
        return self._form(call, _ENDED, 401, kept=[("next", path), *fields])

    def refuse(self, call: Call, error: RequestError) -> Reply:
        if isinstance(error, TooManyRequests):
            return self._form(call, _TOO_MANY.format(_moment_after(error.retry_after_seconds)), error.status)
        return self._form(call, reason_of(error), error.status)

    async def _by_token(self, call: Call) -> Reply:
        fields, proofs = await self._submitted(call), self._proofs
        token, kept = Secret(dict(fields).get("token", "").strip()), _kept(fields)
        if not token.reveal() and len(kept) > 1:
            return await self._signed_in_elsewhere(call, kept)
        found: Token | None = await self._read(
            lambda store: console_sessions.token_of(store.database.read, proofs, token, time.time())
        )
        if found is None:
            self._attempts.failed(call, token)
            return self._form(call, _UNKNOWN_TOKEN, 401, kept=kept)
        if "look" not in found.grant.permissions:
            return self._form(call, _NO_PAGES, 403, kept=kept)
        self._require_address(call, found.grant.limits)
        if wait := self._attempts.opened(found.digest):
            return self._form(call, _TOO_OFTEN.format(_moment_after(wait)), 429, kept=kept)
        return self._enter(call, await self._write(lambda transaction: self._open(transaction, found.seq)), kept)

    async def _by_link(self, call: Call) -> Reply:
        """Using the code and opening the session is one transaction."""
        code = Secret(dict(await self._submitted(call)).get("code", "").strip())

        def use(transaction: Transaction) -> Secret | None:
            token_seq = console_sessions.use_code(transaction, self._audit, code, time.time())
            return None if token_seq is None else self._open(transaction, token_seq)

        is_stored = await self._read(lambda store: console_sessions.is_stored_code(store.database.read, code))
        secret = await self._write(use) if is_stored else None
        if secret is None:
            self._attempts.failed(call, code)
            return self._form(call, _UNKNOWN_LINK, 401)
        return self._enter(call, secret)

    async def _submitted(self, call: Call) -> Fields:
        """What a form of this site contains. Raises Forbidden, BodyTooLarge, BadRequest."""
        require_same_origin(call.headers)
        return await read_form(call, _MOST_BYTES + (2 * _MOST_KEPT_BYTES if await self._had_session(call) else 0))

    async def _had_session(self, call: Call) -> bool:
        """Anybody can invent a cookie: that of a session that ended is known by what is stored."""
        secret = _secret(call)
        if not secret.reveal():
            return False
        found: bool = await self._read(lambda store: console_sessions.has_existed(store.database.read, secret))
        return found

    def _open(self, transaction: Transaction, token_seq: int) -> Secret:
        secret = console_sessions.new_session_secret()
        console_sessions.open_session(transaction, self._audit, secret, token_seq, self._limits, time.time())
        return secret

    def _enter(self, call: Call, secret: Secret, kept: Fields = ()) -> Reply:
        """Continue with what was asked for before signing in."""
        cookie = _cookie(call, secret, round(self._limits.most_seconds))
        (_, wanted), *fields = kept or [("next", "")]
        if not fields:
            return redirect(wanted, (cookie,))
        reply = _again(call, secret, wanted, fields)
        return msgspec.structs.replace(reply, headers=(*reply.headers, cookie))

    async def _signed_in_elsewhere(self, call: Call, kept: Fields) -> Reply:
        """The form that is kept, once its person has signed in in another tab. Raises Forbidden."""
        operator, ((_, wanted), *fields) = await self.operator(call), kept
        if operator is None:
            return self._form(call, _NOT_YET, 401, kept=kept)
        return _again(call, operator.secret, wanted, fields)

    async def sign_out(self, call: Call, session: Secret) -> Reply:
        cookie = _cookie(call, Secret(""), 0)
        if self._sso is not None and session.reveal().startswith(_PERSON):
            place = await self._sso.sign_out(session)
            return _onward(call, place, cookie) if place else redirect("/sign-in", (cookie,))
        await self._write(
            lambda transaction: console_sessions.close_session(transaction, self._audit, session, time.time())
        )
        return redirect("/sign-in", (cookie,))

    def _form(self, call: Call, problem: str = "", status: int = 200, code: str = "", kept: Fields = ()) -> Reply:
        names = self._sso.names if self._sso is not None else []
        wanted = dict(kept).get("next", "")
        values = {"code": code, "theme": theme_of(call.headers), "kept": kept}
        return page("sign_in.html", status, problem=problem, providers=names, wanted=wanted, **values)


def _again(call: Call, session: Secret, wanted: str, fields: Fields) -> Reply:
    """The page that sends a form again that was kept, in a session that has begun meanwhile."""
    sent = [(name.removeprefix(_KEPT), value) for name, value in fields]
    sent = [("form_token", form_token(session)), *((name, value) for name, value in sent if name != "form_token")]
    names = list(dict.fromkeys(name for name, _ in sent if name != "form_token"))
    return page("send_again.html", action=wanted, fields=sent, names=names, theme=theme_of(call.headers))


def _onward(call: Call, place: str, *headers: tuple[bytes, bytes]) -> Reply:
    """A page that goes on by itself: a redirect would lose the cookie (SameSite), or is refused after a form (CSP)."""
    reply = page("onward.html", place=place, theme=theme_of(call.headers))
    return msgspec.structs.replace(reply, headers=(*reply.headers, *headers))


def _cookie(call: Call, secret: Secret, seconds: int) -> tuple[bytes, bytes]:
    """The header that sets the cookie, or removes it after 0 seconds."""
    # A client that states https by itself only restricts its own cookie.
    is_tls = call.scheme == "https" or call.headers.get(b"x-forwarded-proto") == b"https"
    secure = "; Secure" if is_tls else ""
    text = f"{_COOKIE}={secret.reveal()}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", text.encode()


def _moment_after(seconds: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(time.time() + seconds))


def _secret(call: Call) -> Secret:
    """Of the session that the cookie names; empty: there is none."""
    return Secret(cookies_of(call.headers).get(_COOKIE, ""))


def _kept(fields: Fields) -> Fields:
    """The path to continue with, and the fields of the form that was sent to it, if one was."""
    wanted = dict(fields).get("next", "")
    return [("next", wanted if _is_own_path(wanted) else ""), *(each for each in fields if each[0].startswith(_KEPT))]


def _is_own_path(path: str) -> bool:
    """Whether it stays below the console, whatever a browser makes of it."""
    first, *segments = path.partition("?")[0].split("/")
    is_plain = path.isascii() and path.isprintable() and "\\" not in path
    return is_plain and not first and all(unquote(each) not in ("", ".", "..") for each in segments)
