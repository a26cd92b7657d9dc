"""Reads what this process's memory lacks in the message of a commit: its own write, and the writes before it.

A transaction sees every write up to its own revision. So its commit can return what a refresh would read after it,
without another round trip to the server.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from relaydeck.store.database import Row, Values
from relaydeck.store.write_signal import Sent

Results = list[list[Row]]
_MOST_ROWS = 300  # of a query: the writes of other processes wait for the commit


class CommitQueries(NamedTuple):
    statements: Sequence[tuple[str, Values]]  # the values are integers
    accept: Callable[[Results, Sent], None]  # called in the thread of the commit, after its signal


class RecordedReads:
    """Reads for a commit: the first pass records the statements, the second one returns what the commit returned."""

    def __init__(self) -> None:
        self.statements: dict[str, Values] = {}
        self._results: dict[str, list[Row]] | None = None

    def read(self, sql: str, values: Values) -> list[Row]:
        """Raises KeyError for a statement that was not recorded."""
        bounded = f"{sql} LIMIT {_MOST_ROWS}"
        if self._results is None:
            self.statements[bounded] = values
            return []
        return self._results[bounded]

    def replay(self, results: Results) -> bool:
        """False when a result may lack rows."""
        self._results = dict(zip(self.statements, results, strict=True))
        return all(len(rows) < _MOST_ROWS for rows in results)
