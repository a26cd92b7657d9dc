"""Many rows to write: in memory, or staged in a temporary table, from which one statement takes them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class RowSet(NamedTuple):
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


class StagedRows(NamedTuple):
    """`table` has the columns, and `position`, which counts from 0."""

    columns: tuple[str, ...]
    table: str


Rows = RowSet | StagedRows
Stage = Callable[[str, RowSet], StagedRows]  # stages rows with columns of the given table
_MOST_SLICED = 10_000


def slices(rows: Sequence[Any], size: int = _MOST_SLICED) -> list[tuple[int, Sequence[Any]]]:
    """Parts of a bounded size, each with the position of its first row."""
    return [(first, rows[first : first + size]) for first in range(0, len(rows), size)]
