"""The contents of a database, table by table: rows in an order and a form that are the same on every engine.

Two databases with the same rows have the same digest, also on different engines. Every table of the schema is
included except those listed here with a reason.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

import msgspec

from relaydeck.store.catalogue import Table
from relaydeck.store.copying.mark import MARK, REVOKED
from relaydeck.store.database import Reader

LEFT_OUT = {
    "leases": "their holders are processes of the source, not of the copy",
    "schema_versions": "the migrations of the copy write it",
    MARK: "it marks an unfinished copy and is not part of the contents",
    REVOKED: "no copy is made of a database that has it",
}
ROWS_AT_ONCE = 500  # rows per step of a progress bar

Advance = Callable[[int], None]  # moves a progress bar by a number of rows
ShowProgress = Callable[[str, int], AbstractContextManager[Advance]]  # shows a title and the progress to a total
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


def rows_of(reader: Reader, table: Table) -> Iterator[Values]:
    """Inside a snapshot. Columns of booleans have booleans, although SQLite stores integers."""
    flags = [at for at, column in enumerate(table.columns) if column.kind == "boolean"]
    rows = reader.stream(table.in_order)
    return (_with_flags(row, flags) for row in rows) if flags else rows


def _with_flags(row: Values, flags: list[int]) -> Values:
    values = list(row)
    for at in flags:
        values[at] = None if values[at] is None else bool(values[at])
    return tuple(values)


def count_of(reader: Reader, table: Table) -> int:
    count: int = reader.read(f"SELECT count(*) AS total FROM {table.name}")[0].total
    return count


def counter_of(reader: Reader, table: Table) -> int:
    """The greatest number assigned. PostgreSQL does not count numbers that were inserted, so the rows are read too."""
    if not table.serial:
        return 0
    greatest = reader.read(f"SELECT max({table.serial}) AS greatest FROM {table.name}")[0].greatest or 0
    return max(greatest, reader.counter(table))


def content_of(reader: Reader, table: Table, advance: Advance) -> Content:
    """Reads the whole table. Inside a snapshot."""
    tally = Tally(table, advance)
    for _ in tally.over(rows_of(reader, table)):
        pass
    return tally.content(counter_of(reader, table))


def no_progress(_rows: int) -> None:
    """An `Advance` that shows nothing."""
