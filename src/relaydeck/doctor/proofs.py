"""Checks that nobody has changed the database behind the service: its tokens and its audit log."""

from collections.abc import Iterator

from relaydeck.credentials.token_rows import FORGED, REVIVED, forged_tokens, migrated_tokens, revived_tokens
from relaydeck.doctor.audit_log import verify_chain
from relaydeck.doctor.finding import Finding, Progress
from relaydeck.quantities import counted
from relaydeck.store.audit import BrokenLink
from relaydeck.store.database import Reader
from relaydeck.store.sealing import Keyring

_MIGRATED = "was proven first by an upgrade, which trusts what it finds; replace it if that may be wrong"
_REMEDY = "revoke it and find out who changed the database"


def proof_findings(database: Reader, keyring: Keyring, progress: Progress) -> Iterator[Finding]:
    yield from _forged_token_findings(database, keyring)
    yield _audit_log(database, keyring, progress)


def _forged_token_findings(database: Reader, keyring: Keyring) -> Iterator[Finding]:
    for token in forged_tokens(database, keyring.proofs):
        yield Finding("FAIL", "tokens", f"{token.name!r} {FORGED}; {_REMEDY}")
    for name in revived_tokens(database):
        yield Finding("FAIL", "tokens", f"{name!r} {REVIVED}; {_REMEDY}")
    for name in migrated_tokens(database, keyring.proofs):
        yield Finding("warn", "tokens", f"{name!r} {_MIGRATED}")


def _audit_log(database: Reader, keyring: Keyring, progress: Progress) -> Finding:
    found = verify_chain(database, keyring, progress)
    if isinstance(found, BrokenLink):
        remark = f"entry {found.seq} {found.why}; the entries before it are unchanged: compare the rest with a backup"
        return Finding("FAIL", "audit log", remark)
    return Finding("ok", "audit log", f"{counted(found.seq, 'entry', 'entries')}, every link holds")
