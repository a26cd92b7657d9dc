"""Verifies JSON Web Tokens of the issuers that the settings name, and the credentials of workloads made from them.

Only keys that the issuer publishes at its own address verify a signature: the headers `jku`, `x5u`, `jwk` and `x5c` of
a token are never read. The algorithm must be one of the issuer's, all of which are asymmetric, and suit the key.
This module loads PyJWT: a service without issuers does not import it.
"""

import asyncio
import hashlib
import json
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jwt
import msgspec
from yarl import URL

from relaydeck.credential import VIA, Unverified
from relaydeck.credential import Limits as CredentialLimits
from relaydeck.errors import RelaydeckError, Unauthorized
from relaydeck.outgoing.address_guard import AddressGuard
from relaydeck.outgoing.connections import ConnectionFailed, ConnectionFailure, Opener, Resolve, ResponseTooLarge
from relaydeck.outgoing.http_client import HttpClient, Limits, Response
from relaydeck.roles import permissions_of
from relaydeck.scope import Visible
from relaydeck.settings.issuers import Issuer, Rule, is_safe_url
from relaydeck.store.database import ReadRows
from relaydeck.store.protection import ClosedProtections

MOST_TOKEN_BYTES = 8192
MOST_ANSWER_BYTES = 262_144
MOST_KEYS = 64
MOST_KNOWN = 4096  # tokens that a worker remembers
_FRESH_SECONDS = 900.0  # for which keys are used, and a token is remembered, without asking again
_KEPT_SECONDS = 86_400.0  # for which known keys go on while the issuer cannot be reached
_PAUSE_SECONDS = 10.0  # between two attempts to read the keys, whatever asks for them
_TIMEOUT_SECONDS = 5.0
_SLOTS = 4095  # buckets of the rate limit on one machine
_LONGEST_SUBJECT = 255
_YEAR_10000 = 253_402_300_800

Claims = dict[str, Any]
Report = Callable[[str, str], None]  # the name of an issuer, and what is wrong with it; empty: nothing any more


class IssuerFailed(RelaydeckError):
    """The issuer cannot be reached, or did not answer as it should: in our own words."""


class Metadata(msgspec.Struct, frozen=True):
    """The parts that we use of what an issuer says about itself (OpenID Connect Discovery 1.0)."""

    issuer: str
    jwks_uri: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


class _Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str | None = None
    typ: str = ""


class _Body(msgspec.Struct, frozen=True):
    iss: str


class TrustedIssuer:
    """An issuer, with what it publishes. One per event loop."""

    def __init__(
        self, issuer: Issuer, report: Report, now: Callable[[], float] = time.time, resolve: Resolve | None = None
    ) -> None:
        self.settings = issuer
        self._report, self._now, self._resolve = report, now, resolve
        self._client: HttpClient | None = None
        self._metadata: Metadata | None = None
        self._asking: asyncio.Task[Metadata] | None = None
        self._keys: list[dict[str, Any]] = []
        self._read_at = self._tried_at = 0.0
        self._reading = asyncio.Lock()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def claims(self, token: bytes, *, audience: Sequence[str], typ: str = "", **required: str) -> Claims:
        """The verified claims of a token. `required`: claims that must have these values. Raises Unauthorized."""
        if len(token) > MOST_TOKEN_BYTES:
            raise Unauthorized(f"the JSON Web Token has more than {MOST_TOKEN_BYTES} bytes")
        header = _part(token, 0, _Header)
        if header.alg not in self.settings.algorithms:
            raise Unauthorized("the JSON Web Token is signed with an algorithm that its issuer may not use")
        if typ != "logout+jwt" and header.typ.lower().removeprefix("application/") in ("logout+jwt", "secevent+jwt"):
            raise Unauthorized("the JSON Web Token is of another type")
        claims = self._verified(token, await self._key(header), header.alg, audience)
        for name, value in required.items():
            if claims.get(name) != value:
                raise Unauthorized(f"the claim {name} of the JSON Web Token is not the expected one")
        return claims

    def _verified(self, token: bytes, key: jwt.PyJWK, algorithm: str, audience: Sequence[str]) -> Claims:
        try:
            found: Claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=list(audience),
                issuer=self.settings.url,
                leeway=self.settings.clock_skew_seconds,
                options={"require": ["iss", "aud", "exp", "iat"]},
            )
        except (jwt.PyJWTError, ValueError, OverflowError, RecursionError) as error:
            raise Unauthorized(_PROBLEMS.get(type(error).__name__, "the JSON Web Token is not valid")) from None
        if int(found["exp"]) >= _YEAR_10000:  # no date can be written for it
            raise Unauthorized("the JSON Web Token ends after the year 9999")
        return found

    async def _key(self, header: _Header) -> jwt.PyJWK:
        """Raises Unauthorized: also while the issuer cannot be reached and its keys are not known."""
        found = None if self._is_stale(_FRESH_SECONDS) else self._find_key(header)
        if found is None:
            await self._read_again()
            found = None if self._is_stale(_KEPT_SECONDS) else self._find_key(header)
        if found is None:
            raise Unauthorized("the key that signed the JSON Web Token is not known")
        return found

    def _is_stale(self, seconds: float) -> bool:
        return self._now() - self._read_at >= seconds

    def _find_key(self, header: _Header) -> jwt.PyJWK | None:
        fitting = [key for key in map(partial(_fitting, header), self._keys) if key is not None]
        return fitting[0] if len(fitting) == 1 or (fitting and header.kid is not None) else None

    async def _read_again(self) -> None:
        """Whoever comes while they are read waits for the same answer."""
        async with self._reading:
            if self._now() - self._tried_at < _PAUSE_SECONDS:
                return
            self._tried_at = self._now()
            try:
                await self.read_keys()
            except IssuerFailed as error:
                self._report(self.settings.name, str(error))

    async def read_keys(self) -> int:
        """How many keys the issuer has now. Raises IssuerFailed."""
        uri = self.settings.jwks_uri or (await self.read_metadata()).jwks_uri
        found = _decoded(await self._ask("GET", uri), _KeySet).keys
        if len(found) > MOST_KEYS:
            raise IssuerFailed(f"it has more than {MOST_KEYS} keys")
        self._keys, self._read_at = found, self._now()
        self._report(self.settings.name, "")
        return len(found)

    async def metadata(self) -> Metadata:
        """Whoever comes while it is read waits for the same answer: strangers may ask. Raises IssuerFailed."""
        if self._metadata is None:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self.read_metadata())
            return await asyncio.shield(self._asking)
        return self._metadata

    async def read_metadata(self) -> Metadata:
        """Raises IssuerFailed."""
        url = self.settings.url.rstrip("/") + "/.well-known/openid-configuration"
        found: Metadata = _decoded(await self._ask("GET", url), Metadata)
        if found.issuer != self.settings.url:
            raise IssuerFailed("its discovery document names another issuer")
        places = (found.jwks_uri, found.authorization_endpoint, found.token_endpoint, found.end_session_endpoint)
        if not all(is_safe_url(each) for each in places if each):
            raise IssuerFailed("its discovery document has an address that is not https")
        self._metadata = found
        return found

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Response:
        """Raises IssuerFailed; a refusal is a response."""
        content = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self._exchange("POST", url, {**content, **headers}, urlencode(form).encode())

    async def _ask(self, method: str, url: str) -> bytes:
        response = await self._exchange(method, url, {}, None)
        if response.status != 200:
            raise IssuerFailed(f"it answered HTTP {response.status}")
        return response.body

    async def _exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                client = self._client = self._client or await self._connect()
                return await client.send(method, URL(url), headers, body)
        except TimeoutError:
            raise IssuerFailed(f"it did not answer within {_TIMEOUT_SECONDS:g} seconds") from None
        except ConnectionFailed as error:
            if error.cause is ConnectionFailure.ADDRESS_REFUSED:
                raise IssuerFailed("its address is not public: list it in `allow` of the issuer") from None
            raise IssuerFailed(f"it cannot be reached: {error.cause.replace('_', ' ')}") from None
        except ResponseTooLarge:
            raise IssuerFailed(f"its answer has more than {MOST_ANSWER_BYTES} bytes") from None
        except ValueError:
            raise IssuerFailed("its address is no URL") from None
        except OSError:
            raise IssuerFailed("its ca_file cannot be read") from None

    async def _connect(self) -> HttpClient:
        authorities = self.settings.authorities
        tls = None if authorities is None else await asyncio.to_thread(_trusting, authorities)
        opener = Opener(AddressGuard(self.settings.allowed), self._resolve, tls)
        accept = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "Relaydeck"}
        return HttpClient(opener, Limits(MOST_ANSWER_BYTES), accept)


def _trusting(authorities: Path) -> ssl.SSLContext:
    """The public authorities and those of a file. In a thread. Raises OSError."""
    context = ssl.create_default_context()
    context.load_verify_locations(authorities)
    return context


_PROBLEMS = {
    "ExpiredSignatureError": "the JSON Web Token has expired",
    "ImmatureSignatureError": "the JSON Web Token is not valid yet",
    "InvalidAudienceError": "the JSON Web Token is for another audience",
    "InvalidIssuerError": "the JSON Web Token is of another issuer",
    "InvalidSignatureError": "the signature of the JSON Web Token does not hold",
    "MissingRequiredClaimError": "the JSON Web Token lacks one of the claims iss, aud, exp and iat",
}


def _part(token: bytes, index: int, kind: type[Any]) -> Any:
    """The header or the claims of a token, not verified. Raises Unauthorized."""
    parts = token.split(b".")
    try:
        if len(parts) == 3:
            return msgspec.json.decode(jwt.utils.base64url_decode(parts[index]), type=kind)
    except (ValueError, RecursionError):
        pass
    raise Unauthorized("the credential is not a JSON Web Token")


def _fitting(header: _Header, key: dict[str, Any]) -> jwt.PyJWK | None:
    """The key, if it is the one that the header names and suits its algorithm."""
    if header.kid is not None and key.get("kid") != header.kid:
        return None
    if key.get("use", "sig") != "sig" or key.get("alg", header.alg) != header.alg:
        return None
    try:
        return jwt.PyJWK(key, header.alg)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None  # of another type


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError):
        raise IssuerFailed("its answer is not what OpenID Connect describes") from None


class WorkloadCredential:
    """A job or a service, as its issuer describes it."""

    origin = "api"
    limits: CredentialLimits | None = None

    def __init__(self, issuer: Issuer, claims: Claims, rule: Rule, now: float) -> None:
        subject = claims["sub"]
        self.name = f"workload:{issuer.name}:{subject}"
        self.actor, self.logged_name = self.name, json.dumps(self.name)
        self.digest = hashlib.sha256(f"workload\0{issuer.url}\0{subject}".encode()).digest()
        self.seq = subject_slot(self.digest)
        self.role, self.permissions, self.rule = rule.role, permissions_of(rule.role), f"{issuer.name}: {rule}"
        self.scope = rule.scope
        self.visible: Visible | None = rule.scope
        self.expires_at = float(claims["exp"])
        self.known_until = min(self.expires_at, now + _FRESH_SECONDS)

    def holds(self, _read: ReadRows, now: float) -> bool:
        return now < self.expires_at


def subject_slot(digest: bytes) -> int:
    """Where the rate limiter of a machine counts requests of someone who has no token; a few may share a place."""
    return -1 - int.from_bytes(digest[:8], "big") % _SLOTS


class Workloads:
    """Verifies the JSON Web Tokens of workloads, and remembers those that it accepted."""

    def __init__(
        self,
        issuers: Sequence[TrustedIssuer],
        now: Callable[[], float] = time.time,
        closed: ClosedProtections | None = None,
    ) -> None:
        self._issuers = {each.settings.url: each for each in issuers}
        self._now, self._closed = now, closed or ClosedProtections()
        self._closed.concern(lambda: self._known.values())
        self._known: dict[bytes, WorkloadCredential] = {}  # the one accepted first at the beginning

    def find(self, token: bytes, now: float) -> WorkloadCredential:
        """Raises Unauthorized, and Unverified for a token that was not seen before, or not lately."""
        if not token.startswith(b"eyJ"):
            raise Unauthorized("the credential is unknown or revoked")
        known = self._known.get(token)
        if known is None or known.known_until <= now:
            raise Unverified(partial(self._accept, token))
        return known

    async def _accept(self, token: bytes) -> WorkloadCredential:
        """Raises Unauthorized."""
        if len(token) > MOST_TOKEN_BYTES:  # before any of it is read
            raise Unauthorized(f"the JSON Web Token has more than {MOST_TOKEN_BYTES} bytes")
        issuer = self._issuers.get(_part(token, 1, _Body).iss)
        if issuer is None:
            raise Unauthorized("no issuer of the settings made the JSON Web Token")
        claims = await issuer.claims(token, audience=issuer.settings.audience)
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
            raise Unauthorized("the JSON Web Token has no usable subject")
        if VIA in subject:
            raise Unauthorized("the subject of the JSON Web Token is one that a token could have")
        rule = issuer.settings.rule_for(claims)
        if rule is None:
            raise Unauthorized("no rule of its issuer gives the JSON Web Token a role")
        found = WorkloadCredential(issuer.settings, claims, rule, self._now())
        self._closed.limit(found)
        self._known.pop(token, None)
        self._known[token] = found
        while len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return found

    async def close(self) -> None:
        for issuer in self._issuers.values():
            await issuer.close()
