"""Access tokens that key systems issue: in memory only, obtained once for everybody who needs one, renewed in time.

Also makes the JSON Web Tokens that two of them want.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from relaydeck.secret import Secret
from relaydeck.signers.drivers.driver_errors import ConfigUnusable
from relaydeck.signers.drivers.interface import HttpAnswer

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
    raise ConfigUnusable("the credential's key is neither RSA, P-256 nor Ed25519")
