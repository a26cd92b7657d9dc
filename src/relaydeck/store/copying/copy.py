"""Fills an empty database from a source, table by table, and reads it back.

Each table is one transaction. Killed anywhere and begun again, it keeps the tables that are the same as the
source's and copies from the first that is not. Until `finish` the target is marked, and nobody opens it.
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
    rows_of,
)
from relaydeck.store.copying.mark import marked, set_mark
from relaydeck.store.database import Database, Reader
from relaydeck.store.migrate import migrate, refuse_newer, schema_version


class Source(Protocol):
    """A database at one moment, or a backup of one."""

    version: int
    tables: list[Table]

    def rows(self, table: Table) -> Iterator[Values]: ...

    def counter(self, table: Table) -> int: ...

    def content(self, table: Table, advance: Advance) -> Content:
        """Known beforehand, or found by reading the table."""


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
    contents: dict[str, Content]  # what each table of the target must hold
    kept: int  # tables that an earlier attempt had copied already

    @property
    def rows(self) -> int:
        return sum(content.rows for content in self.contents.values())


def fill(source: Source, target: Database, origin: str, advance: Advance) -> Loaded:
    """Copy and read back. Raises OperatorError, having changed nothing, when the target is neither empty nor ours."""
    loaded = load(source, target, origin, advance)
    found = contents_of(target, source.tables, advance)
    if different := [name for name, content in found.items() if content != loaded.contents[name]]:
        raise OperatorError(
            f"the copy differs from its source in {', '.join(different)}",
            "It stays marked as unfinished, and nobody opens it. Run the command again.",
        )
    return loaded


def load(source: Source, target: Database, origin: str, advance: Advance) -> Loaded:
    begun_before = _prepare(source, target, origin)
    kept = _same_from_the_start(source, target, advance) if begun_before else {}
    rest = source.tables[len(kept) :]
    _clear(target, rest)
    return Loaded(kept | {table.name: _copy(source, target, table, advance) for table in rest}, len(kept))


def _prepare(source: Source, target: Database, origin: str) -> bool:
    """Whether an earlier attempt had begun."""
    found = marked(target)
    if found is None:
        require_empty(target)
        set_mark(target, origin)
    elif found != origin:
        raise OperatorError(
            f"the target is an unfinished copy of {found}, not of {origin}",
            "Finish that one, or empty the target. Nothing was changed.",
        )
    migrate(target, to=source.version)
    if sorted(copied_tables(target)) != sorted(source.tables):
        raise OperatorError(
            "the source does not have the tables that its schema version has",
            "It was changed by another program. The target stays marked as unfinished.",
        )
    return found is not None


def require_empty(target: Reader) -> None:
    if target.tables():
        raise OperatorError(
            "the target is not empty",
            "Name a database without any tables, or move the one that is there out of the way. Nothing was changed.",
        )


def _same_from_the_start(source: Source, target: Database, advance: Advance) -> dict[str, Content]:
    kept: dict[str, Content] = {}
    with target.snapshot():
        for table in source.tables:
            found = content_of(target, table, advance)
            if found != source.content(table, _silent):
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
    """Read back what a database holds now."""
    with target.snapshot():
        return {table.name: content_of(target, table, advance) for table in tables}


def _silent(rows: int) -> None: ...
