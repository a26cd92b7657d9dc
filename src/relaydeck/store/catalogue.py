"""The tables of a database, described alike for every engine. A copy is made from this, not from a list in the code."""

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


def kind_of(type_name: str, kinds: dict[str, Kind]) -> Kind:
    """A column's kind, from the engine's name of its type."""
    if type_name not in kinds:
        raise StoreRefusal(f"a column has the type {type_name!r}, which cannot be copied")
    return kinds[type_name]
