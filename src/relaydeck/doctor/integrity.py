"""Verifies that nobody changed the database behind the service: its audit log, tokens and sealed values."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

from relaydeck.credentials.tokens import FORGED, doubted_tokens, forged_tokens, migrated_tokens
from relaydeck.doctor import AuditVerification, Finding
from relaydeck.quantities import counted
from relaydeck.settings.model import Settings
from relaydeck.store.audit import COUNT_SQL, BrokenLink, Head, Opener, read_archive, verify
from relaydeck.store.database import Reader, Row, ShowProgress, without_progress
from relaydeck.store.open_store import open_reader_at
from relaydeck.store.sealed_columns import check_all, urls_in_clear
from relaydeck.store.sealing import Keyring
from relaydeck.store.vault import read_keyring
from relaydeck.timestamps import utc

_MIGRATED = "was proven first by an upgrade, which trusts what it finds; replace it if that may be wrong"
_REMEDY = "revoke it and find out who changed the database"
_STEP_ENTRIES = 1000
_MOST_NAMED = 20


def sealed_value_findings(database: Reader, keyring: Keyring) -> Iterator[Finding]:
    checked = damaged = 0
    for damage in check_all(database, keyring):
        checked += 1
        if damage is not None:
            damaged += 1
            yield Finding("FAIL", "sealed values", f"{damage}; restore the record, or set it again")
    if not damaged:
        yield Finding("ok", "sealed values", f"all {checked} open")
    for record in urls_in_clear(database):
        problem = f"the URL of notification {record} is not sealed; run: relaydeck key rotate"
        yield Finding("warn", "sealed values", problem)


def proof_findings(database: Reader, keyring: Keyring, progress: ShowProgress) -> Iterator[Finding]:
    for problem in _forged(database, keyring):
        yield Finding("FAIL", "tokens", f"{problem}; {_REMEDY}")
    for name in migrated_tokens(database, keyring.proofs):
        yield Finding("warn", "tokens", f"{name!r} {_MIGRATED}")
    yield _audit_log(database, keyring, progress)


def _audit_log(database: Reader, keyring: Keyring, progress: ShowProgress) -> Finding:
    found = verify_chain(database, keyring, progress)
    if isinstance(found, BrokenLink):
        remark = f"entry {found.seq} {found.why}; the entries before it are unchanged: compare the rest with a backup"
        return Finding("FAIL", "audit log", remark)
    archive = read_archive(database.stream, keyring)
    also = f"; {archive.seq} more archived until {utc(archive.moment)}" if archive.seq else ""
    remark = f"{counted(found.seq - archive.seq, 'entry', 'entries')}, every link holds{also}"
    return Finding("ok", "audit log", remark)


def verify_audit(
    database: Reader, opener: Opener, saved: Head | None = None, progress: ShowProgress = without_progress
) -> AuditVerification:
    """`saved` is an earlier head, which the log must contain."""
    found = verify_chain(database, opener, progress, saved)
    if isinstance(found, BrokenLink):
        return AuditVerification(None, None, found.seq, found.why, 0, None)
    forged = [f"the token {problem}" for problem in _forged(database, opener)]
    if problems := [*forged, *(str(damage) for damage in check_all(database, opener) if damage is not None)]:
        more = [f"and {len(problems) - _MOST_NAMED} more"] if len(problems) > _MOST_NAMED else []
        return AuditVerification(None, None, None, "; ".join(problems[:_MOST_NAMED] + more), 0, None)
    archive = read_archive(database.stream, opener)
    until = utc(archive.moment) if archive.seq else None
    return AuditVerification(found.seq - archive.seq, str(found), None, None, archive.seq, until)


def _forged(database: Reader, opener: Opener) -> Iterator[str]:
    yield from (f"{token.name!r} {FORGED}" for token in forged_tokens(database, opener.proofs))
    yield from (f"{name!r} {problem}" for name, problem in doubted_tokens(database))


def verify_stored_audit(settings: Settings, progress: ShowProgress) -> AuditVerification:
    """On a connection of its own: verifying a long log delays no other read."""
    with closing(open_reader_at(settings.database)) as database, database.snapshot():
        return verify_audit(database, read_keyring(database, settings.master_key_path), progress=progress)


def verify_chain(
    database: Reader, opener: Opener, progress: ShowProgress, saved: Head | None = None
) -> Head | BrokenLink:
    (row,) = database.stream(COUNT_SQL)
    total: int = row.total
    with progress(f"checking {total:,} audit entries", total) as advance:
        found = verify(lambda sql: _counting(database.stream(sql), advance), opener, saved)
    return found if isinstance(found, BrokenLink) else _counted(database, found)


def _counted(database: Reader, found: Head) -> Head | BrokenLink:
    """SQLite also counts the entries it has stored, which an old copy of log and signed head does not change."""
    (table,) = (each for each in database.tables() if each.name == "audit")
    if database.counter(table) <= found.seq:
        return found
    return BrokenLink(found.seq + 1, f"is missing: the database has numbered {database.counter(table)} entries")


def _counting(rows: Iterable[Row], advance: Callable[[int], None]) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        if number % _STEP_ENTRIES == 0:
            advance(_STEP_ENTRIES)
        yield row
