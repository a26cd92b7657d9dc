"""Write transactions of PostgreSQL."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from relaydeck.errors import StoreConflict, StoreError, StoreRefusal
from relaydeck.store.database import NO_VALUES, START_COLUMNS, Row, Transaction, Values, insert_statement
from relaydeck.store.dialect import to_postgres
from relaydeck.store.postgres_connection import CHANNEL, PostgresConnection, translate_errors
from relaydeck.store.postgres_reader import PostgresCursor, execute, first_row, named_rows
from relaydeck.store.row_sets import RowSet, Stage, StagedRows, slices

_ROWS_TO_COPY = 256  # from which on COPY takes less time than INSERT
_REVISIONS_RESERVED = 1_000  # and one more for every second row: more than others take while the rows are written
_LOCK_MILLISECONDS = 250  # well below the second after which the server ends a deadlock, perhaps with the other one
_LONGEST_LOCK = 30.0  # seconds: others that write all the time take the lock in turn
_BEGIN_EARLY = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
    f" SET LOCAL lock_timeout = {_LOCK_MILLISECONDS};"
    " SELECT revision + %d AS " + START_COLUMNS + " FROM clock"
)
_LOCK = (
    "UPDATE clock SET revision = :revision WHERE revision < :revision"
    f" RETURNING pg_notify('{CHANNEL}', revision::text) AS notified"
)
_WAITING = (
    "SELECT 1 FROM pg_locks AS waiting JOIN pg_locks AS held ON held.transactionid = waiting.transactionid"
    " WHERE held.pid = pg_backend_pid() AND held.granted AND NOT waiting.granted LIMIT 1"
)


class PostgresTransaction(Transaction):
    rows_per_statement = 5_000  # of a bulk write: the wait for each answer of the server is bounded

    def __init__(self, connection: PostgresConnection, start: Row) -> None:
        super().__init__(start)
        self.connection = connection

    def execute(self, sql: str, values: Any = NO_VALUES, /) -> PostgresCursor:
        return execute(self.connection, sql, values or NO_VALUES)

    def one(self, sql: str, values: Values = NO_VALUES) -> Row | None:
        return first_row(sql, self.execute(sql, values))

    def all(self, sql: str, values: Values = NO_VALUES) -> list[Row]:
        return named_rows(sql, self.execute(sql, values))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if len(rows) < _ROWS_TO_COPY:
            super().insert(table, columns, rows)
            return
        for _, some in slices(rows, self.rows_per_statement):
            self._give_way()
            copy_rows(self.connection, table, columns, some)

    def execute_many(self, sql: str, many: Sequence[Values]) -> None:
        for _, some in slices(many, self.rows_per_statement):
            self._give_way()
            with translate_errors(), self.connection.cursor() as cursor:
                cursor.executemany(to_postgres(sql), some)

    def _give_way(self) -> None:
        """Called before each statement of a bulk write."""

    def _insert(self, table: str, columns: tuple[str, ...], count: int, values: list[Any]) -> None:
        with translate_errors():
            self.connection.execute(_insert_statement(table, columns, count), values)

    def matching(self, table: str, columns: Sequence[str], column: str, values: Sequence[str]) -> list[Row]:
        sql = f"SELECT {', '.join(columns)} FROM {table} WHERE {column} = ANY(:listed)"
        return self.all(sql, {"listed": list(values)})


@cache
def _insert_statement(table: str, columns: tuple[str, ...], count: int) -> bytes:
    return insert_statement(table, columns, count, "%s").encode()


class PostgresBulkTransaction(PostgresTransaction):
    """Writes many rows before it locks the revision, for which every other write waits.

    The rows need the revision of the transaction early: one that is far enough ahead is reserved. It is free as long as
    others have not reached it, because revisions need not follow each other without a gap.

    Whoever needs a row that was written early waits with the revision locked. So each statement writes few rows, and
    the transaction gives up when another one waits for it.
    """

    rows_per_statement = 1_000
    _locked = False

    def _give_way(self) -> None:
        if not self._locked and self.one(_WAITING):
            raise StoreConflict("another write waits for a record of this one")

    @contextmanager
    def early(self) -> Iterator[None]:
        """A record that the database refuses was changed by others since the rows were prepared."""
        try:
            yield
        except StoreRefusal as refusal:
            raise StoreConflict(str(refusal)) from None

    def lock(self) -> None:
        deadline = time.monotonic() + _LONGEST_LOCK
        self._give_way()
        while not self._try_lock():
            self._give_way()
            if time.monotonic() > deadline:
                raise StoreConflict("others hold the revision all the time")
        self._locked = True
        self.execute("SET LOCAL lock_timeout = '10s'")
        start = self.one(f"SELECT {START_COLUMNS} FROM clock")
        assert start is not None
        self._start_from(start)

    def _try_lock(self) -> bool:
        self.execute("SAVEPOINT revision")
        try:
            taken = self.one(_LOCK, {"revision": self.revision})
        except StoreConflict:
            self.execute("ROLLBACK TO SAVEPOINT revision")
            return False
        if taken is None:
            raise StoreConflict("others have used the revisions that were reserved")
        return True


def begin_early(connection: PostgresConnection, rows: int) -> Row:
    reserved = _REVISIONS_RESERVED + rows // 2
    with translate_errors():
        begun = connection.execute((_BEGIN_EARLY % reserved).encode(), prepare=False)
    while begun.nextset():
        pass
    start = first_row(_BEGIN_EARLY, begun)
    assert start is not None
    return start


def copy_rows(
    connection: PostgresConnection, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()
    with translate_errors(), connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


@contextmanager
def staging(connection: PostgresConnection) -> Iterator[Stage]:
    """Temporary tables belong to the session: they end with it, whatever happens."""
    staged: list[str] = []

    def stage(table: str, rows: RowSet) -> StagedRows:
        staged.append(f"staged_{len(staged)}")
        selected = f"SELECT CAST(0 AS bigint) AS position, {', '.join(rows.columns)} FROM {table}"
        execute(connection, f"CREATE TEMP TABLE {staged[-1]} AS {selected} WITH NO DATA")
        for first, some in slices(rows.rows):
            numbered = [(position, *row) for position, row in enumerate(some, first)]
            copy_rows(connection, staged[-1], ("position", *rows.columns), numbered)
        return StagedRows(rows.columns, staged[-1])

    try:
        yield stage
    finally:
        for name in staged:
            with suppress(StoreError):  # the session has ended, and the tables with it
                execute(connection, f"DROP TABLE {name}")
