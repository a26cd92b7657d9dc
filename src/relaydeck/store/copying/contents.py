"""What is in a database, table by table: rows in an order and a form that are the same on every engine.

Two engines that hold the same give the same digest. Whatever the schema has is read; what is left out is named
here, with the reason.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

import msgspec

from relaydeck.store.catalogue import Table
from relaydeck.store.copying.mark import MARK
from relaydeck.store.database import Reader

LEFT_OUT = {
    "leases": "who held one is not a process of the copy's",
    "schema_versions": "a copy's schema is made there, and tells when",
    MARK: "it says that a copy is unfinished, and is none of its content",
}
ROWS_AT_ONCE = 500  # a progress bar moves by so many

Advance = Callable[[int], None]
Values = tuple[Any, ...]  # of a row, in the order of its table's columns
_encode = msgspec.msgpack.Encoder().encode


class Content(NamedTuple):
    """What a table holds: how many rows, a digest of them all, and the greatest number it has given."""

    rows: int
    digest: bytes
    counter: int


class Tally:
    """Counts and digests rows as they go by."""

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
    """Every table that a copy has, each after those that its rows name."""
    by_name = {table.name: table for table in reader.tables() if table.name not in LEFT_OUT}
    named = {name: [each for each in table.references if each != name] for name, table in by_name.items()}
    return [by_name[name] for name in TopologicalSorter(named).static_order()]


def rows_of(reader: Reader, table: Table) -> Iterator[Values]:
    """Inside a snapshot. SQLite has no booleans of its own; here they are."""
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
    """The greatest number given. PostgreSQL does not count those that rows brought along: they are looked for."""
    if not table.serial:
        return 0
    greatest = reader.read(f"SELECT max({table.serial}) AS greatest FROM {table.name}")[0].greatest or 0
    return max(greatest, reader.counter(table))


def content_of(reader: Reader, table: Table, advance: Advance) -> Content:
    """Read a table to its end. Inside a snapshot."""
    tally = Tally(table, advance)
    for _ in tally.over(rows_of(reader, table)):
        pass
    return tally.content(counter_of(reader, table))
