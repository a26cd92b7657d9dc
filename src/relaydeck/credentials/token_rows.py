"""Tokens in the database: their rows and the SQL that reads and writes them."""

from typing import NamedTuple

from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.tokens import digest_of
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret
from relaydeck.store.database import Database, Transaction
from relaydeck.store.follower import ReadRows


class Token(NamedTuple):
    """A row of the table `tokens`: everything about an issued token except the token itself."""

    seq: int
    name: str
    kind: str  # a TokenKind, or a kind that only a newer version knows
    digest: bytes
    created_at: int
    expires_at: int | None
    revoked_at: int | None

    def state(self, now: float) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "live"

    def is_live(self, now: float) -> bool:
        return self.state(now) == "live"


_COLUMNS = ", ".join(Token._fields)


def add(
    transaction: Transaction, name: str, kind: TokenKind, token: Secret, *, now: int, expires_at: int | None = None
) -> None:
    """Raises OperatorError when a token of that name exists and is not revoked."""
    transaction.changes_tokens = True
    added = transaction.one(
        "INSERT INTO tokens (name, kind, digest, created_at, expires_at, revision)"
        " VALUES (:name, :kind, :digest, :now, :expires_at, :revision) ON CONFLICT DO NOTHING RETURNING seq",
        {
            "name": name,
            "kind": kind.value,
            "digest": digest_of(token.reveal().encode()),
            "now": now,
            "expires_at": expires_at,
            "revision": transaction.revision,
        },
    )
    if added is None:
        raise OperatorError(f"a token named {name!r} exists already", "Choose another name, or revoke that one first.")


def revoke(transaction: Transaction, name: str, *, now: int) -> bool:
    """Whether a token of that name existed and was not revoked before."""
    transaction.changes_tokens = True
    revoked = transaction.one(
        "UPDATE tokens SET revoked_at = :now, revision = :revision"
        " WHERE name = :name AND revoked_at IS NULL RETURNING seq",
        {"name": name, "now": now, "revision": transaction.revision},
    )
    return revoked is not None


def forget(transaction: Transaction, digest: bytes) -> None:
    """Remove the row of a token, so that the same token can be added again."""
    transaction.changes_tokens = True
    transaction.execute("DELETE FROM tokens WHERE digest = :digest", {"digest": digest})


def is_taken(transaction: Transaction, name: str) -> bool:
    """Whether a token of that name exists and is not revoked."""
    return transaction.one("SELECT 1 FROM tokens WHERE name = :name AND revoked_at IS NULL", {"name": name}) is not None


def all_tokens(database: Database) -> list[Token]:
    return tokens_after(database.read, -1, "seq")


def tokens_after(read: ReadRows, revision: int, order: str = "revision") -> list[Token]:
    """The tokens written after a revision."""
    rows = read(f"SELECT {_COLUMNS} FROM tokens WHERE revision > :seen ORDER BY {order}", {"seen": revision})
    return [Token(*row) for row in rows]
