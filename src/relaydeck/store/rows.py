"""Rows, read by the names of their columns, and tables, described by those: alike for every engine.

A copy of a database is made from these descriptions, not from a list in the code.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from relaydeck.errors import StoreRefusal

_STATEMENTS_KEPT = 1024
_MOST_CONVERTED = 1_000  # rows: the driver of PostgreSQL lets no other thread run while it converts them

RowMaker = Callable[[Iterable[Any]], "Row"]


class Row(tuple[Any, ...]):
    """One row of a result: `row.id` is its column `id`. A column without a name of its own needs an alias (AS)."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, column: str) -> Any: ...


class Cursor(Protocol):
    """The result of a statement, as both drivers give it."""

    @property
    def description(self) -> Sequence[Sequence[Any]] | None: ...
    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchmany(self, size: int, /) -> list[Any]: ...
    def fetchall(self) -> list[Any]: ...


def columns_of(fields: tuple[str, ...], table: str = "", **sources: str) -> str:
    """The columns of a SELECT for rows that become `T(*row)`, where `fields` is `T._fields`.

    A field is the column of that name, or the expression that `sources` gives for it.
    """
    assert sources.keys() <= {*fields}
    prefix = f"{table}." if table else ""
    return ", ".join(f"{sources[name]} AS {name}" if name in sources else f"{prefix}{name}" for name in fields)


_makers: dict[str, RowMaker] = {}


def row_maker(sql: str, cursor: Cursor) -> RowMaker:
    """Turns what the driver returns for a statement into rows with names.

    Cached by statement, because describing the columns costs more than a short result: a statement must return the
    same columns every time, so `SELECT *` is not used.
    """
    maker = _makers.get(sql)
    if maker is None:
        if len(_makers) >= _STATEMENTS_KEPT:
            _makers.clear()  # statements with variable parts must not fill the memory
        maker = _makers[sql] = _maker(tuple(column[0] for column in cursor.description or ()))
    return maker


def named_rows(sql: str, cursor: Cursor) -> list[Row]:
    make = row_maker(sql, cursor)
    if cursor.rowcount <= _MOST_CONVERTED:
        return list(map(make, cursor.fetchall()))
    rows: list[Row] = []
    while some := cursor.fetchmany(_MOST_CONVERTED):
        rows += map(make, some)
    return rows


def first_row(sql: str, cursor: Cursor) -> Row | None:
    found = cursor.fetchone()
    return None if found is None else row_maker(sql, cursor)(found)


@lru_cache(_STATEMENTS_KEPT)
def _maker(names: tuple[str, ...]) -> RowMaker:
    base = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    # Not namedtuple's own _make: this runs without a Python function for each row.
    return partial(tuple.__new__, type("Row", (base, Row), {"__slots__": ()}))


Kind = Literal["integer", "text", "bytes", "boolean"]
_KINDS: dict[str, Kind] = {  # by the names of types, of both engines
    "int": "integer",
    "integer": "integer",
    "bigint": "integer",
    "text": "text",
    "blob": "bytes",
    "bytea": "bytes",
    "boolean": "boolean",
}


class Column(NamedTuple):
    name: str
    kind: Kind


class Table(NamedTuple):
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]  # the primary key; empty when there is none
    serial: str  # the column with automatic numbers; empty when there is none
    references: tuple[str, ...]  # the tables that its foreign keys refer to

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def in_order(self) -> str:
        """A query for every row, in an order that is the same on every engine."""
        listed = ", ".join(f"{name} NULLS FIRST" for name in self.key or self.column_names)
        return f"SELECT {', '.join(self.column_names)} FROM {self.name} ORDER BY {listed}"


def table_of(name: str, found: list[Row], references: tuple[str, ...]) -> Table:
    """From rows with the columns `name`, `type`, `serial` and `key_at`, the position in the primary key."""
    key = sorted((row for row in found if row.key_at), key=lambda row: row.key_at)
    return Table(
        name,
        tuple(Column(row.name, _kind_of(row.type)) for row in found),
        tuple(row.name for row in key),
        next((row.name for row in found if row.serial), ""),
        references,
    )


def _kind_of(type_name: str) -> Kind:
    if type_name.lower() not in _KINDS:
        raise StoreRefusal(f"a column has the type {type_name!r}, which cannot be copied")
    return _KINDS[type_name.lower()]


class StagedRows(NamedTuple):
    """Rows in a temporary table, from which one statement takes them. `table` also has `position`, from 0 on."""

    columns: tuple[str, ...]
    table: str


Stage = Callable[[str, tuple[str, ...], Sequence[Sequence[Any]]], StagedRows]  # stages columns and rows of a table
_MOST_SLICED = 10_000


def slices(rows: Sequence[Any], size: int = _MOST_SLICED) -> list[tuple[int, Sequence[Any]]]:
    """Parts of a bounded size, each with the position of its first row."""
    return [(first, rows[first : first + size]) for first in range(0, len(rows), size)]


def upsert_into(table: str, key: str, columns: Iterable[str]) -> str:
    """Inserts a row, or updates the one with the same `key`: a column, or several with commas between them."""
    names = list(columns)
    changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in key.split(", "))
    values = ", ".join(f":{name}" for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values}) ON CONFLICT ({key}) DO UPDATE SET {changed}"


def in_list(values: Sequence[int] | Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The names to write between the parentheses, and their values.

    The last value is repeated up to a power of two: engines cache what they know of a statement by its text, and this
    way a statement has few texts, however many values there are.
    """
    count = 1 << (len(values) - 1).bit_length()
    padded = [*values, *[values[-1]] * (count - len(values))]
    named = {f"s{number}": value for number, value in enumerate(padded)}
    return ", ".join(f":{name}" for name in named), named
