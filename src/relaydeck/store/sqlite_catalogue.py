"""Reads the tables of a SQLite database."""

from collections.abc import Callable

from relaydeck.store.catalogue import Column, Kind, Table, kind_of
from relaydeck.store.database import Row

Read = Callable[..., list[Row]]

_KINDS: dict[str, Kind] = {
    "INT": "integer",
    "INTEGER": "integer",
    "BIGINT": "integer",
    "TEXT": "text",
    "BLOB": "bytes",
    "BOOLEAN": "boolean",
}
_NAMES = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
_COLUMNS = "SELECT name, upper(type) AS type, pk FROM pragma_table_info(:table) ORDER BY cid"
_REFERENCES = 'SELECT DISTINCT "table" AS target FROM pragma_foreign_key_list(:table) ORDER BY 1'


def tables(read: Read) -> list[Table]:
    return [_table(read, row.name, has_serial=" AUTOINCREMENT" in row.sql.upper()) for row in read(_NAMES)]


def _table(read: Read, name: str, *, has_serial: bool) -> Table:
    columns = read(_COLUMNS, {"table": name})
    key = tuple(row.name for row in sorted((row for row in columns if row.pk), key=lambda row: row.pk))
    return Table(
        name,
        tuple(Column(row.name, kind_of(row.type, _KINDS)) for row in columns),
        key,
        key[0] if has_serial else "",
        tuple(row.target for row in read(_REFERENCES, {"table": name})),
    )


def counter(read: Read, table: Table) -> int:
    """The greatest number that the serial column assigned. It is not assigned again after its row is deleted."""
    rows = read("SELECT seq FROM sqlite_sequence WHERE name = :table", {"table": table.name})
    return rows[0].seq if rows else 0
