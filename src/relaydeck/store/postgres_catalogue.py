"""Reads the tables of a PostgreSQL database: those in the first schema of the search path."""

from collections.abc import Callable
from itertools import groupby

from relaydeck.store.catalogue import Column, Kind, Table, kind_of
from relaydeck.store.database import Row

Read = Callable[..., list[Row]]

_KINDS: dict[str, Kind] = {
    "integer": "integer",
    "bigint": "integer",
    "text": "text",
    "bytea": "bytes",
    "boolean": "boolean",
}
_COLUMNS = """
SELECT c.relname AS in_table, a.attname AS name, format_type(a.atttypid, NULL) AS type, a.attidentity <> '' AS serial,
  (SELECT array_position(k.conkey, a.attnum) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p')
    AS key_at
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
ORDER BY c.relname, a.attnum
"""
_REFERENCES = """
SELECT DISTINCT c.relname AS in_table, f.relname AS target
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class f ON f.oid = k.confrelid
WHERE k.contype = 'f' AND c.relnamespace = current_schema()::regnamespace
ORDER BY 1, 2
"""


def tables(read: Read) -> list[Table]:
    references = read(_REFERENCES)
    return [
        _table(name, list(columns), tuple(row.target for row in references if row.in_table == name))
        for name, columns in groupby(read(_COLUMNS), key=lambda row: row.in_table)
    ]


def _table(name: str, found: list[Row], references: tuple[str, ...]) -> Table:
    key = sorted((row for row in found if row.key_at is not None), key=lambda row: row.key_at)
    return Table(
        name,
        tuple(Column(row.name, kind_of(row.type, _KINDS)) for row in found),
        tuple(row.name for row in key),
        next((row.name for row in found if row.serial), ""),
        references,
    )


def counter(read: Read, table: Table) -> int:
    """The greatest number that the serial column assigned; rows may have been inserted with greater ones."""
    rows = read(
        "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence(:table, :column)::regclass), 0) AS greatest",
        {"table": table.name, "column": table.serial},
    )
    found: int = rows[0].greatest
    return found
