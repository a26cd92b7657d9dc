"""Sessions of people who signed in at an identity provider, stored apart from those of tokens.

A session is what its last check at the provider said: who it is, in which role, by which rule. Its refresh token is
encrypted with a key that is derived from the secret of the session, which only the browser has.
"""

from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relaydeck.credential import VIA
from relaydeck.credentials import console_sessions, tokens
from relaydeck.credentials.console_sessions import (
    REMEMBERED_SECONDS,
    SPENT,
    ConsoleSession,
    SessionLimits,
    session_digest,
    session_record,
)
from relaydeck.credentials.grants import Grant, read_grant
from relaydeck.credentials.json_web_tokens import Claims, subject_slot
from relaydeck.errors import Unauthorized
from relaydeck.secret import Secret
from relaydeck.settings.issuers import Issuer, has_verified_email
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.database import ReadRows, Transaction
from relaydeck.store.sealing import ProvenRows, RowProofs, decrypt, derived_key, encrypt

PREFIX = "p-"  # of the secret of such a session
MOST_OF_PERSON = 20  # sessions at a time
_CLAIM_SECONDS = 20  # after which another request may refresh, because the first was killed
_LONGEST = 255
_PROVEN = ("digest", "issuer", "subject", "person", "role", "rule", "sid", "created_at", "used_at", "checked_at")
EVERY_PROOF = (*tokens.PROVEN, *console_sessions.PROVEN, ProvenRows("person_sessions", ", ".join(_PROVEN)))


class Person(NamedTuple):
    """Who somebody is, as the provider said at the last check."""

    issuer: str
    subject: str
    name: str
    role: str  # with the scope, as `Grant.stored` writes it: a version that cannot read that grants nothing
    rule: str
    sid: str = ""  # of the session at the provider, where it says that

    @property
    def actor(self) -> str:
        return f"person:{self.name}"


def person_of(issuer: Issuer, claims: Claims) -> Person:
    """Raises Unauthorized when no rule gives the person a role."""
    subject, name, sid = (claims.get(each, "") for each in ("sub", issuer.person, "sid"))
    for text in (subject, name):
        if not isinstance(text, str) or not 0 < len(text) <= _LONGEST or not text.isprintable():
            raise Unauthorized("the provider does not say who this is")
    if VIA in name:
        raise Unauthorized("the name of the person is one that a token could have")
    if issuer.person == "email" and not has_verified_email(claims):
        raise Unauthorized("the provider has not verified the e-mail address")
    rule = issuer.rule_for(claims)
    if rule is None:
        raise Unauthorized("no rule of the settings gives this person a role")
    found_sid = sid if isinstance(sid, str) and len(sid) <= _LONGEST else ""
    role = Grant(role=rule.role, scope=rule.scope).stored
    return Person(issuer.name, subject, name, role, f"{issuer.name}: {rule}", found_sid)


class PersonSession(NamedTuple):
    person: Person
    digest: bytes
    created_at: int
    used_at: int
    checked_at: int
    encrypted_refresh_token: bytes | None

    def shown(self, limits: SessionLimits) -> ConsoleSession:
        """As the console has any session."""
        ends_at = self.created_at + limits.most_seconds
        slot = subject_slot(self.digest)
        name, role = self.person.actor, self.person.role
        times = self.created_at, self.used_at
        scope = read_grant(role).scope
        return ConsoleSession(*times, slot, name, name, role, self.digest, ends_at, scope, self.person.rule)

    def refresh_token(self, secret: Secret) -> str:
        """Empty: the provider gave none."""
        stored = self.encrypted_refresh_token
        if stored is None:
            return ""
        try:
            return decrypt(_cipher(secret), stored, self.digest).decode()
        except InvalidTag:
            return ""  # something else wrote it


def encrypted(secret: Secret, refresh_token: str) -> bytes | None:
    return encrypt(_cipher(secret), refresh_token.encode(), session_digest(secret)) if refresh_token else None


def _cipher(secret: Secret) -> AESGCM:
    return AESGCM(derived_key(secret.reveal().encode(), b"relaydeck refresh token 1"))


def find(read: ReadRows, proofs: RowProofs, secret: Secret, limits: SessionLimits, now: float) -> PersonSession | None:
    """The session, unless it is unknown, has ended, is too old or idle, or something else wrote it."""
    digest = session_digest(secret)
    rows = read(
        f"SELECT {', '.join(_PROVEN)}, encrypted_refresh_token, proof FROM person_sessions WHERE digest = :digest"
        f" AND used_at > :idle AND created_at > :oldest AND NOT EXISTS ({SPENT})",
        {"digest": digest, "record": session_record(digest), **limits.bounds(now)},
    )
    if not rows:
        return None
    _, *person, created_at, used_at, checked_at, token, proof = rows[0]
    found = PersonSession(Person(*person), digest, created_at, used_at, checked_at, token)
    return found if proofs.holds(proof, "person_sessions", tuple(rows[0])[: len(_PROVEN)]) else None


def is_open(read: ReadRows, digest: bytes) -> bool:
    return bool(read("SELECT 1 FROM person_sessions WHERE digest = :digest", {"digest": digest}))


def store(transaction: Transaction, audit: AuditLog, session: PersonSession, limits: SessionLimits, now: float) -> None:
    """A new session. One too many of a person ends the one that was idle longest; those that ended long ago go."""
    bounds = limits.bounds(now - REMEMBERED_SECONDS)
    transaction.execute("DELETE FROM person_sessions WHERE used_at <= :idle OR created_at <= :oldest", bounds)
    person = session.person
    others = transaction.all(
        "SELECT digest FROM person_sessions WHERE issuer = :issuer AND subject = :subject"
        " ORDER BY used_at DESC, seq DESC",
        {"issuer": person.issuer, "subject": person.subject},
    )
    for other in others[MOST_OF_PERSON - 1 :]:
        end(transaction, audit, "digest = :digest", {"digest": other.digest}, now)
    values = _values(session, audit.vault.proofs.fresh(transaction)) | {"refreshing_at": 0}
    transaction.insert("person_sessions", tuple(values), [tuple(values.values())])
    entry = AuditEntry(int(now), person.actor, "session.opened", session_record(session.digest))
    audit.append(transaction, [entry])


def save(transaction: Transaction, proofs: RowProofs, session: PersonSession) -> None:
    """What the last check or request changed. A session that has ended meanwhile stays ended."""
    values = _values(session, proofs.fresh(transaction))
    changes = ", ".join(f"{each} = :{each}" for each in values if each != "digest")
    transaction.execute(f"UPDATE person_sessions SET {changes} WHERE digest = :digest", values)


def _values(session: PersonSession, proofs: RowProofs) -> dict[str, Any]:
    times = session.created_at, session.used_at, session.checked_at
    proven = dict(zip(_PROVEN, (session.digest, *session.person, *times), strict=True))
    proof = proofs.of("person_sessions", tuple(proven.values()))
    return proven | {"proof": proof, "encrypted_refresh_token": session.encrypted_refresh_token}


def claim(transaction: Transaction, digest: bytes, now: float) -> bool:
    """Whether the caller may use the refresh token: a provider may take a second use for a theft."""
    return (
        transaction.one(
            "UPDATE person_sessions SET refreshing_at = :now WHERE digest = :digest AND refreshing_at <= :before"
            " RETURNING 1",
            {"now": int(now), "digest": digest, "before": int(now) - _CLAIM_SECONDS},
        )
        is not None
    )


def release(transaction: Transaction, digest: bytes) -> None:
    transaction.execute("UPDATE person_sessions SET refreshing_at = 0 WHERE digest = :digest", {"digest": digest})


def end(transaction: Transaction, audit: AuditLog, condition: str, values: dict[str, Any], now: float) -> int:
    """End the sessions that fit a condition, each with its entry in the audit log. Returns how many."""
    rows = transaction.all(f"SELECT digest, person FROM person_sessions WHERE {condition}", values)
    for row in rows:
        transaction.execute("DELETE FROM person_sessions WHERE digest = :digest", {"digest": row.digest})
        entry = AuditEntry(int(now), f"person:{row.person}", "session.ended", session_record(row.digest))
        audit.append(transaction, [entry])
    return len(rows)
