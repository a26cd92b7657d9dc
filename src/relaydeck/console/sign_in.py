"""Getting in and out: by an access token or a one-time link, and the session that follows."""

import time
from collections.abc import Callable

from relaydeck.console.admin_calls import SessionCredential
from relaydeck.console.guard import SignInLimit, require_same_origin
from relaydeck.console.rendering import render
from relaydeck.console.responses import page, redirect
from relaydeck.console.visit import Read, Visitor, cookies_of, form_fields, query_of, theme_of
from relaydeck.credentials import console_sessions
from relaydeck.credentials.console_sessions import SessionLimits
from relaydeck.credentials.kinds import permissions_of
from relaydeck.http.clients import ClientAddress
from relaydeck.http.pipeline import Call, Reply
from relaydeck.secret import Secret
from relaydeck.settings import Settings
from relaydeck.store.database import Transaction
from relaydeck.store.row_proofs import RowProofs
from relaydeck.store.writer import Writer

COOKIE = "relaydeck_session"
_UNKNOWN_TOKEN = "This is not a live access token."  # noqa: S105
_WRONG_KIND = "A token of this kind cannot use the console. Use one of kind admin or readonly."
_UNKNOWN_LINK = "This link was used before or has expired. Print another with: relaydeck console"


class SignIn:
    def __init__(
        self,
        settings: Settings,
        writer: Writer,
        read: Read,
        proofs: RowProofs,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._proofs = proofs
        self._limits = SessionLimits(settings.console_idle_seconds, settings.console_session_seconds)
        self._writer = writer
        self._read = read
        self._now = now
        self._clients = ClientAddress(settings.trusted_proxies)
        self._attempts = SignInLimit(now)

    async def visitor(self, call: Call) -> Visitor | None:
        """Who is signed in; None: nobody. A refresh by the page itself does not keep a session alive."""
        secret = Secret(cookies_of(call).get(COOKIE, ""))
        if not secret.reveal():
            return None
        now = self._now()
        session = await self._read(
            lambda store: console_sessions.find_session(store.database.read, self._proofs, secret, self._limits, now)
        )
        if session is None:
            return None
        if session.is_stale(now) and b"x-console-refresh" not in call.headers:
            await self._writer.write(lambda transaction: console_sessions.touch_session(transaction, secret, now))
        return Visitor(session, secret, SessionCredential(session))

    def form(self, call: Call, problem: str = "", status: int = 200) -> Reply:
        return page(render("sign_in.html", problem=problem, theme=theme_of(call)), status)

    async def by_token(self, call: Call) -> Reply:
        """Raises Forbidden, TooManyRequests."""
        require_same_origin(call.headers)
        self._attempts.take(self._client(call))
        token = Secret(dict(form_fields(call)).get("token", "").strip())
        found = await self._read(
            lambda store: console_sessions.token_of(store.database.read, self._proofs, token, self._now())
        )
        if found is None:
            return self.form(call, _UNKNOWN_TOKEN, 401)
        token_seq, kind = found
        if "look" not in permissions_of(kind):
            return self.form(call, _WRONG_KIND, 403)
        secret = console_sessions.new_session_secret()
        await self._writer.write(lambda transaction: self._open(transaction, secret, token_seq))
        return self._enter(call, secret)

    async def by_link(self, call: Call) -> Reply:
        """Raises TooManyRequests."""
        self._attempts.take(self._client(call))
        code, secret = Secret(query_of(call).get("code", "")), console_sessions.new_session_secret()

        def use(transaction: Transaction) -> bool:
            token_seq = console_sessions.use_code(transaction, self._proofs, code, self._now())
            if token_seq is not None:
                self._open(transaction, secret, token_seq)
            return token_seq is not None

        if not await self._writer.write(use):
            return self.form(call, _UNKNOWN_LINK, 401)
        return self._enter(call, secret)

    async def sign_out(self, call: Call, visitor: Visitor) -> Reply:
        await self._writer.write(lambda transaction: console_sessions.close_session(transaction, visitor.secret))
        return redirect("/sign-in", (self._cookie(call, "", 0),))

    def _client(self, call: Call) -> str:
        return self._clients.address_of(call.peer, call.headers.get(b"x-forwarded-for"))

    def _open(self, transaction: Transaction, secret: Secret, token_seq: int) -> None:
        console_sessions.open_session(transaction, self._proofs, secret, token_seq, self._limits, self._now())

    def _enter(self, call: Call, secret: Secret) -> Reply:
        self._attempts.forgive(self._client(call))
        return redirect("", (self._cookie(call, secret.reveal(), round(self._limits.most_seconds)),))

    def _cookie(self, call: Call, value: str, seconds: int) -> tuple[bytes, bytes]:
        # A client that states https by itself only restricts its own cookie.
        is_tls = call.scheme == "https" or call.headers.get(b"x-forwarded-proto") == b"https"
        secure = "; Secure" if is_tls else ""
        text = f"{COOKIE}={value}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        return b"set-cookie", text.encode()
