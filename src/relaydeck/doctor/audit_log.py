"""The verification of the audit log, the tokens and the sealed values, with its progress."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from relaydeck.credentials.token_rows import FORGED, REVIVED, forged_tokens, revived_tokens
from relaydeck.doctor.finding import Progress, no_progress
from relaydeck.settings import Settings
from relaydeck.store.audit import COUNT_SQL, BrokenLink, Head, Opener, verify
from relaydeck.store.database import Reader, Row
from relaydeck.store.engines import open_reader_at
from relaydeck.store.master_key import read_master_key
from relaydeck.store.sealed_columns import check_all
from relaydeck.store.sealing import Keyring
from relaydeck.store.vault import read_keyring as keyring_of

_STEP_ENTRIES = 1000
_MOST_NAMED = 20


class AuditResult(NamedTuple):
    """Either `entries` and `head`, or `problem`, with `broken_at` if it is about an entry."""

    entries: int | None
    head: str | None
    broken_at: int | None
    problem: str | None


def verify_audit(
    database: Reader, opener: Opener, saved: Head | None = None, progress: Progress = no_progress
) -> AuditResult:
    """`saved` is an earlier head, which the log must contain."""
    found = verify_chain(database, opener, progress, saved)
    if isinstance(found, BrokenLink):
        return AuditResult(None, None, found.seq, found.why)
    if problems := [*_forged(database, opener), *_damaged(database, opener)]:
        more = [f"and {len(problems) - _MOST_NAMED} more"] if len(problems) > _MOST_NAMED else []
        return AuditResult(None, None, None, "; ".join(problems[:_MOST_NAMED] + more))
    return AuditResult(found.seq, str(found), None, None)


def _forged(database: Reader, opener: Opener) -> Iterator[str]:
    yield from (f"the token {token.name!r} {FORGED}" for token in forged_tokens(database, opener.proofs))
    yield from (f"the token {name!r} {REVIVED}" for name in revived_tokens(database))


def _damaged(database: Reader, opener: Opener) -> Iterator[str]:
    return (str(damage) for damage in check_all(database, opener) if damage is not None)


def verify_stored_audit(settings: Settings, progress: Progress) -> AuditResult:
    """On a connection of its own: verifying a long log delays no other read."""
    with closing(open_reader_at(settings.database)) as database, database.snapshot():
        return verify_audit(database, read_keyring(database, settings), progress=progress)


def verify_chain(database: Reader, opener: Opener, progress: Progress, saved: Head | None = None) -> Head | BrokenLink:
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


def read_keyring(database: Reader, settings: Settings) -> Keyring:
    """Raises OperatorError."""
    return keyring_of(database, read_master_key(settings.master_key_path))
