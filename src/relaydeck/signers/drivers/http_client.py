"""HTTP to key systems: TLS verified, guarded, bounded in size. The deadline is the caller's.

Also what drivers that use it share: where the system is, access tokens, and the errors for its refusals.
"""

import asyncio
import ssl
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from yarl import URL

from relaydeck.errors import OperatorError
from relaydeck.outgoing.address_guard import ANYWHERE, AddressGuard
from relaydeck.outgoing.connections import (
    ConnectionFailed,
    ConnectionFailure,
    Opener,
    Resolve,
    ResponseTooLarge,
)
from relaydeck.outgoing.http_client import HttpClient, Limits
from relaydeck.secret import Secret
from relaydeck.settings.model import Settings
from relaydeck.signers.drivers import driver_errors as errors
from relaydeck.signers.drivers.interface import DriverContext, HttpAnswer, failing_as
from relaydeck.web_addresses import is_loopback

# -- Access tokens that key systems issue: in memory only, obtained once for everybody who needs one, renewed in time --
# Also makes the JSON Web Tokens that two of them want.

_MOST_TOKENS = 1024
_EARLY_FRACTION = 0.2  # renewed when this part of its lifetime is left …
_EARLY_SECONDS = 60.0  # … or this much, whichever is less


class AccessToken(NamedTuple):
    value: Secret
    expires_at: float
    renew_at: float
    renewable: bool = False  # the issuer can prolong this very token


Obtain = Callable[[AccessToken | None], Awaitable[AccessToken]]


class _Entry:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.token: AccessToken | None = None


class AccessTokens:
    """Keyed by the credential that obtains them. The least recently used one goes when there are too many."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def issued(self, value: str, lifetime: float, *, renewable: bool = False) -> AccessToken:
        """A token that was issued now; a lifetime of 0 has no end."""
        now = self._clock()
        if lifetime <= 0:
            return AccessToken(Secret(value), float("inf"), float("inf"), renewable)
        early = min(lifetime * _EARLY_FRACTION, _EARLY_SECONDS)
        return AccessToken(Secret(value), now + lifetime, now + lifetime - early, renewable)

    async def get(self, credential: Hashable, obtain: Obtain) -> AccessToken:
        """`obtain` is given the token to renew while that is still valid, and None otherwise."""
        entry = self._entry(credential)
        async with entry.lock:  # a thousand checks at once log in once
            token, now = entry.token, self._clock()
            if token is None or now >= token.renew_at:
                entry.token = None  # should this fail, the next call fetches another
                entry.token = token = await obtain(token if token and now < token.expires_at else None)
            return token

    async def send(
        self,
        credential: Hashable,
        obtain: Obtain,
        request: Callable[[Secret], Awaitable[HttpAnswer]],
        *,
        revoked: int,
    ) -> HttpAnswer:
        """The answer to a request with a token; with another one, if its status says that the first was revoked."""
        for _ in range(2):
            token = await self.get(credential, obtain)
            answer = await request(token.value)
            if answer.status in (401, 403):
                self.drop(credential, token)
            if answer.status != revoked:
                break
        return answer

    def drop(self, credential: Hashable, token: AccessToken) -> None:
        """The key system refuses it. Another one that somebody obtained meanwhile stays."""
        entry = self._entries.get(credential)
        if entry is not None and entry.token == token:
            entry.token = None

    def clear(self) -> None:
        self._entries.clear()

    def _entry(self, credential: Hashable) -> _Entry:
        entry = self._entries.setdefault(credential, _Entry())
        self._entries.move_to_end(credential)
        if len(self._entries) > _MOST_TOKENS:
            self._entries.popitem(last=False)
        return entry


JwtKey = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey


def make_jwt(key: JwtKey, claims: dict[str, Any], **header: str) -> str:
    return jwt.encode(claims, key, _algorithm(key), header)


def _algorithm(key: JwtKey) -> str:
    match key:
        case RSAPrivateKey():
            return "RS256"
        case Ed25519PrivateKey():
            return "EdDSA"
        case EllipticCurvePrivateKey(curve=SECP256R1()):
            return "ES256"
    raise errors.ConfigUnusable("the credential's key is neither RSA, P-256 nor Ed25519")


_MOST_BYTES = 256 * 1024
_KEEP_ALIVE_SECONDS = 15
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "Relaydeck"}

_PROBLEMS = {
    ConnectionFailure.ADDRESS_REFUSED: (
        "the key system's address is not public, and neither RELAYDECK_DRIVER_ALLOW nor an endpoint in the settings"
        " allows it: no connection was made"
    ),
    ConnectionFailure.BAD_URL: "the key system's address is not a usable URL",
}


@cache
def trusted_authorities(ca_file: Path | None) -> ssl.SSLContext:
    """Made once for all drivers, in a thread: reading the certificates of the system takes a tenth of a second."""
    tls = ssl.create_default_context()
    if ca_file is not None:
        try:
            tls.load_verify_locations(ca_file)
        except OSError:  # a missing file, or one without a certificate
            problem = f"the certificates in {ca_file} cannot be read"
            raise OperatorError(problem, "RELAYDECK_DRIVER_CA_FILE must name a readable file in PEM form.") from None
    return tls


class KeySystemClient:
    """Nothing of the environment (proxies, .netrc) is used."""

    def __init__(self, settings: Settings, resolve: Resolve | None = None, *, private: bool = False) -> None:
        """`private`: for a system that the operator chose, which may be in a private network."""
        guard = ANYWHERE if private else AddressGuard(settings.driver_allow)
        opener = Opener(guard, resolve, trusted_authorities(settings.driver_ca_file))
        self._client = HttpClient(opener, Limits(_MOST_BYTES, _KEEP_ALIVE_SECONDS), _HEADERS)

    async def close(self) -> None:
        await self._client.close()

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> HttpAnswer:
        """`url` is sent as it is spelt, perhaps twice: no request changes anything.

        Raises KeySystemUnreachable and Throttled.
        """
        require_confidential(url)
        try:
            answer = await self._client.read(method, URL(url, encoded=True), headers, body)
        except ResponseTooLarge:
            raise errors.AnswerRejected(f"the key system's answer is longer than {_MOST_BYTES} bytes") from None
        except ConnectionFailed as failure:
            raise errors.KeySystemUnreachable(_explanation(failure)) from None
        except ValueError:
            raise errors.KeySystemUnreachable(_PROBLEMS[ConnectionFailure.BAD_URL]) from None
        if answer.status == 429:
            raise errors.Throttled("the key system refuses more requests for now (HTTP 429)")
        if answer.status >= 500:
            raise errors.KeySystemUnreachable(f"the key system answered HTTP {answer.status}")
        return HttpAnswer(answer.status, answer.body)


def require_confidential(url: str) -> None:
    """Credentials and keys travel over TLS, or stay on this machine. Raises ConfigUnusable."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https"):
        raise errors.ConfigUnusable("the key system's address is not an http(s) URL")
    if parts.scheme == "http" and not is_loopback(host):
        raise errors.ConfigUnusable("the key system's address must start with https:// (http:// is for loopback only)")


def _explanation(failure: ConnectionFailed) -> str:
    if isinstance(failure.__cause__, ssl.SSLCertVerificationError):
        return "the key system's TLS certificate does not verify"  # RELAYDECK_DRIVER_CA_FILE may be missing
    return _PROBLEMS.get(failure.cause, f"the key system {failure.cause.words}")


class HttpDriver:
    """`refusals`: the error for each HTTP status, or for each code that the system itself gives."""

    system: ClassVar[str]  # its name in messages
    default_endpoint: ClassVar[str] = ""
    refusals: ClassVar[Mapping[int | str, errors.DriverError]]

    def __init__(self, context: DriverContext) -> None:
        self._client, self._clock = context.client, context.clock
        self._endpoint = (context.endpoint or self.default_endpoint).rstrip("/")
        self._tokens = AccessTokens(context.clock)

    async def close(self) -> None:
        self._tokens.clear()

    def _refusal(self, answer: HttpAnswer, code: int | str = 0) -> errors.DriverError:
        """The error for an answer that is no success."""
        known = self.refusals.get(code) or self.refusals.get(answer.status)
        if known is None:
            return errors.AnswerRejected(f"{self.system} answered HTTP {answer.status}")
        return type(known)(*known.args)  # a new one each time: an exception collects its traceback

    def _from_base64(self, text: str, what: str) -> bytes:
        with failing_as(errors.AnswerRejected(f"{self.system}'s {what} is not in base64")):
            return b64decode(text, validate=True)
