"""SQLite: one file, shared by every process of the machine."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from relaydeck.errors import OperatorError, StoreError, StoreRefusal, StoreTrouble
from relaydeck.store import sqlite_catalogue as catalogue
from relaydeck.store.catalogue import Table
from relaydeck.store.database import (
    ASKED_FIRST,
    NEXT_REVISION,
    NO_VALUES,
    Execute,
    Result,
    Row,
    Transaction,
    Values,
    insertion,
)
from relaydeck.store.rows import row_maker
from relaydeck.store.write_signal import WriteSignal

# Every commit reaches the disk before it is answered: FULL syncs the write-ahead log at each one.
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cache_size = -16000",
)
_WORDS = {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB"}
_BEGIN = f"{NEXT_REVISION} RETURNING {ASKED_FIRST}"
_STATEMENTS_KEPT = 512  # compiled once each: an insertion has one for every number of rows
_PATIENCE_MS = 10_000  # with other processes that write
_REFUSALS = (sqlite3.IntegrityError, sqlite3.DataError)


def _told(error: sqlite3.Error) -> StoreError:
    return (StoreRefusal if isinstance(error, _REFUSALS) else StoreTrouble)(str(error))


class SqliteTransaction(Transaction):
    def __init__(self, connection: sqlite3.Connection) -> None:
        begun = connection.execute(_BEGIN)
        super().__init__(row_maker(_BEGIN, begun)(begun.fetchone()))
        self._connection = connection

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, values)
        except sqlite3.Error as error:
            raise _told(error) from error

    def one(self, sql: str, values: Values = NO_VALUES) -> Row | None:
        cursor = self.execute(sql, values)
        found = cursor.fetchone()
        return None if found is None else row_maker(sql, cursor)(found)

    def all(self, sql: str, values: Values = NO_VALUES) -> list[Row]:
        return _rows(sql, self.execute(sql, values))

    def _insert(self, table: str, columns: tuple[str, ...], count: int, values: list[Any]) -> None:
        self.execute(_insertion(table, columns, count), values)

    def matching(self, table: str, columns: Sequence[str], column: str, values: Sequence[str]) -> list[Row]:
        return self.all(
            f"SELECT {', '.join(columns)} FROM {table} WHERE {column} IN (SELECT value FROM json_each(:listed))",
            {"listed": msgspec.json.encode(values).decode()},
        )


@cache
def _insertion(table: str, columns: tuple[str, ...], count: int) -> str:
    return insertion(table, columns, count, "?")


def _rows(sql: str, cursor: sqlite3.Cursor) -> list[Row]:
    found = cursor.fetchall()
    return list(map(row_maker(sql, cursor), found)) if found else []


def _undo(connection: sqlite3.Connection) -> None:
    # A failed COMMIT (disk full, say) may have rolled back by itself already.
    if connection.in_transaction:
        connection.execute("ROLLBACK")


class SqliteReader:
    """A database that is looked at, over a connection of its own."""

    soundness = "is sound"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader: sqlite3.Connection | None = None

    def _connect(self) -> sqlite3.Connection:
        """Neither makes a database nor changes one."""
        return sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)

    @property
    def reader(self) -> sqlite3.Connection:
        """The connection that reads; it never waits for a writer."""
        if self._reader is None:
            self._reader = self._connect()
        return self._reader

    def read(self, sql: str, values: Values = NO_VALUES, /) -> list[Row]:
        try:
            return _rows(sql, self.reader.execute(sql, values))
        except sqlite3.Error as error:
            raise _told(error) from error

    def column(self, sql: str, values: Values = NO_VALUES, /) -> list[Any]:
        try:
            return [row[0] for row in self.reader.execute(sql, values)]
        except sqlite3.Error as error:
            raise _told(error) from error

    def stream(self, sql: str) -> Iterator[Row]:
        try:
            cursor = self.reader.execute(sql)
            yield from map(row_maker(sql, cursor), cursor)
        except sqlite3.Error as error:
            raise _told(error) from error

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        self.read("BEGIN")
        try:
            yield
        finally:
            self.read("COMMIT")

    def has_table(self, name: str) -> bool:
        return bool(self.read("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name", {"name": name}))

    def tables(self) -> list[Table]:
        return catalogue.tables(self.read)

    def counter(self, table: Table) -> int:
        return catalogue.counter(self.read, table)

    def damage(self) -> list[str]:
        return [problem for problem in self.column("PRAGMA quick_check(5)") if problem != "ok"]

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None


class SqliteDatabase(SqliteReader):
    remote = False

    def __init__(self, path: Path, write_signal: WriteSignal) -> None:
        super().__init__(path)
        self.write_signal = write_signal
        self.words: Mapping[str, str] = _WORDS
        self._writer: sqlite3.Connection | None = None
        self._unversioned: sqlite3.Connection | None = None
        self._patience = _PATIENCE_MS  # of the connection that writes

    def _connect(self) -> sqlite3.Connection:
        connection = self._connect_for_writes()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect_for_writes(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS_KEPT
            )
            for pragma in (*_PRAGMAS, f"PRAGMA busy_timeout = {_PATIENCE_MS}"):
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
            self._writer = self._connect_for_writes()
        return self._writer

    async def run_in_reader(self, work: Callable[[], Result]) -> Result:
        return work()  # it reads a file that is in memory: another thread would take longer to ask

    def transaction(self) -> AbstractContextManager[Transaction]:
        return self._transaction(_PATIENCE_MS)

    def transaction_at_once(self) -> AbstractContextManager[Transaction]:
        return self._transaction(0)

    @contextmanager
    def _transaction(self, patience: int) -> Iterator[Transaction]:
        connection = self.writer
        try:
            if patience != self._patience:
                connection.execute(f"PRAGMA busy_timeout = {patience}")
                self._patience = patience
            connection.execute("BEGIN IMMEDIATE")
            transaction = SqliteTransaction(connection)
            yield transaction
            connection.execute("COMMIT")
        except BaseException as error:
            _undo(connection)
            if isinstance(error, sqlite3.Error):
                raise _told(error) from error
            raise
        self.write_signal.send(of_tokens=transaction.changes_tokens)

    def write_unversioned(self, sql: str, values: Values = NO_VALUES, /) -> list[Row]:
        # A connection of its own: a thread may have a transaction open on the writer's.
        if self._unversioned is None:
            self._unversioned = self._connect_for_writes()
        try:
            return _rows(sql, self._unversioned.execute(sql, values))
        except sqlite3.Error as error:
            raise _told(error) from error

    @contextmanager
    def migration(self) -> Iterator[Execute]:
        connection = self.writer
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection.execute
            connection.execute("COMMIT")
        except BaseException as error:
            _undo(connection)
            if isinstance(error, sqlite3.Error):
                raise _told(error) from error
            raise

    def load(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        self.writer.executemany(_insertion(table.name, table.column_names, 1), rows)

    def set_counter(self, table: Table, greatest: int) -> None:
        given = (greatest, table.name)
        if not self.writer.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", given).rowcount:
            self.writer.execute("INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)", given)

    def abandon(self) -> None:
        return None

    def resume(self) -> None:
        return None

    def opening(self) -> AbstractContextManager[None]:
        return nullcontext()  # one machine's processes wait for each other in the home already

    def close(self) -> None:
        for connection in (self._writer, self._unversioned):
            if connection is not None:
                connection.close()
        self._writer = self._unversioned = None
        super().close()
