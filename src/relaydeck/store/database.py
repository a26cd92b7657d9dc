"""The database: how it is opened, and the one shape of a transaction.

SQL is written with named parameters (`:name`). A write transaction takes the next revision as its first
step; that serialises writers, so rows appear to every reader in the order of their revisions.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from relaydeck.errors import OperatorError
from relaydeck.store.bell import Bell

Row = tuple[Any, ...]

# Every commit reaches the disk before it is answered: FULL syncs the write-ahead log at each one.
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA busy_timeout = 10000",
    "PRAGMA secure_delete = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cache_size = -16000",
)


# The next revision, and with it what almost every write asks next: each statement hands the interpreter to
# another thread and back, which costs more than the answer.
_BEGINNING = (
    "UPDATE clock SET revision = revision + 1 WHERE only_row = 1 RETURNING revision,"
    " (SELECT max(id) FROM data_keys),"
    " (SELECT max(seq) FROM audit), (SELECT hash FROM audit ORDER BY seq DESC LIMIT 1)"
)
_ROWS_AT_ONCE = 64
_STATEMENTS_KEPT = 512  # compiled once each: an insertion has one for every number of rows up to that
CHAIN_BEGINNING = (0, bytes(32))  # what stands for the row before the first


class Transaction:
    """One write transaction. Whatever happens in it happens whole, or not at all."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.execute = connection.execute
        self.changes_tokens = False  # set by who changes one, so that every process hears of it at once
        self.revision: int
        self.revision, newest_key, last, link = self.execute(_BEGINNING).fetchone()
        self.newest_key: int = newest_key or 0  # the data key that seals
        self.chain_end: tuple[int, bytes] = CHAIN_BEGINNING if last is None else (last, link)  # of the audit log

    def one(self, sql: str, values: dict[str, Any] | None = None) -> Row | None:
        row: Row | None = self.execute(sql, values or {}).fetchone()
        return row

    def all(self, sql: str, values: dict[str, Any] | None = None) -> list[Row]:
        return self.execute(sql, values or {}).fetchall()

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert many rows with few statements."""
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            values = [value for row in some for value in row]
            self.execute(_insertion(table, tuple(columns), len(some)), values)

    @contextmanager
    def step(self) -> Iterator[None]:
        """A part that is undone alone when it fails, so that grouped writers do not share their failures."""
        chain_end, newest_key = self.chain_end, self.newest_key
        self.execute("SAVEPOINT step")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK TO step")
            self.execute("RELEASE step")
            self.chain_end, self.newest_key = chain_end, newest_key
            raise
        self.execute("RELEASE step")


@cache
def _insertion(table: str, columns: tuple[str, ...], count: int) -> str:
    row = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * count)}"


class Database:
    """One SQLite database, shared by every process of the machine."""

    def __init__(self, path: Path, bell: Bell) -> None:
        self._path = path
        self.bell = bell
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS_KEPT
            )
            for pragma in _PRAGMAS:
                connection.execute(pragma)
        except sqlite3.Error as error:
            raise OperatorError(
                f"the database {self._path} cannot be opened: {error}",
                "Check that its folder exists, is writable and has free space.",
            ) from error
        return connection

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection that writes; used by one thread at a time."""
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    @property
    def reader(self) -> sqlite3.Connection:
        """The connection that reads; it never waits for a writer."""
        if self._reader is None:
            self._reader = self._connect()
        return self._reader

    def read(self, sql: str, values: dict[str, Any] | Sequence[Any] = ()) -> list[Row]:
        return self.reader.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Commit is the last line; leaving in any other way changes nothing."""
        connection = self.writer
        connection.execute("BEGIN IMMEDIATE")
        try:
            transaction = Transaction(connection)
            yield transaction
            connection.execute("COMMIT")
        except BaseException:
            # A failed COMMIT (disk full, say) may have rolled back by itself already.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.bell.ring(of_tokens=transaction.changes_tokens)

    def close(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None
