"""Reads a PostgreSQL database, and translates our SQL for its driver.

A connection that breaks fails the current query with StoreTrouble; the next one connects again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import StoreTrouble
from relaydeck.store import postgres_catalogue as catalogue
from relaydeck.store.catalogue import Table
from relaydeck.store.database import NO_VALUES, Row, Values
from relaydeck.store.dialect import to_postgres
from relaydeck.store.postgres_connection import (
    PostgresConnection,
    connect,
    interrupt,
    to_store_error,
    translate_errors,
)
from relaydeck.store.rows import row_maker

SUSPENDED = "the database is not available"
_MOST_CONVERTED = 1_000  # rows: the driver lets no other thread run while it converts them
PostgresCursor = psycopg.Cursor[tuple[Any, ...]]


def execute(connection: PostgresConnection, sql: str, values: Values = NO_VALUES) -> PostgresCursor:
    # Without a context manager, which would cost as much as the translation.
    try:
        return connection.execute(to_postgres(sql), values)
    except psycopg.Error as error:
        raise to_store_error(error) from None


def named_rows(sql: str, cursor: PostgresCursor) -> list[Row]:
    make = row_maker(sql, cursor)
    if cursor.rowcount <= _MOST_CONVERTED:
        return list(map(make, cursor.fetchall()))
    rows: list[Row] = []
    while some := cursor.fetchmany(_MOST_CONVERTED):
        rows += map(make, some)
    return rows


def first_row(sql: str, cursor: PostgresCursor) -> Row | None:
    found = cursor.fetchone()
    return None if found is None else row_maker(sql, cursor)(found)


class PostgresReader:
    """Reads a database over a connection of its own."""

    soundness = "answers"

    def __init__(self, url: DatabaseUrl) -> None:
        self._url = url
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
            raise StoreTrouble(SUSPENDED)
        return connect(self._url, writes=writes)

    def read(self, sql: str, values: Values = NO_VALUES, /) -> list[Row]:
        with translate_errors():
            return named_rows(sql, self._query(sql, values))

    def _query(self, sql: str, values: Values = NO_VALUES) -> PostgresCursor:
        return self._ask(lambda connection: execute(connection, sql, values))

    def _ask(self, question: Callable[[PostgresConnection], PostgresCursor]) -> PostgresCursor:
        connection = self.reader
        try:
            return question(connection)
        except StoreTrouble:
            if not connection.closed:
                raise
        # The server closed the connection since its last use: repeat the question once, on a new one. One inside a
        # snapshot is repeated outside of it; the end of the snapshot then fails.
        return question(self.reader)

    def stream(self, sql: str) -> Iterator[Row]:
        with translate_errors(), self.reader.cursor(name=f"stream_{next(self._stream_numbers)}") as cursor:
            cursor.execute(to_postgres(sql), NO_VALUES)
            yield from map(row_maker(sql, cursor), cursor)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        connection = self._query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").connection
        try:
            yield
        finally:
            with translate_errors():
                connection.execute("COMMIT")

    def has_table(self, name: str) -> bool:
        found: bool = self.read("SELECT to_regclass(:name) IS NOT NULL AS found", {"name": name})[0].found
        return found

    def tables(self) -> list[Table]:
        return catalogue.tables(self.read)

    def counter(self, table: Table) -> int:
        return catalogue.counter(self.read, table)

    def damage(self) -> list[str]:
        return []  # the server checks its own files

    def write_problem(self) -> str:
        standby: bool = self.read("SELECT pg_is_in_recovery() AS standby")[0].standby
        return "the database is a read-only standby" if standby else ""

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
