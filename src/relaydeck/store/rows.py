"""Rows that are read by the names of their columns, on every engine alike."""

from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

_STATEMENTS_KEPT = 1024

RowMaker = Callable[[Iterable[Any]], "Row"]


class Row(tuple[Any, ...]):
    """One row of a result: `row.id` is its column `id`. A column without a name of its own needs an alias (AS)."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, column: str) -> Any: ...


class Described(Protocol):
    """A cursor of a driver, which describes the columns of its result."""

    @property
    def description(self) -> Sequence[Sequence[Any]] | None: ...


def columns_of(fields: tuple[str, ...], table: str = "", **sources: str) -> str:
    """The columns of a SELECT for rows that become `T(*row)`, where `fields` is `T._fields`.

    A field is the column of that name, or the expression that `sources` gives for it.
    """
    assert sources.keys() <= {*fields}
    prefix = f"{table}." if table else ""
    return ", ".join(f"{sources[name]} AS {name}" if name in sources else f"{prefix}{name}" for name in fields)


_makers: dict[str, RowMaker] = {}


def row_maker(sql: str, cursor: Described) -> RowMaker:
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


@lru_cache(_STATEMENTS_KEPT)
def _maker(names: tuple[str, ...]) -> RowMaker:
    base = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    # Not namedtuple's own _make: this runs without a Python function for each row.
    return partial(tuple.__new__, type("Row", (base, Row), {"__slots__": ()}))
