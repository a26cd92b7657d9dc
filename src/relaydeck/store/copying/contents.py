"""The contents of a database, table by table: rows in an order and a form that are the same on every engine.

Two databases with the same rows have the same digest, also on different engines. Every table of the schema is
included except those listed here with a reason.
"""

import hashlib
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from typing import Any, NamedTuple, Protocol

import msgspec

from relaydeck.store.copying.mark import MARK, REVOKED
from relaydeck.store.database import Advance as Advance
from relaydeck.store.database import Reader
from relaydeck.store.database import ShowProgress as ShowProgress
from relaydeck.store.migrate import refuse_newer, schema_version
from relaydeck.store.rows import Table

LEFT_OUT = {
    "leases": "their holders are processes of the source, not of the copy",
    "schema_versions": "the migrations of the copy write it",
    MARK: "it marks an unfinished copy and is not part of the contents",
    REVOKED: "no copy is made of a database that has it",
}
ROWS_AT_ONCE = 500  # rows per step of a progress bar

Values = tuple[Any, ...]  # of a row, in the order of its table's columns
_encode = msgspec.msgpack.Encoder().encode


class Content(NamedTuple):
    """The contents of a table: the number of its rows, their digest, and the greatest number it has assigned."""

    rows: int
    digest: bytes
    counter: int


class Tally:
    """Counts and hashes the rows that pass through it."""

    def __init__(self, table: Table, advance: Advance) -> None:
        self._digest = hashlib.sha256(_encode((table.name, table.columns)))
        self._advance = advance
        self._rows = 0

    def over(self, rows: Iterable[Values]) -> Iterator[Values]:
        for row in rows:
            self._digest.update(_encode(row))
            self._rows += 1
            if self._rows % ROWS_AT_ONCE == 0:
                self._advance(ROWS_AT_ONCE)
            yield row
        self._advance(self._rows % ROWS_AT_ONCE)

    def content(self, counter: int) -> Content:
        return Content(self._rows, self._digest.digest(), counter)


def copied_tables(reader: Reader) -> list[Table]:
    """Every table of a copy, each after the tables that it refers to."""
    by_name = {table.name: table for table in reader.tables() if table.name not in LEFT_OUT}
    references = {name: [each for each in table.references if each != name] for name, table in by_name.items()}
    return [by_name[name] for name in TopologicalSorter(references).static_order()]


class Source(Protocol):
    """A snapshot of a database, or a backup."""

    version: int
    tables: list[Table]

    def rows(self, table: Table) -> Iterator[Values]: ...

    def counter(self, table: Table) -> int: ...

    def content(self, table: Table, advance: Advance) -> Content:
        """From the backup's footer, or from reading the table."""


class DatabaseSource:
    """A database inside a snapshot. Raises OperatorError when it is newer than this program."""

    def __init__(self, reader: Reader) -> None:
        self.version = schema_version(reader)
        refuse_newer(self.version)
        self.tables = copied_tables(reader)
        self._reader = reader

    def count(self) -> int:
        counts = [f"SELECT count(*) AS total FROM {table.name}" for table in self.tables]
        return sum(self._reader.read(sql)[0].total for sql in counts)

    def rows(self, table: Table) -> Iterator[Values]:
        """Columns of booleans have booleans, although SQLite stores integers."""
        flags = [at for at, column in enumerate(table.columns) if column.kind == "boolean"]
        rows = self._reader.stream(table.in_order)
        return (_with_flags(row, flags) for row in rows) if flags else rows

    def counter(self, table: Table) -> int:
        """The greatest number assigned. PostgreSQL does not count numbers that were inserted: the rows are read too."""
        if not table.serial:
            return 0
        greatest = self._reader.read(f"SELECT max({table.serial}) AS greatest FROM {table.name}")[0].greatest or 0
        return max(greatest, self._reader.counter(table))

    def content(self, table: Table, advance: Advance) -> Content:
        tally = Tally(table, advance)
        for _ in tally.over(self.rows(table)):
            pass
        return tally.content(self.counter(table))


def _with_flags(row: Values, flags: list[int]) -> Values:
    values = list(row)
    for at in flags:
        values[at] = None if values[at] is None else bool(values[at])
    return tuple(values)


def no_progress(_rows: int) -> None:
    """An `Advance` that shows nothing."""
