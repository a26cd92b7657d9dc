"""Fills an empty database from another one or from a backup, table by table, and reads it back.

Each table is one transaction. A copy that was killed can be started again: it keeps the first tables that equal the
source's, and copies from the first that differs. Until the copy is complete the target has a mark, and cannot be
opened.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from relaydeck.errors import Damaged, OperatorError
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.audit import BrokenLink, Head, verify
from relaydeck.store.copying.backup import BackupFile
from relaydeck.store.copying.contents import (
    Advance,
    Content,
    DatabaseSource,
    ShowProgress,
    Source,
    Tally,
    copied_tables,
    no_progress,
)
from relaydeck.store.copying.mark import REVOKED, refuse_unfinished, remove_mark, set_mark, unfinished_copy_of
from relaydeck.store.database import Database, Reader
from relaydeck.store.migrate import migrate, schema_version
from relaydeck.store.open_store import open_for_filling, open_reader_at
from relaydeck.store.rows import Table
from relaydeck.store.sealed_columns import check_all
from relaydeck.store.sealing import Keyring


class Compared(NamedTuple):
    table: str
    expected: Content
    found: Content


def restore_into_scratch(
    backup: BackupFile, database: Database, show_progress: ShowProgress, keyring: Keyring | None
) -> list[Compared]:
    """Fill the temporary database, read it back, and migrate it to the newest schema, as a start would."""
    with show_progress("restoring", 2 * backup.count()) as advance:
        load(backup, database, "a drill", advance)
        found = contents_of(database, backup.tables, advance)
    remove_mark(database)
    migrate(database, keyring=keyring)
    return [Compared(name, backup.contents[name], content) for name, content in found.items()]


class Secrets(NamedTuple):
    """The result of a check that needs the master key."""

    opened: int
    damaged: list[Damaged]
    audit: Head | BrokenLink

    def problems(self) -> Iterator[str]:
        yield from (str(damage) for damage in self.damaged)
        if isinstance(self.audit, BrokenLink):
            yield f"the audit log is broken: entry {self.audit.seq} {self.audit.why}"


def check_secrets(reader: Reader, keyring: Keyring) -> Secrets:
    """Open every sealed value, and verify the audit log."""
    with reader.snapshot():
        results = list(check_all(reader, keyring))
        damaged = [each for each in results if each is not None]
        return Secrets(len(results) - len(damaged), damaged, verify(reader.stream, keyring))


@contextmanager
def scratch_database() -> Iterator[Database]:
    """A new file of SQLite, removed at the end: a drill puts no load on a server, and leaves nothing there."""
    with (
        TemporaryDirectory(prefix="relaydeck-drill-") as folder,
        open_for_filling(Path(folder), Path(folder) / "scratch.db") as database,
    ):
        yield database


class Loaded(NamedTuple):
    contents: dict[str, Content]  # the contents that each table of the target must have
    kept: int  # the number of tables that an earlier attempt copied

    @property
    def rows(self) -> int:
        return sum(content.rows for content in self.contents.values())


def fill(source: Source, target: Database, origin: str, advance: Advance) -> Loaded:
    """Copy and read back. Raises OperatorError, with nothing changed, when the target has other contents."""
    loaded = load(source, target, origin, advance)
    found = contents_of(target, source.tables, advance)
    if different := [name for name, content in found.items() if content != loaded.contents[name]]:
        raise OperatorError(
            f"the copy differs from its source in {', '.join(different)}",
            "It stays marked as unfinished and cannot be opened. Run the command again.",
        )
    return loaded


def load(source: Source, target: Database, origin: str, advance: Advance) -> Loaded:
    is_continued = _prepare(source, target, origin)
    kept = _already_copied(source, target, advance) if is_continued else {}
    rest = source.tables[len(kept) :]
    _clear(target, rest)
    return Loaded(kept | {table.name: _copy(source, target, table, advance) for table in rest}, len(kept))


def _prepare(source: Source, target: Database, origin: str) -> bool:
    """Returns whether there was an earlier attempt."""
    found = unfinished_copy_of(target)
    if found is None:
        require_empty(target)
        set_mark(target, origin)
    elif found != origin:
        raise OperatorError(
            f"the target is an unfinished copy of {found}, not of {origin}",
            "Finish that copy, or empty the target. Nothing was changed.",
        )
    migrate(target, to=source.version)
    if sorted(copied_tables(target)) != sorted(source.tables):
        raise OperatorError(
            "the tables of the source are not those of its schema version",
            "Another program changed them. The target stays marked as unfinished.",
        )
    return found is not None


def require_empty(target: Reader) -> None:
    if target.tables():
        raise OperatorError(
            "the target is not empty",
            "Choose a database without tables ('restore': set RELAYDECK_HOME or RELAYDECK_DATABASE_URL;"
            " 'db move': --to URL), or move the existing one away. Nothing was changed.",
        )


def _already_copied(source: Source, target: Database, advance: Advance) -> dict[str, Content]:
    kept: dict[str, Content] = {}
    with target.snapshot():
        copied = DatabaseSource(target)
        for table in source.tables:
            found = copied.content(table, advance)
            if found != source.content(table, no_progress):
                break
            kept[table.name] = found
    return kept


def _clear(target: Database, tables: list[Table]) -> None:
    with target.migration() as execute:
        for table in reversed(tables):
            execute(f"DELETE FROM {table.name}")


def _copy(source: Source, target: Database, table: Table, advance: Advance) -> Content:
    tally, counter = Tally(table, advance), source.counter(table)
    with target.migration():
        target.load(table, tally.over(source.rows(table)))
        if counter:
            target.set_counter(table, counter)
    return tally.content(counter)


def contents_of(target: Reader, tables: list[Table], advance: Advance) -> dict[str, Content]:
    """Reads back the contents of a database."""
    with target.snapshot():
        copied = DatabaseSource(target)
        return {table.name: copied.content(table, advance) for table in tables}


_REVISION = "SELECT revision FROM clock"


def move(where: Path | DatabaseUrl, target: Database, show_progress: ShowProgress) -> Loaded:
    """Copy a snapshot. Raises OperatorError, with the copy unfinished, when the source was written to meanwhile."""
    with closing(open_reader_at(where)) as reader, reader.snapshot():
        source = complete_source(reader)
        moment = _moment(reader)
        with show_progress("moving", 2 * source.count()) as advance:
            loaded = fill(source, target, _origin(where), advance)
    with closing(open_reader_at(where)) as reader:
        if _moment(reader) != moment:
            raise OperatorError(
                "the source was written to while it was copied, so the copy is not finished",
                "Stop the service and run this command again: it copies the tables that changed.",
            )
    remove_mark(target)
    return loaded


def restore(backup: BackupFile, target: Database, show_progress: ShowProgress) -> Loaded:
    """The target keeps its mark: the caller removes it."""
    with show_progress("restoring", 2 * backup.count()) as advance:
        loaded = fill(backup, target, f"the backup {backup.digest.hex()}", advance)
    if loaded.contents != backup.contents:
        raise OperatorError(
            "the backup file was changed while it was restored",
            "The target stays marked as unfinished and cannot be opened. Use another copy of the backup.",
        )
    return loaded


def complete_source(reader: Reader) -> DatabaseSource:
    """A database as a source. Raises OperatorError when it is empty or an unfinished copy."""
    refuse_unfinished(reader)
    if reader.has_table(REVOKED):
        raise OperatorError(
            "this database was restored from a backup that is not authentic, and was not opened since",
            "Run 'relaydeck token list' first: it records in the audit log which tokens the restore revoked.",
        )
    if schema_version(reader) == 0:
        raise OperatorError("the database is empty: there is nothing to copy", "Check RELAYDECK_DATABASE_URL.")
    return DatabaseSource(reader)


def _moment(reader: Reader) -> tuple[int, int]:
    # Every write takes a revision; a migration changes the version instead.
    return reader.read(_REVISION)[0].revision, schema_version(reader)


def _origin(where: Path | DatabaseUrl) -> str:
    return str(where.absolute() if isinstance(where, Path) else where)


@contextmanager
def snapshot_of(where: Path | DatabaseUrl) -> Iterator[Reader]:
    """The database as it is now, regardless of concurrent writes."""
    require_database(where)
    with closing(open_reader_at(where)) as reader, reader.snapshot():
        yield reader


def require_database(where: Path | DatabaseUrl) -> None:
    if isinstance(where, Path) and not where.is_file():
        raise OperatorError(
            f"there is no database {where}", "Choose one with RELAYDECK_HOME or RELAYDECK_DATABASE_URL."
        )
