"""Sessions of the console, and the one-time codes that open one. The database holds only digests of both.

A session belongs to a token: it grants what the kind of the token grants, and ends with the token. The proofs of
sessions and codes contain the digest of the token: its number alone could be given to another token. The proof of a
session also contains the time of its last use. The audit log records that a session has ended or a code was used: a row
that is put back afterwards opens nothing, because nobody can remove that entry unnoticed.
"""

import secrets
from typing import NamedTuple

from relaydeck.credentials import token_changes
from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.tokens import digest_of, new_token
from relaydeck.secret import Secret
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows, Row, Transaction
from relaydeck.store.row_proofs import RowProofs

CODE_SECONDS = 600
MOST_OF_TOKEN = 20  # sessions at a time
_TOUCH_SECONDS = 60  # the time of the last request is written at most this often

_ISSUED = (
    "t.name, t.kind, t.digest, t.created_at AS token_created_at, t.expires_at, t.revoked_at, t.proof AS token_proof"
)
_LIVE = "t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > :now)"
# In the words of the index `audit_console`, so that both engines use it.
_SPENT = "SELECT 1 FROM audit WHERE action IN ('session.ended', 'session.link_used') AND record = :record"


class ConsoleSession(NamedTuple):
    """A session with its token."""

    created_at: int
    used_at: int
    token_seq: int
    token_name: str
    kind: str
    token_digest: bytes

    def is_stale(self, now: float) -> bool:
        """Whether the time of the last request has to be written."""
        return now - self.used_at >= _TOUCH_SECONDS


class SessionLimits(NamedTuple):
    idle_seconds: float
    most_seconds: float


def new_session_secret() -> Secret:
    return Secret(secrets.token_urlsafe(32))


def _digest(secret: Secret) -> bytes:
    return digest_of(secret.reveal().encode())


def _record(digest: bytes) -> str:
    """The name of a session or code in the audit log."""
    return digest.hex()[:32]


def _session_proof(
    proofs: RowProofs, secret: Secret, token_digest: bytes | None, created_at: int, used_at: int
) -> bytes:
    return proofs.of("console_sessions", (_digest(secret), token_digest, created_at, used_at))


def find_session(
    read: ReadRows, proofs: RowProofs, secret: Secret, limits: SessionLimits, now: float
) -> ConsoleSession | None:
    """The session, unless it is unknown, has ended, is too old or idle, or its token is revoked or expired.

    One that Relaydeck did not write, or that belongs to a token that it did not write, is unknown.
    """
    rows = read(
        f"SELECT s.created_at, s.used_at, s.proof AS session_proof, t.seq, {_ISSUED} FROM console_sessions s"
        f" JOIN tokens t ON t.seq = s.token_seq WHERE s.digest = :digest AND {_LIVE}"
        f" AND s.used_at > :idle AND s.created_at > :oldest AND NOT EXISTS ({_SPENT})",
        {
            "digest": _digest(secret),
            "record": _record(_digest(secret)),
            "now": int(now),
            "idle": int(now - limits.idle_seconds),
            "oldest": int(now - limits.most_seconds),
        },
    )
    if not rows or not _is_authentic(rows[0], proofs):
        return None
    row = rows[0]
    proven = _digest(secret), row.digest, row.created_at, row.used_at
    if not proofs.holds(row.session_proof, "console_sessions", proven):
        return None
    return ConsoleSession(row.created_at, row.used_at, row.seq, row.name, row.kind, row.digest)


def _is_authentic(row: Row, proofs: RowProofs) -> bool:
    values = (row.name, row.kind, row.digest, row.token_created_at, row.expires_at, row.revoked_at)
    return proofs.token_origin(row.token_proof, values) is not None


def token_of(read: ReadRows, proofs: RowProofs, token: Secret, now: float) -> tuple[int, str] | None:
    """The number and the kind of a live token; None when there is no such token, or Relaydeck did not write it."""
    rows = read(
        f"SELECT t.seq, {_ISSUED} FROM tokens t WHERE t.digest = :digest AND {_LIVE}",
        {"digest": _digest(token), "now": int(now)},
    )
    return (rows[0].seq, rows[0].kind) if rows and _is_authentic(rows[0], proofs) else None


def open_session(
    transaction: Transaction, audit: AuditLog, secret: Secret, token_seq: int, limits: SessionLimits, now: float
) -> None:
    """Store a session, and remove those that have ended. One too many of a token ends the one that was idle longest."""
    transaction.execute(
        "DELETE FROM console_sessions WHERE used_at <= :idle OR created_at <= :oldest",
        {"idle": int(now - limits.idle_seconds), "oldest": int(now - limits.most_seconds)},
    )
    others = transaction.all(
        "SELECT digest FROM console_sessions WHERE token_seq = :token ORDER BY used_at DESC, seq DESC",
        {"token": token_seq},
    )
    for other in others[MOST_OF_TOKEN - 1 :]:
        _end_session(transaction, audit, other.digest, now)
    token_digest = _token_digest(transaction, token_seq)
    transaction.execute(
        "INSERT INTO console_sessions (digest, token_seq, created_at, used_at, proof)"
        " VALUES (:digest, :token, :now, :now, :proof)",
        {
            "digest": _digest(secret),
            "token": token_seq,
            "now": int(now),
            "proof": _session_proof(audit.vault.proofs, secret, token_digest, int(now), int(now)),
        },
    )
    _record_action(transaction, audit, "session.opened", _digest(secret), token_seq, now)


def touch_session(
    transaction: Transaction, proofs: RowProofs, secret: Secret, session: ConsoleSession, now: float
) -> None:
    proof = _session_proof(proofs, secret, session.token_digest, session.created_at, int(now))
    transaction.execute(
        "UPDATE console_sessions SET used_at = :now, proof = :proof WHERE digest = :digest",
        {"now": int(now), "proof": proof, "digest": _digest(secret)},
    )


def close_session(transaction: Transaction, audit: AuditLog, secret: Secret, now: float) -> None:
    _end_session(transaction, audit, _digest(secret), now)


def _end_session(transaction: Transaction, audit: AuditLog, digest: bytes, now: float) -> None:
    row = transaction.one("DELETE FROM console_sessions WHERE digest = :digest RETURNING token_seq", {"digest": digest})
    if row is not None:
        _record_action(transaction, audit, "session.ended", digest, row.token_seq, now)


def issue_code(context: ChangeContext, token_name: str) -> Secret:
    """A code that opens one session within ten minutes.

    The session acts as the admin token of the given name. It is created when there is none; nobody knows its text.
    """
    token_seq = _admin_token(context, token_name)
    code = new_session_secret()
    context.transaction.execute("DELETE FROM console_codes WHERE expires_at <= :now", {"now": context.now})
    digest, expires_at = _digest(code), context.now + CODE_SECONDS
    token_digest = _token_digest(context.transaction, token_seq)
    context.transaction.execute(
        "INSERT INTO console_codes (digest, token_seq, expires_at, proof)"
        " VALUES (:digest, :token, :expires_at, :proof)",
        {
            "digest": digest,
            "token": token_seq,
            "expires_at": expires_at,
            "proof": context.vault.proofs.of("console_codes", (digest, token_digest, expires_at)),
        },
    )
    return code


def _admin_token(context: ChangeContext, wanted: str) -> int:
    name, number = wanted, 1
    while (row := _live_token(context.transaction, name)) is not None:
        if row.kind == TokenKind.ADMIN.value and row.expires_at is None:
            return int(row.seq)
        number += 1
        name = f"{wanted}-{number}"
    token_changes.issue(context, name, TokenKind.ADMIN, new_token())
    created = _live_token(context.transaction, name)
    assert created is not None
    return int(created.seq)


def _live_token(transaction: Transaction, name: str) -> Row | None:
    return transaction.one(
        "SELECT seq, kind, expires_at FROM tokens WHERE name = :name AND revoked_at IS NULL", {"name": name}
    )


def is_stored_code(read: ReadRows, code: Secret) -> bool:
    """Whether `use_code` has something to look at: a guess must not cost a transaction."""
    return bool(read("SELECT 1 FROM console_codes WHERE digest = :digest", {"digest": _digest(code)}))


def use_code(transaction: Transaction, audit: AuditLog, code: Secret, now: float) -> int | None:
    """The number of the code's token; the code is used up. None when it is unknown, used, expired or forged."""
    digest = _digest(code)
    row = transaction.one(
        "DELETE FROM console_codes WHERE digest = :digest AND expires_at > :now"
        f" AND NOT EXISTS ({_SPENT}) RETURNING token_seq, expires_at, proof",
        {"digest": digest, "record": _record(digest), "now": int(now)},
    )
    if row is None:
        return None
    token_seq: int = row.token_seq
    proven = digest, _token_digest(transaction, token_seq), row.expires_at
    if not audit.vault.proofs.holds(row.proof, "console_codes", proven):
        return None
    _record_action(transaction, audit, "session.link_used", digest, token_seq, now)
    return token_seq


def _record_action(
    transaction: Transaction, audit: AuditLog, action: str, digest: bytes, token_seq: int, now: float
) -> None:
    """The entry of what became of a session or a code. Neither can be used after one of `_SPENT`."""
    row = transaction.one("SELECT name FROM tokens WHERE seq = :seq", {"seq": token_seq})
    assert row is not None  # a session and a code refer to a token that exists
    audit.append(transaction, [AuditEntry(int(now), f"token:{row.name}", action, _record(digest))])


def _token_digest(transaction: Transaction, token_seq: int) -> bytes | None:
    row = transaction.one("SELECT digest FROM tokens WHERE seq = :seq", {"seq": token_seq})
    return None if row is None else row.digest
