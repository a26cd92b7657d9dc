"""What tables a database has, in words that every engine shares: a copy is made from this and from no list of ours."""

from typing import Literal, NamedTuple

from relaydeck.errors import StoreRefusal

Kind = Literal["integer", "text", "bytes", "boolean"]


class Column(NamedTuple):
    name: str
    kind: Kind


class Table(NamedTuple):
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]  # the primary key; empty when there is none
    serial: str  # the column that numbers rows by itself; empty when there is none
    references: tuple[str, ...]  # the tables whose rows its rows name

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def in_order(self) -> str:
        """Every row, in the order that is the same on every engine."""
        listed = ", ".join(f"{name} NULLS FIRST" for name in self.key or self.column_names)
        return f"SELECT {', '.join(self.column_names)} FROM {self.name} ORDER BY {listed}"


def kind_of(to_postgres: str, kinds: dict[str, Kind]) -> Kind:
    """A column's kind by the engine's name of its type."""
    if to_postgres not in kinds:
        raise StoreRefusal(f"a column has the type {to_postgres!r}, which no copy knows")
    return kinds[to_postgres]
