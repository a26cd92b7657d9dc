"""Sessions: who is signed in, and the cookie that shows it."""

import time
from collections.abc import Callable
from typing import NamedTuple

from relaydeck.console.request import cookies_of
from relaydeck.console.services import Sources
from relaydeck.console.visitor import Visitor
from relaydeck.credentials import console_sessions
from relaydeck.credentials.console_sessions import SessionLimits
from relaydeck.credentials.kinds import permissions_of
from relaydeck.http.pipeline import Call
from relaydeck.secret import Secret
from relaydeck.store.database import Transaction

COOKIE = "relaydeck_session"


class LiveToken(NamedTuple):
    seq: int
    may_look: bool  # whether tokens of its kind may use the console


class Sessions:
    def __init__(self, sources: Sources, now: Callable[[], float] = time.time) -> None:
        settings = sources.settings
        self._limits = SessionLimits(settings.console_idle_seconds, settings.console_session_seconds)
        self._sources = sources
        self._proofs = sources.audit.vault.proofs
        self.now = now

    async def visitor(self, call: Call) -> Visitor | None:
        """Who is signed in; None: nobody. A refresh by the page itself does not keep a session alive."""
        secret = Secret(cookies_of(call).get(COOKIE, ""))
        if not secret.reveal():
            return None
        now, proofs = self.now(), self._proofs
        session = await self._sources.read(
            lambda store: console_sessions.find_session(store.database.read, proofs, secret, self._limits, now)
        )
        if session is None:
            return None
        if session.is_stale(now) and b"x-console-refresh" not in call.headers:
            await self._sources.writer.write(
                lambda transaction: console_sessions.touch_session(transaction, proofs, secret, session, now)
            )
        return Visitor.of(session, secret)

    async def token_of(self, token: Secret) -> LiveToken | None:
        now, proofs = self.now(), self._proofs
        found: tuple[int, str] | None = await self._sources.read(
            lambda store: console_sessions.token_of(store.database.read, proofs, token, now)
        )
        return LiveToken(found[0], "look" in permissions_of(found[1])) if found else None

    async def open(self, token: LiveToken) -> Secret:
        secret = console_sessions.new_session_secret()
        await self._sources.writer.write(lambda transaction: self._open(transaction, secret, token.seq))
        return secret

    async def open_with_code(self, code: Secret) -> Secret | None:
        """Use a one-time code and open a session in one transaction; None: the code is not usable."""
        secret = console_sessions.new_session_secret()

        def use(transaction: Transaction) -> bool:
            token_seq = console_sessions.use_code(transaction, self._sources.audit, code, self.now())
            if token_seq is not None:
                self._open(transaction, secret, token_seq)
            return token_seq is not None

        is_stored = await self._sources.read(lambda store: console_sessions.is_stored_code(store.database.read, code))
        return secret if is_stored and await self._sources.writer.write(use) else None

    def _open(self, transaction: Transaction, secret: Secret, token_seq: int) -> None:
        console_sessions.open_session(transaction, self._sources.audit, secret, token_seq, self._limits, self.now())

    async def close(self, secret: Secret) -> None:
        await self._sources.writer.write(
            lambda transaction: console_sessions.close_session(transaction, self._sources.audit, secret, self.now())
        )

    def cookie(self, call: Call, secret: Secret | None) -> tuple[bytes, bytes]:
        """The header that sets the cookie; without a secret, the one that removes it."""
        value, seconds = (secret.reveal(), round(self._limits.most_seconds)) if secret else ("", 0)
        # A client that states https by itself only restricts its own cookie.
        is_tls = call.scheme == "https" or call.headers.get(b"x-forwarded-proto") == b"https"
        secure = "; Secure" if is_tls else ""
        text = f"{COOKIE}={value}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        return b"set-cookie", text.encode()
