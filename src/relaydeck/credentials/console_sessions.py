"""Sessions of the console, and the one-time codes that open one. The database holds only digests of both.

A session belongs to a token: it grants what the kind of the token grants, and ends with the token. The proofs of
sessions and codes contain the digest of the token: its number alone could be given to another token. The proof of a
session also contains the time of its last use. The audit log records that a session has ended or a code was used: a row
that is put back afterwards opens nothing, because nobody can remove that entry unnoticed.
"""

import secrets
from math import inf
from typing import Any, NamedTuple

from relaydeck.credentials import tokens
from relaydeck.credentials.grants import FIRST_KINDS, Grant, read_grant
from relaydeck.credentials.tokens import Token, digest_of, new_token
from relaydeck.roles import Role
from relaydeck.scope import Scope
from relaydeck.secret import Secret
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import ReadRows, Transaction
from relaydeck.store.sealing import ProvenRows, RowProofs

CODE_SECONDS = 600
MOST_OF_TOKEN = 20  # sessions at a time
REMEMBERED_SECONDS = 86_400.0  # after it has ended: a form that was sent in it is kept until somebody has signed in
_TOUCH_SECONDS = 60  # the time of the last request is written at most this often

# In the words of the index `audit_console`, so that both engines use it.
SPENT = "SELECT 1 FROM audit WHERE action IN ('session.ended', 'session.link_used') AND record = :record"


class ConsoleSession(NamedTuple):
    """A session with its token."""

    created_at: int
    used_at: int
    token_seq: int
    token_name: str
    actor: str
    kind: str
    token_digest: bytes
    expires_at: float
    scope: Scope | None = None  # that of the token
    rule: str = ""  # by which a person has the role

    @property
    def grant(self) -> Grant:
        return read_grant(self.kind)

    def is_stale(self, now: float) -> bool:
        """Whether the time of the last request has to be written."""
        return now - self.used_at >= _TOUCH_SECONDS


class SessionLimits(NamedTuple):
    idle_seconds: float
    most_seconds: float

    def bounds(self, now: float) -> dict[str, int]:
        """Before which a session has ended."""
        return {"idle": int(now - self.idle_seconds), "oldest": int(now - self.most_seconds)}


def new_session_secret() -> Secret:
    return Secret(secrets.token_urlsafe(32))


def session_digest(secret: Secret) -> bytes:
    return digest_of(secret.reveal().encode())


def session_record(digest: bytes) -> str:
    """The name of a session or code in the audit log."""
    return digest.hex()[:32]


def _proven(digest: bytes, token_digest: bytes, kind: str, created_at: int, used_at: int) -> tuple[Any, ...]:
    """Versions that do not know the kind of the token must not accept its session, in which nothing would limit it."""
    token = token_digest if kind in FIRST_KINDS else token_digest + kind.encode()
    return digest, token, created_at, used_at


_JOINED = "JOIN tokens k ON k.seq = t.token_seq"
PROVEN = (
    ProvenRows(
        "console_sessions",
        "t.digest, k.digest AS token_digest, k.kind, t.created_at, t.used_at",
        _JOINED,
        lambda values: _proven(*values),
    ),
    ProvenRows("console_codes", "t.digest, k.digest AS token_digest, t.expires_at", _JOINED),
)


def find_session(
    read: ReadRows, proofs: RowProofs, secret: Secret, limits: SessionLimits, now: float
) -> ConsoleSession | None:
    """The session, unless it is unknown, has ended, is too old or idle, or its token is revoked or expired.

    One that Relaydeck did not write, or that belongs to a token that it did not write, is unknown.
    """
    digest = session_digest(secret)
    rows = read(
        "SELECT created_at, used_at, token_seq, proof FROM console_sessions WHERE digest = :digest"
        f" AND used_at > :idle AND created_at > :oldest AND NOT EXISTS ({SPENT})",
        {"digest": digest, "record": session_record(digest), **limits.bounds(now)},
    )
    token = _live(tokens.find_numbered(read, rows[0].token_seq), proofs, now) if rows else None
    if token is None:
        return None
    created_at, used_at, _, proof = rows[0]
    if not proofs.holds(proof, "console_sessions", _proven(digest, token.digest, token.kind, created_at, used_at)):
        return None
    ends_at = min(created_at + limits.most_seconds, inf if token.expires_at is None else token.expires_at)
    whose = token.seq, token.name, token.actor(proofs), token.kind, token.digest
    return ConsoleSession(created_at, used_at, *whose, ends_at, token.grant.scope)


def has_existed(read: ReadRows, secret: Secret) -> bool:
    """Whether it is the secret of a session, of a token or a person, that may have ended a day ago or less."""
    digest = session_digest(secret)
    stored = (f"SELECT 1 FROM {table} WHERE digest = :digest" for table in ("console_sessions", "person_sessions"))
    return bool(read(" UNION ALL ".join([*stored, SPENT]), {"digest": digest, "record": session_record(digest)}))


def _live(token: Token | None, proofs: RowProofs, now: float) -> Token | None:
    return token if token is not None and token.is_live(now) and token.is_authentic(proofs) else None


def token_of(read: ReadRows, proofs: RowProofs, token: Secret, now: float) -> Token | None:
    """A live token; None when there is no such token, or Relaydeck did not write it."""
    return _live(tokens.find(read, session_digest(token)), proofs, now)


def open_session(
    transaction: Transaction, audit: AuditLog, secret: Secret, token_seq: int, limits: SessionLimits, now: float
) -> None:
    """Store a session. One too many of a token ends the one that was idle longest; those that ended long ago go."""
    transaction.execute(
        "DELETE FROM console_sessions WHERE used_at <= :idle OR created_at <= :oldest",
        limits.bounds(now - REMEMBERED_SECONDS),
    )
    others = transaction.all(
        "SELECT digest FROM console_sessions WHERE token_seq = :token ORDER BY used_at DESC, seq DESC",
        {"token": token_seq},
    )
    for other in others[MOST_OF_TOKEN - 1 :]:
        _end_session(transaction, audit, other.digest, now)
    token = _token(transaction, token_seq)
    digest, moment = session_digest(secret), int(now)
    proven = _proven(digest, token.digest, token.kind, moment, moment)
    proof = audit.vault.proofs.fresh(transaction).of("console_sessions", proven)
    columns = ("digest", "token_seq", "created_at", "used_at", "proof")
    transaction.insert("console_sessions", columns, [(digest, token_seq, moment, moment, proof)])
    _record_action(transaction, audit, "session.opened", digest, token, now)


def touch_session(
    transaction: Transaction, proofs: RowProofs, secret: Secret, session: ConsoleSession, now: float
) -> None:
    proven = _proven(session_digest(secret), session.token_digest, session.kind, session.created_at, int(now))
    proof = proofs.fresh(transaction).of("console_sessions", proven)
    transaction.execute(
        "UPDATE console_sessions SET used_at = :now, proof = :proof WHERE digest = :digest",
        {"now": int(now), "proof": proof, "digest": session_digest(secret)},
    )


def close_session(transaction: Transaction, audit: AuditLog, secret: Secret, now: float) -> None:
    _end_session(transaction, audit, session_digest(secret), now)


def _end_session(transaction: Transaction, audit: AuditLog, digest: bytes, now: float) -> None:
    row = transaction.one("DELETE FROM console_sessions WHERE digest = :digest RETURNING token_seq", {"digest": digest})
    if row is not None:
        _record_action(transaction, audit, "session.ended", digest, _token(transaction, row.token_seq), now)


def issue_code(context: ChangeContext, token_name: str) -> Secret:
    """A code that opens one session within ten minutes.

    The session acts as the admin token of the given name. It is created when there is none; nobody knows its text.
    """
    token = _admin_token(context, token_name)
    code = new_session_secret()
    context.transaction.execute("DELETE FROM console_codes WHERE expires_at <= :now", {"now": context.now})
    digest, expires_at = session_digest(code), context.now + CODE_SECONDS
    proof = context.vault.proofs.of("console_codes", (digest, token.digest, expires_at))
    columns = ("digest", "token_seq", "expires_at", "proof")
    context.transaction.insert("console_codes", columns, [(digest, token.seq, expires_at, proof)])
    return code


def _admin_token(context: ChangeContext, wanted: str) -> Token:
    name, number = wanted, 1
    while (token := tokens.find_named(context.transaction.all, name)) is not None:
        if token.kind == Role.ADMIN.value and token.expires_at is None:
            return token
        number += 1
        name = f"{wanted}-{number}"
    secret = new_token()
    tokens.issue(context, name, Grant(role=Role.ADMIN), secret)
    created = tokens.find(context.transaction.all, session_digest(secret))
    assert created is not None
    return created


def is_stored_code(read: ReadRows, code: Secret) -> bool:
    """Whether `use_code` has something to look at: a guess must not cost a transaction."""
    return bool(read("SELECT 1 FROM console_codes WHERE digest = :digest", {"digest": session_digest(code)}))


def use_code(transaction: Transaction, audit: AuditLog, code: Secret, now: float) -> int | None:
    """The number of the code's token; the code is used up. None when it is unknown, used, expired or forged."""
    digest = session_digest(code)
    row = transaction.one(
        "DELETE FROM console_codes WHERE digest = :digest AND expires_at > :now"
        f" AND NOT EXISTS ({SPENT}) RETURNING token_seq, expires_at, proof",
        {"digest": digest, "record": session_record(digest), "now": int(now)},
    )
    if row is None:
        return None
    token = _token(transaction, row.token_seq)
    if not audit.vault.proofs.holds(row.proof, "console_codes", (digest, token.digest, row.expires_at)):
        return None
    _record_action(transaction, audit, "session.link_used", digest, token, now)
    return token.seq


def _record_action(
    transaction: Transaction, audit: AuditLog, action: str, digest: bytes, token: Token, now: float
) -> None:
    """The entry of what became of a session or a code. Neither can be used after one of `SPENT`."""
    actor = token.actor(audit.vault.proofs)
    audit.append(transaction, [AuditEntry(int(now), actor, action, session_record(digest))])


def _token(transaction: Transaction, seq: int) -> Token:
    found = tokens.find_numbered(transaction.all, seq)
    assert found is not None  # a session and a code refer to a token that exists
    return found
