"""Signing in at an identity provider: OpenID Connect with the authorization code, PKCE, state and nonce.

What a sign-in needs until the provider sends the browser back is in a cookie of that browser, with a keyed hash: the
service holds nothing for a stranger. The role of a session is checked again at the provider with the refresh token.

`relaydeck login --sso` signs in the same way. Its browser begins with the challenge (PKCE) of the command, goes back to
the command with the code of the provider, sealed (RFC 8252), and the command exchanges that for a session: only who has
the verifier can.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from relaydeck.console.admin_calls import Operator
from relaydeck.console.guard import SignInLimits
from relaydeck.console.page_request import Services, SignInFailed
from relaydeck.console.request import cookies_of, query_of, read_form
from relaydeck.credentials import people
from relaydeck.credentials.console_sessions import ConsoleSession, SessionLimits, new_session_secret, session_digest
from relaydeck.credentials.json_web_tokens import Claims, IssuerFailed, Metadata, TrustedIssuer
from relaydeck.credentials.people import PersonSession
from relaydeck.errors import TooManyRequests, Unauthorized, UnknownPath
from relaydeck.http.pipeline import Call, Reply
from relaydeck.secret import Secret
from relaydeck.settings.issuers import Issuer

CHECK_SECONDS = 600  # after which a request checks the person again
LAST_SECONDS = 900  # after which the session needs a check to go on
COOKIE = "relaydeck_sso"
_PENDING_SECONDS, _CODE_SECONDS = 600, 60
_COOKIE_USE, _CODE_USE = "single_sign_on", "single_sign_on code"
_MOST_FORM_BYTES = 16_384
_MOST_EXCHANGES = 8  # at a time, in one worker
_WAITS, _WAIT_SECONDS = 60, 0.1
_LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
_NOT_BEGUN = "This sign-in was not begun in this browser, or too long ago. Begin again."
_NOT_SIGNED_IN = "The provider did not sign you in."
_TOO_OFTEN = "You have signed in too often within an hour. Go on in a session that is open, or try later."
_AWAY = "The provider does not answer as it should. Try again, or use a token. The cause: relaydeck doctor."
_ERRORS = (  # of RFC 6749 and OpenID Connect Core. Others are not repeated: anybody can send the browser back
    *("access_denied", "account_selection_required", "consent_required", "interaction_required", "invalid_client"),
    *("invalid_grant", "invalid_request", "invalid_scope", "login_required", "server_error", "temporarily_unavailable"),
    *("unauthorized_client", "unsupported_grant_type", "unsupported_response_type"),
)


Header = tuple[bytes, bytes]


class _Pending(NamedTuple):
    """A sign-in that was begun in a browser."""

    issuer: str
    state: str
    nonce: str
    verifier: str  # empty: a command has it
    wanted: str  # the page to continue with, or where the command listens
    began_at: int


class CommandSignIn(msgspec.Struct, frozen=True):
    """What `relaydeck login --sso` sends a browser with."""

    port: Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{3,4}$")]  # on the machine of the browser
    challenge: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{43}$")]
    state: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{16,128}$")]

    def refused(self, failure: SignInFailed) -> str:
        """Where the browser tells the command why it is not signed in."""
        return _place(self.wanted, _answer(failure))

    @property
    def wanted(self) -> str:
        """Where it listens."""
        return f"{self.port}/?state={self.state}"

    @property
    def code(self) -> str:
        """What the command and the page show, so that nobody continues a sign-in that another began."""
        return f"{self.challenge[:4]}-{self.challenge[4:8]}"


class PersonCredential(Operator):
    """The session of a person who signed in with a command, in a request to the API."""

    origin = "api"

    def __init__(self, session: ConsoleSession, secret: Secret) -> None:
        super().__init__(session, secret)
        self.permissions = session.grant.permissions


class SingleSignOn:
    def __init__(self, services: Services, limits: SessionLimits, attempts: SignInLimits) -> None:
        issuers = [each for each in services.settings.issuers if each.is_for_people]
        self._issuers = {each.name: TrustedIssuer(each, services.report_issuer) for each in issuers}
        self._report = services.report_sign_on
        self._read, self._write, self._audit = services.read, services.writer.write, services.audit
        self._proofs, self._limits = services.audit.vault.proofs, limits
        # Apart from those of strangers, who must not keep the sessions of others from being checked.
        self._sign_ins, self._checks = asyncio.Semaphore(_MOST_EXCHANGES), asyncio.Semaphore(_MOST_EXCHANGES)
        self._attempts = attempts

    # -- signing in -------------------------------------------------------------------------------

    async def begin(self, name: str, wanted: str, command: CommandSignIn | None = None) -> tuple[str, Header]:
        """Where the browser has to go, and the cookie for it. Raises SignInFailed, UnknownPath."""
        trusted = self._issuer(name)
        issuer, metadata = trusted.settings, await self._metadata(trusted)
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = _challenge(verifier)
        if command is not None:
            challenge, verifier, wanted = command.challenge, "", command.wanted
            nonce = _nonce(challenge)
        asked = {
            "response_type": "code",
            "client_id": issuer.client_id,
            "redirect_uri": issuer.redirect_uri,
            "scope": " ".join(issuer.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        } | ({"prompt": "consent"} if "offline_access" in issuer.scopes else {})
        pending = _Pending(issuer.name, state, nonce, verifier, wanted, int(time.time()))
        location = _with_query(metadata.authorization_endpoint, asked)
        return location, _cookie(issuer, self._sealed(_COOKIE_USE, pending), _PENDING_SECONDS)

    async def finish(self, call: Call) -> tuple[Secret | None, str, Header]:
        """The secret of the new session, the page to continue with, and a header that ends the cookie of the sign-in.

        Without a secret: the address at which a command waits. Raises SignInFailed, TooManyRequests, UnknownPath.
        """
        query, pending = query_of(call), self._pending(call)
        if pending is None or not hmac.compare_digest(query.get("state", "").encode(), pending.state.encode()):
            raise self._failed("", _NOT_BEGUN, 400)
        trusted = self._issuer(pending.issuer)
        ended = _cookie(trusted.settings, "", 0)
        try:
            code = await self._code(trusted, query)
        except SignInFailed as failure:
            if pending.verifier:
                raise
            return None, _place(pending.wanted, _answer(failure)), ended
        if not pending.verifier:
            kept = pending._replace(verifier=code, began_at=int(time.time()))
            return None, _place(pending.wanted, {"code": self._sealed(_CODE_USE, kept)}), ended
        return await self._opened(trusted, code, pending.verifier, pending.nonce), pending.wanted, ended

    async def _code(self, trusted: TrustedIssuer, query: Mapping[str, str]) -> str:
        """That of the provider. Raises SignInFailed."""
        metadata = await self._metadata(trusted)
        # RFC 9207: a code of another provider must not be sent to this one.
        named, must_name = query.get("iss"), metadata.authorization_response_iss_parameter_supported
        if named != trusted.settings.url and (must_name or named is not None):
            raise self._failed(trusted.settings.name, _NOT_SIGNED_IN, 400, "another issuer sent the browser back")
        if not query.get("code"):
            reason = f"the provider answered {_error_in(query) or 'without a code'}"
            raise self._failed(trusted.settings.name, _NOT_SIGNED_IN, 401, reason)
        return query["code"]

    def _failed(self, issuer: str, problem: str, status: int, reason: str = "") -> SignInFailed:
        """Logged. An operator has to see why people cannot sign in."""
        self._report(issuer, reason or problem)
        return SignInFailed(f"{problem} Reason: {reason}." if reason and status < 500 else problem, status)

    async def exchange_code(self, code: str, verifier: str) -> Secret:
        """The secret of a session for the command that has the verifier. Raises SignInFailed, TooManyRequests."""
        kept = self._unsealed(_CODE_USE, code, _CODE_SECONDS)
        if kept is None or not hmac.compare_digest(kept.nonce, _nonce(_challenge(verifier))):
            raise self._failed("", _NOT_BEGUN, 400)
        return await self._opened(self._issuer(kept.issuer), kept.verifier, verifier, kept.nonce)

    async def _opened(self, trusted: TrustedIssuer, code: str, verifier: str, nonce: str) -> Secret:
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier}
        form["redirect_uri"] = trusted.settings.redirect_uri
        try:
            claims, refresh_token = await self._exchange(self._sign_ins, trusted, form, nonce=nonce)
            person = people.person_of(trusted.settings, claims)
        except Unauthorized as error:
            raise self._failed(trusted.settings.name, _NOT_SIGNED_IN, 401, error.reason) from None
        except IssuerFailed as failure:
            raise self._failed(trusted.settings.name, _AWAY, 503, str(failure)) from None
        if self._attempts.opened(person.actor.encode()):
            raise self._failed(trusted.settings.name, _TOO_OFTEN, 429)
        secret, now = Secret(people.PREFIX + new_session_secret().reveal()), int(time.time())
        encrypted = people.encrypted(secret, refresh_token)
        session = PersonSession(person, session_digest(secret), now, now, now, encrypted)
        await self._write(lambda transaction: people.store(transaction, self._audit, session, self._limits, now))
        return secret

    async def _exchange(
        self, places: asyncio.Semaphore, trusted: TrustedIssuer, form: dict[str, str], **required: str
    ) -> tuple[Claims, str]:
        """The verified claims of the ID token, and the refresh token.

        Raises Unauthorized, IssuerFailed, and TooManyRequests while all places are taken.
        """
        issuer, metadata = trusted.settings, await trusted.metadata()
        if places.locked():
            raise TooManyRequests(1)
        async with places:
            headers, form = await _authenticated(issuer, metadata, form)
            response = await trusted.post(metadata.token_endpoint, form, headers)
        if response.status >= 500 or response.status == 429:
            raise IssuerFailed(f"it answered HTTP {response.status}")
        if response.status != 200:
            error = _error_in(_object(response.body))
            raise Unauthorized(f"the provider refused the request{error and f': {error}'}")
        try:
            found = json.loads(response.body)
            id_token, refresh_token = found["id_token"].encode(), found.get("refresh_token", "")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise Unauthorized("the answer of the provider has no ID token") from None
        claims = await trusted.claims(id_token, audience=[issuer.client_id], **required)
        if claims.get("azp", issuer.client_id) != issuer.client_id:
            raise Unauthorized("the ID token is for another client")
        return claims, refresh_token if isinstance(refresh_token, str) else ""

    # -- a session --------------------------------------------------------------------------------

    async def session(self, secret: Secret) -> PersonSession | None:
        """The session, checked at the provider at most 15 minutes ago. None: there is none, or no longer."""
        found = await self._find(secret)
        if found is None or time.time() - found.checked_at < CHECK_SECONDS:
            return found
        return await self._checked(found, secret)

    async def _find(self, secret: Secret) -> PersonSession | None:
        now, proofs = time.time(), self._proofs
        found: PersonSession | None = await self._read(
            lambda store: people.find(store.database.read, proofs, secret, self._limits, now)
        )
        return found

    async def _checked(self, session: PersonSession, secret: Secret) -> PersonSession | None:
        is_late = time.time() - session.checked_at >= LAST_SECONDS
        if not await self._write(lambda transaction: people.claim(transaction, session.digest, time.time())):
            return await self._checked_by_another(session, secret) if is_late else session
        try:
            return await self._check(session, secret)
        except (IssuerFailed, TooManyRequests):
            await self._write(lambda transaction: people.release(transaction, session.digest))
            return None if is_late else session
        except Unauthorized:
            await self.end("digest = :digest", {"digest": session.digest})
            return None

    async def _check(self, session: PersonSession, secret: Secret) -> PersonSession:
        """Raises Unauthorized when the provider or the rules give no access any more, and IssuerFailed."""
        trusted, token = self._issuers.get(session.person.issuer), session.refresh_token(secret)
        if trusted is None or not token:
            raise Unauthorized("the session cannot be checked")
        form = {"grant_type": "refresh_token", "refresh_token": token}
        claims, newer = await self._exchange(self._checks, trusted, form, sub=session.person.subject)
        person, now = people.person_of(trusted.settings, claims), int(time.time())
        encrypted = people.encrypted(secret, newer or token)
        checked = session._replace(
            person=person._replace(sid=person.sid or session.person.sid),
            used_at=now,
            checked_at=now,
            encrypted_refresh_token=encrypted,
        )

        def store(transaction: Any) -> None:
            people.save(transaction, self._proofs, checked)
            people.release(transaction, checked.digest)

        await self._write(store)
        return checked

    async def _checked_by_another(self, session: PersonSession, secret: Secret) -> PersonSession | None:
        for _ in range(_WAITS):
            await asyncio.sleep(_WAIT_SECONDS)
            found = await self._find(secret)
            if found is None or found.checked_at > session.checked_at:
                return found
        return None

    async def touch(self, session: PersonSession) -> None:
        touched = session._replace(used_at=int(time.time()))
        await self._write(lambda transaction: people.save(transaction, self._proofs, touched))

    async def end(self, condition: str, values: dict[str, Any]) -> None:
        await self._write(lambda transaction: people.end(transaction, self._audit, condition, values, time.time()))

    # -- signing out ------------------------------------------------------------------------------

    async def sign_out(self, secret: Secret) -> str:
        """End the session. Where the provider ends its own; empty: it says no such place, or cannot be reached."""
        session = await self._find(secret)
        if session is None:
            return ""
        await self.end("digest = :digest", {"digest": session.digest})
        trusted = self._issuers.get(session.person.issuer)
        try:
            metadata = await trusted.metadata() if trusted else None
        except IssuerFailed:
            return ""
        if trusted is None or metadata is None or not metadata.end_session_endpoint:
            return ""
        after = trusted.settings.redirect_uri.replace("/sso/callback", "/sign-in")
        asked = {"client_id": trusted.settings.client_id, "post_logout_redirect_uri": after}
        return _with_query(metadata.end_session_endpoint, asked)

    async def logged_out(self, call: Call, name: str) -> Reply:
        """OpenID Connect Back-Channel Logout 1.0. Raises RequestError."""
        trusted = self._issuer(name)
        token = dict(await read_form(call, _MOST_FORM_BYTES)).get("logout_token", "").encode()
        claims = await trusted.claims(token, audience=[trusted.settings.client_id], typ="logout+jwt")
        events = claims.get("events")
        if not isinstance(events, dict) or _LOGOUT_EVENT not in events or "nonce" in claims:
            raise Unauthorized("the JSON Web Token is of another type")
        by_sid, latest = "sid" in claims, int(claims["iat"]) + trusted.settings.clock_skew_seconds
        column, value = ("sid", claims["sid"]) if by_sid else ("subject", claims.get("sub"))
        condition = f"issuer = :issuer AND {column} = :value AND created_at <= :latest"
        await self.end(condition, {"issuer": name, "value": str(value), "latest": latest})
        return Reply(200, b"", headers=((b"cache-control", b"no-store"),))

    @property
    def names(self) -> list[str]:
        return list(self._issuers)

    async def close(self) -> None:
        for each in self._issuers.values():
            await each.close()

    # -- parts ------------------------------------------------------------------------------------

    def _issuer(self, name: str) -> TrustedIssuer:
        found = self._issuers.get(name)
        if found is None:
            raise UnknownPath("there is no such provider")
        return found

    async def _metadata(self, trusted: TrustedIssuer) -> Metadata:
        try:
            found = await trusted.metadata()
        except IssuerFailed as failure:
            raise self._failed(trusted.settings.name, _AWAY, 503, str(failure)) from None
        if not found.authorization_endpoint or not found.token_endpoint:
            reason = "its discovery document has no authorization_endpoint or no token_endpoint"
            raise self._failed(trusted.settings.name, _AWAY, 503, reason)
        return found

    def _sealed(self, use: str, pending: _Pending) -> str:
        text = json.dumps(pending)
        proof = self._proofs.of(use, (text,))
        return ".".join(base64.urlsafe_b64encode(each).decode() for each in (text.encode(), proof))

    def _pending(self, call: Call) -> _Pending | None:
        return self._unsealed(_COOKIE_USE, cookies_of(call.headers).get(COOKIE, ""), _PENDING_SECONDS)

    def _unsealed(self, use: str, sealed: str, seconds: int) -> _Pending | None:
        text, _, proof = sealed.partition(".")
        try:
            stated = base64.urlsafe_b64decode(text).decode()
            if not self._proofs.matches(base64.urlsafe_b64decode(proof), use, (stated,)):
                return None
        except ValueError:
            return None
        found = _Pending(*json.loads(stated))
        return found if time.time() - found.began_at < seconds else None


def _place(wanted: str, answer: Mapping[str, str]) -> str:
    """Where a command listens."""
    return f"http://127.0.0.1:{wanted}&{urlencode(answer)}"


def _answer(failure: SignInFailed) -> dict[str, str]:
    """As in RFC 6749."""
    error = "temporarily_unavailable" if failure.status >= 500 else "access_denied"
    return {"error": error, "error_description": failure.problem}


def _error_in(answer: Mapping[str, Any]) -> str:
    """What the provider calls its reason; empty: it says none."""
    error = answer.get("error")
    return "" if error is None else error if error in _ERRORS else "an unknown error"


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _challenge(verifier: str) -> str:
    """That of a verifier (RFC 7636)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _nonce(challenge: str) -> str:
    """For a command, which is not asked for one: it binds the ID token to the challenge."""
    return _challenge(f"relaydeck nonce {challenge}")


async def _authenticated(
    issuer: Issuer, metadata: Metadata, form: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The headers and the form by which the client shows who it is."""
    if not issuer.client_secret_file:
        return {}, {**form, "client_id": issuer.client_id}
    try:
        secret = Secret((await asyncio.to_thread(issuer.client_secret_path.read_text, "utf-8")).strip())
    except (OSError, UnicodeDecodeError):
        raise IssuerFailed("its client_secret_file cannot be read") from None
    methods = metadata.token_endpoint_auth_methods_supported
    if "client_secret_basic" not in methods and "client_secret_post" in methods:
        return {}, {**form, "client_id": issuer.client_id, "client_secret": secret.reveal()}
    pair = f"{quote(issuer.client_id, safe='')}:{quote(secret.reveal(), safe='')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, form


def _with_query(url: str, query: dict[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _cookie(issuer: Issuer, value: str, seconds: int) -> Header:
    """Lax: the provider sends the browser back from another site."""
    secure = "; Secure" if issuer.redirect_uri.startswith("https:") else ""
    text = f"{COOKIE}={value}; Path=/console/sso; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", text.encode()
