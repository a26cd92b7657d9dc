"""Reads whole tables in a thread, beside an event loop that serves requests."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice

from relaydeck.store.database import NO_VALUES, Row, RowReader, Values

_READ_AT_ONCE = 200


class PacedReader:
    """Leaves half of the time to the event loop, however many rows there are and whatever is done with each.

    Every wait for the database is inside `awaiting`, and nothing else is: a limit there bounds a database that hangs
    without bounding the size of a table.
    """

    def __init__(self, reader: RowReader, awaiting: Callable[[], AbstractContextManager[None]]) -> None:
        self._reader = reader
        self._awaiting = awaiting

    def read(self, sql: str, values: Values = NO_VALUES, /) -> list[Row]:
        with self._awaiting():
            return self._reader.read(sql, values)

    def stream(self, sql: str) -> Iterator[Row]:
        rows = self._reader.stream(sql)
        while some := self._next(rows):
            started = time.thread_time()
            yield from some
            if len(some) == _READ_AT_ONCE:
                time.sleep(time.thread_time() - started)

    def _next(self, rows: Iterator[Row]) -> list[Row]:
        with self._awaiting():
            return list(islice(rows, _READ_AT_ONCE))
