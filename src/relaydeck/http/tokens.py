"""Access tokens: their format, where their digests are kept, and who is who on each request.

A token is `rdk_`, 256 random bits in base 62 (43 characters) and the CRC-32 of all that in base 62
(6 characters): leak scanners can find one by its prefix and tell a real one by its checksum. Only the
SHA-256 of a token is stored.
"""

import hashlib
import json
import secrets
import string
import zlib
from typing import Literal, NamedTuple, get_args

from relaydeck.errors import OperatorError, Unauthorized
from relaydeck.secret import Secret
from relaydeck.store.database import Database, Reader, Transaction
from relaydeck.store.follower import ReadRows

PREFIX = "rdk_"
Kind = Literal["api", "readonly", "admin"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_COLUMNS = "seq, name, kind, digest, created_at, expires_at, revoked_at"


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def new_token() -> Secret:
    body = PREFIX + _base62(secrets.randbits(256), 43)
    return Secret(body + _base62(zlib.crc32(body.encode()), 6))


def checksum_holds(token: str) -> bool:
    """Whether a string has the form of a token, checksum included. Says nothing of whether it is accepted."""
    body, check = token[:-6], token[-6:]
    return len(token) == 53 and token.startswith(PREFIX) and _base62(zlib.crc32(body.encode()), 6) == check


def digest_of(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


class Token(NamedTuple):
    """What is known of a token once it was issued: everything but the token."""

    seq: int
    name: str
    kind: Kind
    digest: bytes
    created_at: int
    expires_at: int | None
    revoked_at: int | None

    def is_live(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


def add(
    transaction: Transaction, name: str, kind: Kind, token: Secret, *, now: int, expires_at: int | None = None
) -> None:
    """Raises OperatorError when a live token has that name."""
    transaction.changes_tokens = True
    added = transaction.one(
        "INSERT INTO tokens (name, kind, digest, created_at, expires_at, revision)"
        " VALUES (:name, :kind, :digest, :now, :expires_at, :revision) ON CONFLICT DO NOTHING RETURNING seq",
        {
            "name": name,
            "kind": kind,
            "digest": digest_of(token.reveal().encode()),
            "now": now,
            "expires_at": expires_at,
            "revision": transaction.revision,
        },
    )
    if added is None:
        raise OperatorError(f"a token named {name!r} exists already", "Choose another name, or revoke that one first.")


def revoke(transaction: Transaction, name: str, *, now: int) -> bool:
    """Whether there was a live token of that name."""
    transaction.changes_tokens = True
    revoked = transaction.one(
        "UPDATE tokens SET revoked_at = :now, revision = :revision"
        " WHERE name = :name AND revoked_at IS NULL RETURNING seq",
        {"name": name, "now": now, "revision": transaction.revision},
    )
    return revoked is not None


def is_live(transaction: Transaction, name: str) -> bool:
    """Whether there is a token of that name that was not revoked."""
    return transaction.one("SELECT 1 FROM tokens WHERE name = :name AND revoked_at IS NULL", {"name": name}) is not None


def all_tokens(database: Database) -> list[Token]:
    return [Token(*row) for row in database.read(f"SELECT {_COLUMNS} FROM tokens ORDER BY seq")]


class Credential:
    """Who a request comes from. `allows` and `expires_at` are looked at on each one."""

    __slots__ = ("actor", "digest", "expires_at", "kind", "logged_name", "name", "seq")

    def __init__(self, token: Token) -> None:
        self.seq = token.seq
        self.name = token.name
        self.digest = token.digest
        self.kind = token.kind
        self.expires_at = float("inf") if token.expires_at is None else token.expires_at
        self.logged_name = json.dumps(token.name)
        self.actor = f"token:{token.name}"  # how the audit log names who asked


class TokenBook:
    """Every live token by its digest, kept as fresh as the read model.

    An accepted header is remembered whole until the next change of any token, so that a busy client's
    token is hashed once and not per request.
    """

    table = "tokens"

    def __init__(self) -> None:
        self._by_digest: dict[bytes, Credential] = {}
        self._accepted: dict[bytes, Credential] = {}

    def find(self, authorization: bytes | None, now: float) -> Credential:
        """Who an Authorization header speaks for. Raises Unauthorized."""
        credential = self._accepted.get(authorization) or self._recognise(authorization)  # type: ignore[arg-type]
        if credential.expires_at <= now:
            raise Unauthorized("the credential has expired")
        return credential

    def _recognise(self, authorization: bytes | None) -> Credential:
        if authorization is None or authorization[:7].lower() != b"bearer ":
            raise Unauthorized("the Authorization header is missing or is no Bearer credential")
        credential = self._by_digest.get(digest_of(authorization[7:]))
        if credential is None:
            raise Unauthorized("the credential is unknown or revoked")
        self._accepted[authorization] = credential
        return credential

    def load(self, reader: Reader) -> None:
        self._by_digest.clear()
        self.apply_changes(self.fetch_changes(reader.read, -1, removed=False))

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> list[Token]:
        rows = read(f"SELECT {_COLUMNS} FROM tokens WHERE revision > :seen", {"seen": seen})
        return [Token(*row) for row in rows]

    def apply_changes(self, tokens: list[Token]) -> None:
        for token in tokens:
            if token.revoked_at is not None:
                self._by_digest.pop(token.digest, None)
            else:
                self._by_digest[token.digest] = Credential(token)
        self._accepted.clear()
