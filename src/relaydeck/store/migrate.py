"""Brings the schema up to date at the start, under a lock, and estimates beforehand what that takes.

Refuses a database that is newer than the program, and one that was built by other steps than the program has: each
applied step is stored with a checksum of its statements.

All missing steps are one transaction, except on a server whose services may go on serving. There each statement is
applied by itself, so that no write waits for long. Each can be repeated, and a step is recorded after its last one: an
interrupted migration continues with the step that it was interrupted in.

A new column is a file in `migrations/` and a field of the record in the `model` of its package.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from relaydeck.errors import OperatorError, StoreConflict, StoreMisuse
from relaydeck.store.database import Advance, Database, Execute, Reader, ShowProgress, without_progress
from relaydeck.store.rows import slices
from relaydeck.store.sealed_columns import FIRST_COLUMNS, URLS_SINCE, VERSIONS_SINCE, add_versions, seal_webhook_urls
from relaydeck.store.sealing import PROOFS_SINCE, Keyring, prove_stored_rows
from relaydeck.timestamps import utc

_CHECKSUMS_SINCE = 6  # the step that adds the column
_PARTS = re.compile(r"""(?P<space>(?:\s+|--[^\n]*)+)|(?P<end>;)|'[^']*'|"[^"]*"|.""")
_PLACEHOLDER = re.compile(r"\$(serial|bytes)\b")
# The statements that can be applied beside services. A test keeps the steps since URLS_SINCE to them.
INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX (?P<name>\w+) ON (?P<table>\w+)")
ADDITION = re.compile(r"(?:CREATE TABLE|ALTER TABLE (?P<table>\w+) ADD COLUMN) ")
UPDATE = re.compile(r"UPDATE (?P<table>\w+) SET (?P<change>.+?) WHERE (?P<condition>.+)")
_BATCH_ROWS = 2_000  # changed in one transaction, for which writes wait
_LOCK_SECONDS = 0.5  # of a wait for a table: whoever needs the table then waits as well
_LOCK_TRIES = 2_000
_LONGEST_LOCK_WAIT = 3600.0  # of a batch of rows
_SAMPLE_ROWS = 10_000  # of each table, for an estimate
# How much longer than on the sample, where nothing is logged: an index is built in two passes, and an update pauses
# after each batch.
_FACTORS = (2, 4)
_UNTIL_END = "writes wait until the migration ends"
_LOCKS = {  # of a server: by statement, and whether services go on
    INDEX: ("SHARE until the migration ends", "SHARE UPDATE EXCLUSIVE, for which no write waits"),
    UPDATE: ("ROW EXCLUSIVE until the migration ends", f"{_BATCH_ROWS} rows at a time, with the lock of writes"),
    ADDITION: ("ACCESS EXCLUSIVE until the migration ends", "ACCESS EXCLUSIVE for a moment"),
}

# What the program does after the statements of a step: to which columns of which tables, and how.
_RowWork = Callable[[Execute, Any, Advance], Any]
_ROW_WORK: dict[int, tuple[_RowWork, tuple[tuple[str, str], ...]]] = {
    PROOFS_SINCE: (lambda execute, keyring, _: prove_stored_rows(execute, keyring.proofs), (("tokens", "seq"),)),
    VERSIONS_SINCE: (add_versions, tuple((each.table, each.column) for each in FIRST_COLUMNS)),
    URLS_SINCE: (lambda execute, keyring, _: seal_webhook_urls(execute, keyring.seal), (("notifications", "url"),)),
}


class Step(NamedTuple):
    """One migration. Its statements must never change once it is released; its comments may."""

    version: int
    script: str

    @property
    def checksum(self) -> str:
        # Of the script as it is written, so that a step has the same checksum on every engine.
        return hashlib.sha256("\n".join(statements(self.script)).encode()).hexdigest()

    def statements(self, types: Mapping[str, str]) -> tuple[str, ...]:
        """Its statements, with the engine's types in place of the placeholders."""
        return statements(_PLACEHOLDER.sub(lambda match: types[match[1]], self.script))


@cache
def statements(script: str) -> tuple[str, ...]:
    """Without comments and with single spaces, so that they change only when a statement does.

    A statement with a body, such as that of a trigger, would be split at its semicolons: no step has one.
    """
    parts = (" " if part["space"] else "\0" if part["end"] else part[0] for part in _PARTS.finditer(script))
    return tuple(filter(None, map(str.strip, "".join(parts).split("\0"))))


@cache
def steps() -> tuple[Step, ...]:
    """Every migration, oldest first."""
    folder = files("relaydeck.store").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(Step(int(name[:4]), folder.joinpath(name).read_text("utf-8")) for name in names)


def newest_version() -> int:
    return steps()[-1].version


def schema_version(database: Reader) -> int:
    """The version a database is at; 0 when it is empty."""
    if not database.has_table("schema_versions"):
        return 0
    version: int = database.read("SELECT max(version) AS newest FROM schema_versions")[0].newest
    return version


def migrate(
    database: Database,
    *,
    to: int | None = None,
    keyring: Keyring | None = None,
    progress: ShowProgress = without_progress,
) -> int:
    """Apply the missing steps, and return the version the database was at before.

    With `to`, no further than that version: for a copy of a database of that version. `keyring` proves and seals again
    the rows that earlier versions wrote; a database without data keys has none. Raises OperatorError.
    """
    if (found := schema_version(database)) == newest_version() and not _check(database, found):
        return found
    if to is None and runs_beside_services(database, found):
        with database.opening():
            return _migrate_beside_services(database, progress)
    with database.migration() as execute:
        found = _checked_version(database)  # again, now that no other process can migrate
        progress = progress if found else without_progress  # a new database is made in a moment
        if keyring is not None and found < URLS_SINCE and database.is_served():
            _refuse_beside_old_services(found)
        for step in _missing(found, to):
            with progress(f"migration step {step.version}", 0):
                for statement in step.statements(database.schema_types):
                    execute(statement)
                _record(execute, step)
        reached = max(found, to or newest_version())
        if reached >= _CHECKSUMS_SINCE:
            _record_checksums(execute)
        if keyring is not None:
            _upgrade_rows(execute, keyring, found, reached, progress)
    if keyring is not None and not database.remote:
        database.write_signal.erasing = True
    return found


def _missing(found: int, to: int | None = None) -> list[Step]:
    return [step for step in steps() if found < step.version <= (to or step.version)]


def _checked_version(database: Database) -> int:
    found = schema_version(database)
    refuse_newer(found)
    _check(database, found)
    return found


def _upgrade_rows(execute: Execute, keyring: Keyring, found: int, reached: int, progress: ShowProgress) -> None:
    for version, (work, columns) in _ROW_WORK.items():
        if found < version <= reached:
            with progress(f"migration step {version}: stored values", _values(execute, columns)) as advance:
                work(execute, keyring, advance)


def _values(execute: Execute, columns: Iterable[tuple[str, str]], condition: str = "TRUE") -> int:
    """How many values the columns have."""
    counts = [f"SELECT count({column}) FROM {table} WHERE {condition}" for table, column in columns]
    return sum(execute(sql).fetchall()[0][0] for sql in counts)


def runs_beside_services(database: Database, found: int) -> bool:
    """Whether services of the version that migrated the database last may read and write during the migration."""
    return database.remote and found >= URLS_SINCE


def _migrate_beside_services(database: Database, progress: ShowProgress) -> int:
    found = _checked_version(database)
    for step in _missing(found):
        for statement in step.statements(database.schema_types):
            with progress(f"migration step {step.version}: {_summary(statement)}", 0):
                _apply_beside_services(database, statement, progress)
        with database.migration() as execute:
            _record(execute, step)
    with database.migration() as execute:
        _record_checksums(execute)
    return found


def _summary(statement: str) -> str:
    """`CREATE INDEX name`, `ALTER TABLE name`, `UPDATE name`."""
    return statement.partition(" SET ")[0] if UPDATE.match(statement) else " ".join(statement.split()[:3])


def _apply_beside_services(database: Database, statement: str, progress: ShowProgress) -> None:
    if index := INDEX.match(statement):
        database.build_index(index["name"], statement)
    elif update := UPDATE.match(statement):
        _update_in_batches(database, update, progress)
    else:
        _change_table(database, ADDITION.sub(lambda found: f"{found[0]}IF NOT EXISTS ", statement, count=1))


def _update_in_batches(database: Database, update: re.Match[str], progress: ShowProgress) -> None:
    table, after = update["table"], 0
    found = f"SELECT seq FROM {table} WHERE seq > :after AND ({update['condition']}) ORDER BY seq"
    while database.read(f"SELECT 1 AS one FROM {table} WHERE seq > :after LIMIT 1", {"after": after}):
        with database.migration() as execute:
            rows = [row[0] for row in execute(found, {"after": after}).fetchall()]
        if not rows:
            return
        with progress(f"updating {table}", len(rows)) as advance:
            for _, some in slices(rows, _BATCH_ROWS):
                began = time.monotonic()
                with database.migration(lock_seconds=_LONGEST_LOCK_WAIT) as execute:
                    # With the lock that every write takes first, neither can wait for the other in a circle.
                    execute("SELECT revision FROM clock FOR UPDATE")
                    execute(f"UPDATE {table} SET {update['change']} WHERE seq = ANY(:rows)", {"rows": list(some)})
                advance(len(some))
                time.sleep(min(time.monotonic() - began, _LOCK_SECONDS))  # those who waited come next
        after = rows[-1]  # others may have added rows since


def _change_table(database: Database, statement: str) -> None:
    """It needs the table alone, for a moment. While it waits for a long read, others wait behind it: it tries again."""
    for tries in range(_LOCK_TRIES):
        try:
            with database.migration(lock_seconds=_LOCK_SECONDS) as execute:
                execute(statement)
                return
        except StoreConflict:
            if tries == _LOCK_TRIES - 1:
                raise
        time.sleep(_LOCK_SECONDS)


class Planned(NamedTuple):
    """A part of a step."""

    step: int
    work: str
    rows: int  # that are read or written
    seconds: float  # an estimate
    lock: str


def plan(database: Database, keyring: Keyring | None) -> list[Planned]:
    """What `migrate` would do. It is tried on a sample of the rows, in temporary copies of the tables.

    Raises OperatorError.
    """
    found = _checked_version(database)
    work = [(step.version, each) for step in _missing(found) for each in step.statements(database.schema_types)]
    counts = [_count_rows(database, statement) for _, statement in work]
    row_work = [(step, *each) for step, each in _ROW_WORK.items() if step > found]
    values = [_count(database, columns) for _, _, columns in row_work]
    planned, beside = [], runs_beside_services(database, found)
    with database.trial(_SAMPLE_ROWS) as execute:
        for (step, statement), (rows, seconds) in zip(work, counts, strict=True):
            seconds += _try_statement(execute, statement, rows, beside)
            lock = next((each[beside] for kind, each in _LOCKS.items() if kind.match(statement)), "none")
            planned.append(Planned(step, _summary(statement), rows, seconds, lock if database.remote else _UNTIL_END))
        for (step, change, columns), rows in zip(row_work if keyring else (), values, strict=False):
            scale, began = rows / max(1, _values(execute, columns)), time.monotonic()
            change(execute, keyring, lambda _: None)
            seconds = (time.monotonic() - began) * scale
            planned.append(Planned(step, "seal or prove stored values", rows, seconds, _UNTIL_END))
    return planned


def _count_rows(database: Database, statement: str) -> tuple[int, float]:
    """How many rows a statement reads or writes, and how long it takes to find those that it updates."""
    began = time.monotonic()
    if index := INDEX.match(statement):
        return _count(database, [(index["table"], "*")]), 0
    if update := UPDATE.match(statement):
        try:
            return _count(database, [(update["table"], "*")], update["condition"]), time.monotonic() - began
        except StoreMisuse:  # the condition is about a column that the migration adds
            return _count(database, [(update["table"], "*")]), time.monotonic() - began
    return 0, 0


def _count(database: Database, columns: Iterable[tuple[str, str]], condition: str = "TRUE") -> int:
    """Of the columns that exist before the migration."""
    before = {(table.name, name) for table in database.tables() for name in ("*", *table.column_names)}
    existing = [each for each in columns if each in before]
    if database.remote:  # where a read has a time limit
        with database.migration() as execute:
            return _values(execute, existing, condition)
    counts = [f"SELECT count({column}) AS total FROM {table} WHERE {condition}" for table, column in existing]
    return sum(database.read(sql)[0].total for sql in counts)


def _try_statement(execute: Execute, statement: str, rows: int, beside: bool) -> float:
    update = UPDATE.match(statement)
    matched = update or INDEX.match(statement)
    sampled = _values(execute, [(matched["table"], "*")]) if matched else 0
    began = time.monotonic()
    execute(f"UPDATE {update['table']} SET {update['change']}" if update else statement)
    scale = rows / sampled * (_FACTORS[bool(update)] if beside else 1) if sampled else 1
    return (time.monotonic() - began) * scale


def _refuse_beside_old_services(found: int) -> None:
    """The migration seals URLs of webhooks. A service of an earlier version would send events to what is left of them,
    and count these events as delivered."""
    raise OperatorError(
        f"an older Relaydeck serves this database (schema version {found}); after the migration it would send events"
        " to wrong addresses",
        "Stop every service of the older version, then start this one. Nothing has been changed.",
    )


def refuse_newer(found: int) -> None:
    if found > newest_version():
        raise OperatorError(
            f"the database has schema version {found}, this program knows {newest_version()}",
            "Run the newer Relaydeck that wrote it, or restore a backup made before the upgrade.",
        )


def _check(database: Reader, found: int) -> list[int]:
    """The applied steps without a checksum yet. Raises OperatorError when another step was applied than ours."""
    if found < _CHECKSUMS_SINCE:
        return []
    ours = {step.version: step.checksum for step in steps()}
    applied = database.read("SELECT version, checksum FROM schema_versions ORDER BY version")
    for row in applied:
        if row.checksum is not None and row.checksum != ours[row.version]:
            raise OperatorError(
                f"migration step {row.version} of this program differs from the one that built the database",
                "Install an unmodified Relaydeck of the version that the database was last used with.",
            )
    return [row.version for row in applied if row.checksum is None]


def _record(execute: Execute, step: Step) -> None:
    execute("CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)")
    execute(
        "INSERT INTO schema_versions (version, applied_at) VALUES (:version, :moment)",
        {"version": step.version, "moment": utc(time.time())},
    )


def _record_checksums(execute: Execute) -> None:
    """Of the steps just applied, and of those applied before checksums were stored."""
    for step in steps():
        execute(
            "UPDATE schema_versions SET checksum = :checksum WHERE version = :version AND checksum IS NULL",
            {"version": step.version, "checksum": step.checksum},
        )
