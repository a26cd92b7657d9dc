"""Reads a PostgreSQL database, and translates our SQL for its driver.

A connection that breaks fails the current query with StoreTrouble; the next one connects again.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count, groupby
from typing import Any

import psycopg

from relaydeck.errors import OperatorError, StoreTrouble
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.database import NO_VALUES, Reader, Row, Scoped, Values
from relaydeck.store.lock_holder import LockHolder, find_session
from relaydeck.store.postgres_connection import (
    LONGEST_WAIT,
    PostgresConnection,
    connect,
    interrupt,
    to_postgres,
    to_store_error,
    translate_errors,
)
from relaydeck.store.rows import Table, named_rows, row_maker, table_of

SUSPENDED = "the database is not available"
_MAY_CREATE_TEMPORARY = (
    "SELECT has_database_privilege(current_database(), 'TEMPORARY') AS may,"
    " quote_ident(current_database()) AS database, quote_ident(current_user) AS role"
)
# In one message, so that a process that is stopped never has the lock.
_TRY = (
    b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '1s';"
    b" UPDATE clock SET revision = revision; COMMIT"
)
_LONGEST_TRY = 3.0  # seconds: clients' writes wait for its end
# The tables in the first schema of the search path.
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
_COUNTER = "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence(:table, :column)::regclass), 0) AS greatest"
PostgresCursor = psycopg.Cursor[tuple[Any, ...]]


def execute(connection: PostgresConnection, sql: str, values: Values = NO_VALUES) -> PostgresCursor:
    # Without a context manager, which would cost as much as the translation.
    try:
        return connection.execute(to_postgres(sql), values)
    except psycopg.Error as error:
        raise to_store_error(error) from None


def try_write(connection: PostgresConnection) -> None:
    try:
        with translate_errors(), connection.waiting(_LONGEST_TRY):
            connection.execute(_TRY, prepare=False)
    finally:
        with suppress(psycopg.Error):  # the connection is closed
            connection.rollback()


class PostgresReader(Scoped, Reader):
    """Reads a database over a connection of its own."""

    soundness = "answers"
    clock_sql = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"

    def __init__(self, url: DatabaseUrl, *, soon: bool = False) -> None:
        """`soon`: others wait for what it finds out, also that the server does not answer."""
        self._url = url
        self._soon = soon
        self._longest_wait = LONGEST_WAIT
        self._suspended = False
        self._reader: PostgresConnection | None = None
        self._stream_numbers = count(1)

    @property
    def reader(self) -> PostgresConnection:
        """The connection for reads; it never waits for a writer."""
        if self._reader is None or self._reader.closed:
            self._reader = self._connect()
        return self._reader

    def _connect(self, *, writes: bool = False) -> PostgresConnection:
        if self._suspended:
            raise StoreTrouble(SUSPENDED, "unreachable")
        connection = connect(self._url, writes=writes, soon=self._soon)
        connection.longest_wait = self._longest_wait
        return connection

    @contextmanager
    def waiting(self, seconds: float) -> Iterator[None]:
        """Wait for so long for each response in this block, also on a connection that is opened in it."""
        before = self._longest_wait
        self._set_longest_wait(seconds)
        try:
            yield
        finally:
            self._set_longest_wait(before)

    def _set_longest_wait(self, seconds: float) -> None:
        self._longest_wait = seconds
        if self._reader is not None:
            self._reader.longest_wait = seconds

    def read(self, sql: str, values: Values = NO_VALUES, /) -> list[Row]:
        sql, values = self.scoped(sql, values)
        with translate_errors():
            return named_rows(sql, self._query(sql, values))

    def _query(self, sql: str, values: Values = NO_VALUES) -> PostgresCursor:
        return self._ask(lambda connection: execute(connection, sql, values))

    def _ask(self, question: Callable[[PostgresConnection], PostgresCursor]) -> PostgresCursor:
        connection = self.reader
        try:
            return question(connection)
        except StoreTrouble as trouble:
            if not connection.closed or (self._soon and trouble.cause == "timeout"):
                raise
        # The server closed the connection since its last use: repeat the question once, on a new one. One inside a
        # snapshot is repeated outside of it; the end of the snapshot then fails.
        return question(self.reader)

    def stream(self, sql: str) -> Iterator[Row]:
        sql, values = self.scoped(sql, NO_VALUES)
        with translate_errors(), self.reader.cursor(name=f"stream_{next(self._stream_numbers)}") as cursor:
            cursor.execute(to_postgres(sql), values)
            yield from map(row_maker(sql, cursor), cursor)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        connection = self._query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").connection
        try:
            yield
        except BaseException:
            with suppress(psycopg.Error):  # the connection is closed
                connection.execute("COMMIT")
            raise
        with translate_errors():
            connection.execute("COMMIT")

    def has_table(self, name: str) -> bool:
        found: bool = self.read("SELECT to_regclass(:name) IS NOT NULL AS found", {"name": name})[0].found
        return found

    def tables(self) -> list[Table]:
        references = self.read(_REFERENCES)
        return [
            table_of(name, list(columns), tuple(row.target for row in references if row.in_table == name))
            for name, columns in groupby(self.read(_COLUMNS), key=lambda row: row.in_table)
        ]

    def counter(self, table: Table) -> int:
        """Rows may have been inserted with greater numbers."""
        found: int = self.read(_COUNTER, {"table": table.name, "column": table.serial})[0].greatest
        return found

    def damage(self) -> list[str]:
        return []  # the server checks its own files

    def write_problem(self) -> str:
        standby: bool = self.read("SELECT pg_is_in_recovery() AS standby")[0].standby
        return "the database is a read-only standby" if standby else ""

    def try_write(self) -> None:
        with closing(self._connect(writes=True)) as connection:
            try_write(connection)

    def write_lock_holder(self) -> LockHolder | None:
        return find_session(self.read)

    def configuration_problems(self) -> list[OperatorError]:
        with translate_errors():
            problems = [self.pooler_problem(self.reader), self._missing_right()]
        return [each for each in problems if each is not None]

    def pooler_problem(self, connection: PostgresConnection) -> OperatorError | None:
        """A pooler that assigns a session to each transaction gives two connections the same one, or one several."""
        with closing(self._connect()) as other:
            pids = [each.execute("SELECT pg_backend_pid()").fetchone() for each in (connection, connection, other)]
        if pids[0] == pids[1] != pids[2]:
            return None
        return OperatorError(
            f"the database {self._url} is behind a pooler in transaction mode",
            "Relaydeck needs sessions of its own, for locks and notifications: connect to the server directly, or"
            " set the pooler to session mode.",
        )

    def _missing_right(self) -> OperatorError | None:
        may, database, role = self.read(_MAY_CREATE_TEMPORARY)[0]
        if may:
            return None
        return OperatorError(
            f"the role {role} may not create temporary tables, so an apply fails",
            f"Run: GRANT TEMPORARY ON DATABASE {database} TO {role}",
        )

    def interrupt(self) -> None:
        """Break every connection, also one that waits for a server that hangs. The next query connects again."""
        for connection in self._connections():
            interrupt(connection)

    def suspend(self) -> None:
        """Close every connection, also one that waits for a server that hangs, and open none until `resume`."""
        self._suspended = True
        self.interrupt()

    def resume(self) -> None:
        self._suspended = False

    def _connections(self) -> list[PostgresConnection | None]:
        return [self._reader]

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None
