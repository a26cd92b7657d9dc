"""Tokens in the database: their rows and the SQL that reads and writes them."""

from operator import attrgetter
from typing import NamedTuple

from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.tokens import digest_of
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret
from relaydeck.store.database import Database, Reader, ReadRows, Transaction
from relaydeck.store.row_proofs import TOKEN_COLUMNS, RowProofs
from relaydeck.store.rows import columns_of


class Token(NamedTuple):
    """A row of the table `tokens`: everything about an issued token except the token itself."""

    seq: int
    name: str
    kind: str  # a TokenKind, or a kind that only a newer version knows
    digest: bytes
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    proof: bytes | None = None
    revision: int = 0

    def is_authentic(self, proofs: RowProofs) -> bool:
        """Whether Relaydeck wrote the row as it is."""
        return proofs.token_origin(self.proof, _proven(self)) is not None

    def state(self, now: float) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "live"

    def is_live(self, now: float) -> bool:
        return self.state(now) == "live"


FORGED = "was added or changed by something other than Relaydeck, which refuses it"
REVIVED = "is an old one that was put back: the audit log shows that it was revoked or replaced"
_REVIVED_SQL = (
    "SELECT t.name FROM tokens t JOIN (SELECT record, max(seq) AS last FROM audit"
    " WHERE action IN ('token.created', 'token.revoked') GROUP BY record) latest ON latest.record = t.name"
    " JOIN audit a ON a.seq = latest.last"
    " WHERE t.revoked_at IS NULL AND (a.action = 'token.revoked' OR a.moment <> t.created_at) ORDER BY t.seq"
)
_COLUMNS = columns_of(Token._fields)


_proven = attrgetter(*TOKEN_COLUMNS)


def add(
    transaction: Transaction,
    proofs: RowProofs,
    name: str,
    kind: TokenKind,
    token: Secret,
    *,
    now: int,
    expires_at: int | None = None,
) -> None:
    """Raises OperatorError when a token of that name exists and is not revoked."""
    transaction.changes_tokens = True
    digest = digest_of(token.reveal().encode())
    values = dict(zip(TOKEN_COLUMNS, (name, kind.value, digest, now, expires_at, None), strict=True))
    added = transaction.one(
        f"INSERT INTO tokens ({', '.join(TOKEN_COLUMNS)}, proof, revision)"
        f" VALUES ({', '.join(f':{column}' for column in TOKEN_COLUMNS)}, :proof, :revision)"
        " ON CONFLICT DO NOTHING RETURNING seq",
        values | {"proof": proofs.of("tokens", tuple(values.values())), "revision": transaction.revision},
    )
    if added is None:
        raise OperatorError(f"a token named {name!r} exists already", "Choose another name, or revoke that one first.")


def revoke(transaction: Transaction, proofs: RowProofs, name: str, *, now: int) -> bool:
    """Whether a token of that name existed and was not revoked before."""
    found = transaction.one(f"SELECT {_COLUMNS} FROM tokens WHERE name = :name AND revoked_at IS NULL", {"name": name})
    if found is None:
        return False
    transaction.changes_tokens = True
    revoked = Token(*found)._replace(revoked_at=now)
    transaction.execute(
        "UPDATE tokens SET revoked_at = :now, proof = :proof, revision = :revision WHERE seq = :seq",
        {
            "now": now,
            "proof": proofs.of("tokens", _proven(revoked)),
            "revision": transaction.revision,
            "seq": revoked.seq,
        },
    )
    return True


def forget(transaction: Transaction, digest: bytes) -> None:
    """Remove the row of a token, so that the same token can be added again."""
    transaction.changes_tokens = True
    transaction.execute("DELETE FROM tokens WHERE digest = :digest", {"digest": digest})


def is_taken(transaction: Transaction, name: str) -> bool:
    """Whether a token of that name exists and is not revoked."""
    return transaction.one("SELECT 1 FROM tokens WHERE name = :name AND revoked_at IS NULL", {"name": name}) is not None


def all_tokens(database: Database) -> list[Token]:
    return tokens_after(database.read, -1, "seq")


def forged_tokens(reader: Reader, proofs: RowProofs) -> list[Token]:
    """The tokens that Relaydeck did not write as they are. The service refuses them."""
    return [token for token in tokens_after(reader.read, -1, "seq") if not token.is_authentic(proofs)]


def migrated_tokens(reader: Reader, proofs: RowProofs) -> list[str]:
    """The names of the tokens that are not revoked, and whose rows a migration proved as it found them."""
    tokens = tokens_after(reader.read, -1, "seq")
    return [
        token.name
        for token in tokens
        if token.revoked_at is None and proofs.token_origin(token.proof, _proven(token)) == "migrated"
    ]


def revived_tokens(reader: Reader) -> list[str]:
    """The names of tokens whose rows Relaydeck wrote, but not last. The service accepts them: their proofs hold."""
    return [row.name for row in reader.read(_REVIVED_SQL, {})]


def find(transaction: Transaction, digest: bytes) -> Token | None:
    row = transaction.one(f"SELECT {_COLUMNS} FROM tokens WHERE digest = :digest", {"digest": digest})
    return None if row is None else Token(*row)


def tokens_after(read: ReadRows, revision: int, order: str = "revision") -> list[Token]:
    """The tokens written after a revision."""
    rows = read(f"SELECT {_COLUMNS} FROM tokens WHERE revision > :seen ORDER BY {order}", {"seen": revision})
    return [Token(*row) for row in rows]
