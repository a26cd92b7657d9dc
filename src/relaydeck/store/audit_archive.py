"""Moves old entries of the audit log to a file that can be verified.

The file is complete and on disk before the first entry leaves the database. The entries leave it in steps, each one a
transaction, so that other writes do not wait for long: when a process is killed, nothing is lost, and the next archive
continues where the steps ended. Each step seals what proves the rest (`Archive`), and records it with both ends of the
file, so that a file without its first or last entries is not mistaken for a whole one.

Some archived entries stay in the database too, because checks need them: the newest of all, which running processes
remember, the newest of each action on each record, the newest two about each sealed value, which show that an older
value was put back, and those about archives.
"""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from relaydeck.errors import OperatorError
from relaydeck.store import audit
from relaydeck.store.audit import ARCHIVED, Archive, ArchiveRecord, AuditEntry, AuditLog, BrokenLink, Entry, Head
from relaydeck.store.database import Reader
from relaydeck.store.files import private_file
from relaydeck.store.open_store import Store
from relaydeck.store.sealed_columns import SEALED_COLUMNS, changes_of

_FORMAT = "relaydeck audit archive 1"
_STEP_ENTRIES = 5_000
_STAYING = " UNION ".join(
    [
        "SELECT max(seq) AS seq FROM audit",
        f"SELECT seq FROM audit WHERE action = '{ARCHIVED}'",
        "SELECT max(seq) FROM audit WHERE action NOT LIKE 'session.%' GROUP BY action, record",
        *(f"SELECT seq FROM ({changes_of(each)}) c WHERE place <= 2" for each in SEALED_COLUMNS if each.audited),
    ]
)
_STORE = (
    "INSERT INTO audit_keys (name, sealed_key) VALUES ('archive', :sealed)"
    " ON CONFLICT (name) DO UPDATE SET sealed_key = excluded.sealed_key"
)


class Archived(NamedTuple):
    entries: int
    stayed: int  # of them, in the database too
    head: Head  # of the last of them


class _Header(msgspec.Struct, frozen=True):
    format: str
    after: str  # the head before the first entry


def archive(store: Store, before: int, path: Path, *, actor: str, now: int) -> Archived:
    """Move the entries of an earlier time, from a log that holds. If there are none, no file. Raises OperatorError."""
    database = store.database
    with database.snapshot():
        known = audit.read_archive(database.stream, store.vault)
        cut = _cut(database, before)
        if cut <= known.seq:
            return Archived(0, 0, known.head)
        staying = {row.seq for row in database.stream(f"SELECT seq FROM ({_STAYING}) s WHERE seq <= {cut}")}
        sql = f"SELECT {audit.COLUMNS} FROM audit WHERE seq > {known.seq} AND seq <= {cut} ORDER BY seq"
        end = _write(path, known.head, database.stream(sql))
    entry = AuditEntry(now, actor, ARCHIVED, str(end))
    for first, last in pairwise([*range(known.seq, cut, _STEP_ENTRIES), cut]):
        _remove(store, ArchiveRecord(str(known.head), last), first, staying, entry)
    return _archived(database, known.head, end)


def _cut(database: Reader, before: int) -> int:
    """The last entry to archive: all up to it are older."""
    young = "SELECT min(seq) - 1 AS last FROM audit WHERE moment >= :before"
    newest = "SELECT coalesce(max(seq), 0) AS last FROM audit"
    last: int | None = database.read(young, {"before": before})[0].last
    return database.read(newest)[0].last if last is None else last


def _archived(database: Reader, begin: Head, end: Head) -> Archived:
    sql = "SELECT count(*) AS stayed FROM audit WHERE seq > :begin AND seq <= :end"
    return Archived(end.seq - begin.seq, database.read(sql, {"begin": begin.seq, "end": end.seq})[0].stayed, end)


def _write(path: Path, after: Head, entries: Iterable[tuple[object, ...]]) -> Head:
    encode, end = msgspec.json.Encoder().encode, after
    try:
        with private_file(path) as file:
            file.write(encode(_Header(_FORMAT, str(after))) + b"\n")
            for entry in map(Entry._make, entries):
                file.write(encode(entry) + b"\n")
                end = Head(entry.seq, entry.hash)
    except FileExistsError:
        raise OperatorError(f"{path} exists", "Name another file. Nothing was changed.") from None
    except OSError as error:
        remedy = "Name a file in a folder that exists, has room and lets you write. Nothing was changed."
        raise OperatorError(f"{path} cannot be written: {error.strerror}", remedy) from None
    return end


def _remove(store: Store, record: ArchiveRecord, first: int, staying: set[int], entry: AuditEntry) -> None:
    """One step: the entries after `first`, up to the last of the record."""
    last = record.last
    with store.database.transaction() as transaction:
        log = AuditLog(store.vault.refreshed(transaction))
        known, key = audit.read_archive(transaction.all, log.vault), audit.chain_key(transaction.all, log.vault)
        if known.seq != first or key is None:
            raise OperatorError("another process archives entries of this log", "Run the command again later.")
        sql = f"SELECT {audit.COLUMNS} FROM audit WHERE seq > :first AND seq <= :last ORDER BY seq"
        entries = [Entry._make(row) for row in transaction.all(sql, {"first": first, "last": last})]
        kept = [each for each in entries if each.seq in staying]
        stayed = audit.stayed(key, kept, known.stayed)
        now_known = Archive(last, entries[-1].hash, entries[-1].moment, stayed)
        numbers = ", ".join(str(each.seq) for each in kept) or "0"
        transaction.execute(
            f"DELETE FROM audit WHERE seq > :first AND seq <= :last AND seq NOT IN ({numbers})",
            {"first": first, "last": last},
        )
        sealed = log.vault.seal(msgspec.json.encode(now_known), audit.ARCHIVE_PLACE, transaction)
        transaction.execute(_STORE, {"sealed": sealed})
        record = replace(record, stayed=stayed.hex())
        log.append(transaction, [replace(entry, after=msgspec.json.encode(record).decode())])


def verify_file(path: Path, store: Store, saved: Head | None) -> Archived | BrokenLink:
    """Check every link in an archive, and that the log records both its ends. Raises OperatorError."""
    read = _read(path, audit.chain_key(store.database.read, store.vault), saved)
    if isinstance(read, BrokenLink):
        return read
    begin, end = read
    sql = "SELECT after_change FROM audit WHERE action = :action AND record = :end"
    with store.database.snapshot():
        if isinstance(audit.verify(store.database.stream, store.vault), BrokenLink):
            raise OperatorError(
                "the links in the file hold, but not the audit log, which records where the file begins and ends",
                "Run 'relaydeck audit verify'.",
            )
        records = store.database.read(sql, {"action": ARCHIVED, "end": str(end)})
    if not records:
        return BrokenLink(end.seq + 1, "may be missing: no archive of this log ends before it")
    if str(begin) not in [audit.read_record(each).after for each in records]:
        return BrokenLink(begin.seq + 1, "begins no archive of this log: entries before it may be missing")
    if saved is not None and not begin.seq < saved.seq <= end.seq:
        raise OperatorError(f"entry {saved.seq} is not in {path}", "Name the file or the log that contains it.")
    return _archived(store.database, begin, end)


def _read(path: Path, key: bytes | None, saved: Head | None) -> tuple[Head, Head] | BrokenLink:
    """The heads before the first entry and of the last, if each entry follows the one before it."""
    try:
        with path.open("rb") as file:
            header = msgspec.json.decode(file.readline(), type=_Header)
            begin = audit.read_head(header.after) if header.format == _FORMAT else None
            if begin is None:
                raise OperatorError(f"{path} is not an archive of the audit log of this version")
            reached = begin
            for line in file:
                entry = msgspec.json.decode(line, type=Entry)
                if broken := audit.broken_link(entry, reached, key):
                    return broken
                reached = Head(entry.seq, entry.hash)
                if saved is not None and saved.seq == reached.seq and saved != reached:
                    return BrokenLink(saved.seq, "differs from the entry that the given head was taken from")
    except msgspec.DecodeError:
        raise OperatorError(f"{path} is damaged, or not an archive of the audit log") from None
    except OSError as error:
        raise OperatorError(
            f"{path} cannot be read: {error.strerror}", "Name a file that 'relaydeck audit archive' wrote."
        ) from None
    return begin, reached
