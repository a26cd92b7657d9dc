"""Access tokens: their format, and in the database, each change with its entry in the audit log.

A token is `rdk_`, 256 random bits in base 62 (43 characters) and the CRC-32 of everything before it in base 62
(6 characters). A leak scanner finds a token by its prefix and confirms it by its checksum. The service stores only
the SHA-256 of a token.
"""

import hashlib
import re
import secrets
import string
import zlib
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from relaydeck.credential import names_in
from relaydeck.credentials.grants import Grant, read_grant
from relaydeck.errors import NotPossible, OperatorError, RecordExists
from relaydeck.scope import Scope
from relaydeck.secret import Secret
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Reader, ReadRows, Transaction, Values
from relaydeck.store.rows import columns_of
from relaydeck.store.scoped import EVERYTHING
from relaydeck.store.sealing import TOKEN_COLUMNS, TOKEN_PROOFS, ProvenRows, RowProofs
from relaydeck.timestamps import utc

PREFIX = "rdk_"
LONGEST = 256  # of a bootstrap token; others are shorter
LIFETIMES = "a number and a unit: 45m, 12h, 30d or 8w"
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_ISSUED = re.compile(r"(?: \(issued [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\))+")
_LONGEST_BASE = 200  # of the name of a token in that of its old secret
_LIFETIME = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def new_token() -> Secret:
    body = PREFIX + _base62(secrets.randbits(256), 43)
    return Secret(body + _base62(zlib.crc32(body.encode()), 6))


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def digest_of(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def lifetime_seconds(text: str) -> int | None:
    """`45m`, `12h`, `30d` or `8w` in seconds; None for any other text."""
    match = _LIFETIME.fullmatch(text)
    return int(match[1]) * _SECONDS[match[2]] if match else None


class Token(NamedTuple):
    """A row of the table `tokens`: everything about an issued token except the token itself."""

    seq: int
    name: str
    kind: str  # its grant, as `Grant.stored` writes it
    digest: bytes
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    proof: bytes | None = None
    revision: int = 0
    made_by: str | None = None
    made_by_proof: bytes | None = None  # apart from the other, which versions without this column check

    def is_authentic(self, proofs: RowProofs) -> bool:
        """Whether Relaydeck wrote the row as it is."""
        return proofs.token_origin(self.proof, _proven(self)) is not None

    def actor(self, proofs: RowProofs) -> str:
        """The actor in the audit log: it names the person behind the token, if a person made it."""
        person, name = names_in(self.made_by or "")[0], f"token:{self.name}"
        is_named = person.startswith("person:") and proofs.holds(self.made_by_proof, *_made(self.digest, self.made_by))
        return f"{person} via {name}" if is_named else name

    @property
    def grant(self) -> Grant:
        return read_grant(self.kind)

    def state(self, now: float) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "live"

    def is_live(self, now: float) -> bool:
        return self.state(now) == "live"


USES_SINCE = 26  # the migration step since which uses are recorded
MADE_BY_ANOTHER = "was made by another than its row says: the audit log names who made it"
FORGED = "was added or changed by something other than Relaydeck, which refuses it"
REVIVED = "is an old one that was put back: the audit log shows that it was revoked or replaced"
_AUDITED_SQL = (
    "SELECT t.name FROM tokens t JOIN (SELECT record, max(seq) AS last FROM audit"
    " WHERE action IN ('token.created', 'token.revoked') GROUP BY record) latest ON latest.record = t.name"
    " JOIN audit a ON a.seq = latest.last WHERE t.revoked_at IS NULL AND {} ORDER BY t.seq"
)
_IS_LATEST = "(a.action = 'token.created' AND a.moment = t.created_at)"
_NAMES_PERSON = "(substr(a.actor, 1, 7) = 'person:' OR substr(t.made_by, 1, 7) = 'person:')"
_REVIVED_SQL = _AUDITED_SQL.format(f"NOT {_IS_LATEST}")
_MISNAMED_SQL = _AUDITED_SQL.format(f"{_IS_LATEST} AND {_NAMES_PERSON} AND coalesce(t.made_by, '') <> a.actor")
_COLUMNS = columns_of(Token._fields)


_proven = attrgetter(*TOKEN_COLUMNS)
PROVEN = (
    ProvenRows("tokens", ", ".join(TOKEN_COLUMNS), kinds=TOKEN_PROOFS),
    ProvenRows("tokens", "digest, made_by", kinds=("makers of tokens",), column="made_by_proof"),
)


def _made(digest: bytes, made_by: str | None) -> tuple[str, tuple[bytes, str | None]]:
    """What the second proof of a row states."""
    return PROVEN[1].kinds[0], (digest, made_by)


def add(
    transaction: Transaction,
    proofs: RowProofs,
    name: str,
    kind: str,
    token: Secret,
    *,
    now: int,
    expires_at: int | None = None,
    made_by: str | None = None,
    purpose: str | None = None,
) -> None:
    """`kind`: a role, or `Grant.stored`. Raises OperatorError when a token of that name exists and is not revoked."""
    transaction.changes_tokens = True
    digest, proofs = digest_of(token.reveal().encode()), proofs.fresh(transaction)
    values = dict(zip(TOKEN_COLUMNS, (name, str(kind), digest, now, expires_at, None), strict=True))
    added = transaction.one(
        f"INSERT INTO tokens ({', '.join(TOKEN_COLUMNS)}, made_by, purpose, proof, made_by_proof, revision)"
        f" VALUES ({', '.join(f':{column}' for column in TOKEN_COLUMNS)}, :made_by, :purpose, :proof, :made_by_proof,"
        " :revision) ON CONFLICT DO NOTHING RETURNING seq",
        values
        | {"made_by": made_by, "purpose": purpose, "made_by_proof": proofs.of(*_made(digest, made_by))}
        | {"proof": proofs.of("tokens", tuple(values.values())), "revision": transaction.revision},
    )
    if added is None:
        raise OperatorError(f"a token named {name!r} exists already", "Choose another name, or revoke that one first.")


def mark_revoked(transaction: Transaction, proofs: RowProofs, name: str, *, now: int) -> bool:
    """Whether a token of that name existed and was not revoked before."""
    found = find_named(transaction.all, name)
    if found is not None:
        _update(transaction, proofs, found._replace(revoked_at=now))
    return found is not None


def _update(transaction: Transaction, proofs: RowProofs, token: Token) -> None:
    transaction.changes_tokens = True
    values = {name: getattr(token, name) for name in ("seq", "name", "expires_at", "revoked_at")}
    transaction.execute(
        "UPDATE tokens SET name = :name, expires_at = :expires_at, revoked_at = :revoked_at, proof = :proof,"
        " revision = :revision WHERE seq = :seq",
        values | {"proof": proofs.fresh(transaction).of("tokens", _proven(token)), "revision": transaction.revision},
    )


def forget(transaction: Transaction, digest: bytes) -> None:
    """Remove the row of a token, so that the same token can be added again."""
    transaction.changes_tokens = True
    transaction.execute("DELETE FROM tokens WHERE digest = :digest", {"digest": digest})


def all_tokens(reader: Reader) -> list[Token]:
    return tokens_after(reader.read, -1, "seq")


def last_uses(reader: Reader) -> dict[int, tuple[int, str]]:
    """When and where each token was last used, by its number."""
    rows = reader.read("SELECT seq, last_used_at, last_used_from FROM tokens WHERE last_used_at IS NOT NULL", {})
    return {row.seq: (row.last_used_at, row.last_used_from) for row in rows}


def forged_tokens(reader: Reader, proofs: RowProofs) -> list[Token]:
    """The tokens that Relaydeck did not write as they are. The service refuses them."""
    return [token for token in all_tokens(reader) if not token.is_authentic(proofs)]


def migrated_tokens(reader: Reader, proofs: RowProofs) -> list[str]:
    """The names of the tokens that are not revoked, and whose rows a migration proved as it found them."""
    return [
        token.name
        for token in all_tokens(reader)
        if token.revoked_at is None and proofs.token_origin(token.proof, _proven(token)) == "migrated"
    ]


def doubted_tokens(reader: Reader) -> Iterator[tuple[str, str]]:
    """Tokens that the service accepts, because their proofs hold, and how the audit log contradicts their rows."""
    for sql, problem in (_REVIVED_SQL, REVIVED), (_MISNAMED_SQL, MADE_BY_ANOTHER):
        yield from ((row.name, problem) for row in reader.read(sql, {}))


def find(read: ReadRows, digest: bytes) -> Token | None:
    return _first(read, "digest = :digest", {"digest": digest})


def find_numbered(read: ReadRows, seq: int) -> Token | None:
    return _first(read, "seq = :seq", {"seq": seq})


def find_named(read: ReadRows, name: str) -> Token | None:
    """The token of that name that is not revoked."""
    return _first(read, "name = :name AND revoked_at IS NULL", {"name": name})


def _first(read: ReadRows, condition: str, values: Values) -> Token | None:
    rows = read(f"SELECT {_COLUMNS} FROM tokens WHERE {condition}", values)
    return Token(*rows[0]) if rows else None


def tokens_after(read: ReadRows, revision: int, order: str = "revision") -> list[Token]:
    """The tokens written after a revision."""
    rows = read(f"SELECT {_COLUMNS} FROM tokens WHERE revision > :seen ORDER BY {order}", {"seen": revision})
    return [Token(*row) for row in rows]


def store_uses(transaction: Transaction, uses: Iterable[tuple[str, int, str]]) -> None:
    """When and from where tokens were last used, by their names. Nothing that a row proves, and no new revision."""
    for name, moment, place in uses:
        transaction.execute(
            "UPDATE tokens SET last_used_at = :moment, last_used_from = :place WHERE name = :name"
            " AND revoked_at IS NULL AND (last_used_at IS NULL OR last_used_at < :moment)",
            {"name": name, "moment": moment, "place": place},
        )


# -- changes with their entry in the audit log ----------------------------------------------------


def issue(
    context: ChangeContext,
    name: str,
    grant: Grant,
    token: Secret,
    *,
    expires_at: int | None = None,
    purpose: str | None = None,
) -> None:
    """Raises OperatorError when a token of that name exists and is not revoked."""
    add(
        context.transaction,
        context.vault.proofs,
        name,
        grant.stored,
        token,
        now=context.now,
        expires_at=expires_at,
        made_by=context.actor,
        purpose=purpose,
    )
    facts = {"kind": str(grant.role), **grant.restrictions, "expires_at": expires_at}
    facts |= {"purpose": purpose} if purpose else {}
    context.performed("token.created", name, facts)


def issue_new(
    context: ChangeContext, name: str, grant: Grant, seconds: int | None, purpose: str | None = None
) -> Secret:
    """Valid for so many seconds; None: forever. Raises RecordExists while a token of that name is not revoked."""
    if find_named(context.transaction.all, name) is not None:
        raise RecordExists("token")
    token, expires_at = new_token(), None if seconds is None else context.now + seconds
    issue(context, name, grant, token, expires_at=expires_at, purpose=purpose)
    return token


def rotate(context: ChangeContext, name: str, overlap: int) -> tuple[Secret, str] | None:
    """Give the token of that name a new secret. The old one works for so many seconds more, at most until it expires.

    Returns the new secret, and the name under which the old one is listed while it works; empty: it works no more.
    None when there is no live token of that name. Afterwards the old secret is a token of its own, so that its row can
    be listed, revoked and proven like any other, by every version. The new one lasts as long as the old one was to.
    """
    old = find_named(context.transaction.all, name)
    if old is None or not old.is_live(context.now) or not old.is_authentic(context.vault.proofs):
        return None
    (row,) = context.transaction.all("SELECT purpose FROM tokens WHERE seq = :seq", {"seq": old.seq})
    if overlap and len(name) > _LONGEST_BASE:  # the name of the old secret must contain it: see `_bases`
        raise NotPossible(f"the name has more than {_LONGEST_BASE} characters: rotate the token without an overlap")
    old_name = f"{name} (issued {utc(old.created_at)})" if overlap else ""
    if not overlap:
        _revoke_one(context, name)
    elif find_named(context.transaction.all, old_name) is not None:
        raise NotPossible("the token was issued within this second: rotate it later")
    else:
        until = min(context.now + overlap, context.now + overlap if old.expires_at is None else old.expires_at)
        _update(context.transaction, context.vault.proofs, old._replace(name=old_name, expires_at=until))
        context.performed("token.rotated", name, {"old": old_name, "expires_at": until})
    seconds = None if old.expires_at is None else old.expires_at - old.created_at
    return issue_new(context, name, old.grant, seconds, row.purpose), old_name


def revoke(context: ChangeContext, name: str) -> list[str]:
    """The names of what it revoked: the token, and its old secrets that work since a rotation. Empty: there is none."""
    return [each for each in (name, *_old_secrets(context, name)) if _revoke_one(context, each)]


def _old_secrets(context: ChangeContext, name: str) -> list[str]:
    """The names under which `rotate` listed those that still work."""
    base = name[:_LONGEST_BASE]
    rows = context.transaction.all(
        f"SELECT {_COLUMNS} FROM tokens WHERE revoked_at IS NULL AND substr(name, 1, {len(base) + 1}) = :start"
        " ORDER BY seq",
        {"start": f"{base} "},
    )
    found = [each for each in (Token(*row) for row in rows) if _ISSUED.fullmatch(each.name[len(base) :])]
    return [each.name for each in found if each.is_live(context.now)]


def _revoke_one(context: ChangeContext, name: str) -> bool:
    """Whether a token of that name existed and was not revoked before."""
    revoked = mark_revoked(context.transaction, context.vault.proofs, name, now=context.now)
    if revoked:
        context.performed("token.revoked", name)
    return revoked


# -- who may approve a change that needs it ---------------------------------------------------------

_MOST_MAKERS = 32  # that are followed, the actor among them


def may_approve(read: ReadRows, actor: str, author: str) -> bool:
    """Not the author, nor whoever made the author's token, nor a token that the author made."""
    ours, theirs, same = _makers(read, actor), _makers(read, author), {*_bases(actor), *_bases(author)}
    if len(ours) > _MOST_MAKERS or len(theirs) > _MOST_MAKERS:  # those that were not followed may be the other one
        return False
    return not any(each in same or each.startswith("person:") for each in ours & theirs)


def is_author(read: ReadRows, actor: str, scope: Scope | None, author: str) -> bool:
    """Whether the actor, whose credential has this scope, is the author.

    A token with a scope is not, if another token had its name, with another scope: it would see what that one changed.
    """
    names = _bases(actor)
    if names != _bases(author):
        return False
    return scope is None or all(
        (other := read_grant(row.kind).scope) is not None and other.key == scope.key
        for name in names
        if name.startswith("token:")
        for row in read(
            f"{EVERYTHING}SELECT kind FROM tokens WHERE name = :name", {"name": name.removeprefix("token:")}
        )
    )


def _makers(read: ReadRows, actor: str) -> set[str]:
    """The actor, who made its token, and so on. A name may have been used by several tokens."""
    found, left = set[str](), [actor]
    while left and len(found) <= _MOST_MAKERS:
        names = _bases(left.pop())
        for token in (each.removeprefix("token:") for each in names if each not in found and each.startswith("token:")):
            sql = "SELECT made_by FROM tokens WHERE name = :name AND made_by IS NOT NULL"
            left += [row.made_by for row in read(sql, {"name": token})]
        found.update(names)
    return found


def _bases(actor: str) -> list[str]:
    """Its names, without what a rotation adds to that of the old token while it still works."""
    return [each.partition(" (issued ")[0] for each in names_in(actor)]
