"""Fills an empty database from a source, table by table, and reads it back.

Each table is one transaction. A copy that was killed can be started again: it keeps the first tables that equal the
source's, and copies from the first that differs. Until the copy is complete the target has a mark, and cannot be
opened.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from relaydeck.errors import OperatorError
from relaydeck.store.catalogue import Table
from relaydeck.store.copying.contents import (
    Advance,
    Content,
    Tally,
    Values,
    content_of,
    copied_tables,
    count_of,
    counter_of,
    no_progress,
    rows_of,
)
from relaydeck.store.copying.mark import set_mark, unfinished_copy_of
from relaydeck.store.database import Database, Reader
from relaydeck.store.migrate import migrate, refuse_newer, schema_version


class Source(Protocol):
    """A snapshot of a database, or a backup."""

    version: int
    tables: list[Table]

    def rows(self, table: Table) -> Iterator[Values]: ...

    def counter(self, table: Table) -> int: ...

    def content(self, table: Table, advance: Advance) -> Content:
        """From the backup's footer, or from reading the table."""


class DatabaseSource:
    """A database inside a snapshot."""

    def __init__(self, reader: Reader) -> None:
        self.version = schema_version(reader)
        refuse_newer(self.version)
        self.tables = copied_tables(reader)
        self._reader = reader

    def count(self) -> int:
        return sum(count_of(self._reader, table) for table in self.tables)

    def rows(self, table: Table) -> Iterator[Values]:
        return rows_of(self._reader, table)

    def counter(self, table: Table) -> int:
        return counter_of(self._reader, table)

    def content(self, table: Table, advance: Advance) -> Content:
        return content_of(self._reader, table, advance)


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
            "Choose a database without tables, or move the existing one away. Nothing was changed.",
        )


def _already_copied(source: Source, target: Database, advance: Advance) -> dict[str, Content]:
    kept: dict[str, Content] = {}
    with target.snapshot():
        for table in source.tables:
            found = content_of(target, table, advance)
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
        return {table.name: content_of(target, table, advance) for table in tables}
