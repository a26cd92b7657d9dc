"""SQLite: one file, shared by every process of the machine."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from relaydeck.errors import OperatorError, StoreError, StoreMisuse, StoreRefusal, StoreTrouble, StoreUnconfirmed
from relaydeck.shared_memory import is_locked
from relaydeck.store import sqlite_catalogue as catalogue
from relaydeck.store.catalogue import Table
from relaydeck.store.database import (
    NO_VALUES,
    START_COLUMNS,
    Execute,
    OpenTransaction,
    Result,
    Row,
    Transaction,
    Values,
    insert_statement,
)
from relaydeck.store.row_sets import RowSet, Stage, StagedRows, slices
from relaydeck.store.rows import row_maker
from relaydeck.store.served_file import OpenedFile
from relaydeck.store.write_signal import WriteSignal

_CACHE, _BULK_CACHE = -16_000, -256_000  # KiB; the pages of a bulk write fit, so none is written twice
# FULL syncs the write-ahead log at each commit: a write is on disk before it is acknowledged.
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA trusted_schema = OFF",
    f"PRAGMA cache_size = {_CACHE}",
)
_SCHEMA_TYPES = {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB"}
# The lock of BEGIN IMMEDIATE keeps the next revision free until it is stored, with the commit.
_START = f"SELECT revision + 1 AS {START_COLUMNS} FROM clock"
_END = "UPDATE clock SET revision = ?, audit_head = coalesce(?, audit_head)"
_STATEMENTS_KEPT = 512  # compiled: an insertion has a statement for every number of rows
_BUSY_TIMEOUT_MS = 10_000  # how long to wait for other processes that write
_NOT_TEXT = "Could not decode to UTF-8"
_REFUSALS = (sqlite3.IntegrityError, sqlite3.DataError)
_MISUSES = (sqlite3.ProgrammingError, sqlite3.InterfaceError)


def _to_store_error(error: sqlite3.Error) -> StoreError:
    if isinstance(error, _REFUSALS):
        return StoreRefusal(str(error))
    if isinstance(error, _MISUSES) or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
        return StoreMisuse(str(error))
    # Python quotes a text that it cannot decode, which may be anything.
    return StoreTrouble("a stored text is not UTF-8" if str(error).startswith(_NOT_TEXT) else str(error))


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _to_store_error(error) from error


class SqliteTransaction(Transaction):
    def __init__(self, connection: sqlite3.Connection) -> None:
        start = connection.execute(_START)
        super().__init__(row_maker(_START, start)(start.fetchone()))
        self._connection = connection

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        # Without the context manager above, which would cost as much as a short statement.
        try:
            return self._connection.execute(sql, values)
        except sqlite3.Error as error:
            raise _to_store_error(error) from error

    def one(self, sql: str, values: Values = NO_VALUES) -> Row | None:
        cursor = self.execute(sql, values)
        found = cursor.fetchone()
        return None if found is None else row_maker(sql, cursor)(found)

    def all(self, sql: str, values: Values = NO_VALUES) -> list[Row]:
        return _rows(sql, self.execute(sql, values))

    def _insert(self, table: str, columns: tuple[str, ...], count: int, values: list[Any]) -> None:
        self.execute(_insert_statement(table, columns, count), values)

    def execute_many(self, sql: str, many: Sequence[Values]) -> None:
        with _translate_errors():
            self._connection.executemany(sql, many)

    def matching(self, table: str, columns: Sequence[str], column: str, values: Sequence[str]) -> list[Row]:
        return self.all(
            f"SELECT {', '.join(columns)} FROM {table} WHERE {column} IN (SELECT value FROM json_each(:listed))",
            {"listed": msgspec.json.encode(values).decode()},
        )


class OpenSqliteTransaction(SqliteTransaction, OpenTransaction):
    def __init__(self, connection: sqlite3.Connection, confirm: Callable[[Transaction], None]) -> None:
        super().__init__(connection)
        self._confirm = confirm

    def commit(self) -> None:
        with _rolled_back_on_error(self._connection):
            self._connection.execute("COMMIT")

    def confirm(self) -> None:
        self._confirm(self)


@cache
def _insert_statement(table: str, columns: tuple[str, ...], count: int) -> str:
    return insert_statement(table, columns, count, "?")


def _rows(sql: str, cursor: sqlite3.Cursor) -> list[Row]:
    found = cursor.fetchall()
    return list(map(row_maker(sql, cursor), found)) if found else []


class SqliteReader:
    """Reads a database over a connection of its own."""

    soundness = "is sound"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader: sqlite3.Connection | None = None

    def _connect(self) -> sqlite3.Connection:
        """Neither creates a database nor changes one."""
        return sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)

    @property
    def reader(self) -> sqlite3.Connection:
        """The connection for reads; it never waits for a writer."""
        if self._reader is None:
            self._reader = self._connect()
        return self._reader

    def read(self, sql: str, values: Values = NO_VALUES, /) -> list[Row]:
        with _translate_errors():
            return _rows(sql, self.reader.execute(sql, values))

    def stream(self, sql: str) -> Iterator[Row]:
        with _translate_errors():
            cursor = self.reader.execute(sql)
            yield from map(row_maker(sql, cursor), cursor)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        self.read("BEGIN")
        try:
            yield
        finally:
            self._end_snapshot()

    def _end_snapshot(self) -> None:
        try:
            self.read("COMMIT")
        except StoreError:
            self._close_reader()  # it still has its snapshot, so the next one could not begin
            raise

    def has_table(self, name: str) -> bool:
        return bool(self.read("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name", {"name": name}))

    def tables(self) -> list[Table]:
        return catalogue.tables(self.read)

    def counter(self, table: Table) -> int:
        return catalogue.counter(self.read, table)

    def write_problem(self) -> str:
        return ""

    def damage(self) -> list[str]:
        return [row[0] for row in self.read("PRAGMA quick_check(5)") if row[0] != "ok"]

    def close(self) -> None:
        self._close_reader()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None


class SqliteDatabase(SqliteReader):
    remote = False
    clock_sql = ""

    def __init__(self, path: Path, write_signal: WriteSignal) -> None:
        super().__init__(path)
        self.write_signal = write_signal
        self.schema_types: Mapping[str, str] = _SCHEMA_TYPES
        self._writer: sqlite3.Connection | None = None
        self._unversioned: sqlite3.Connection | None = None
        self._busy_timeout = _BUSY_TIMEOUT_MS  # of the connection for writes
        self.erasing = False  # the write-ahead log contains secrets that were removed
        self._opened: OpenedFile | None = None

    def _connect(self) -> sqlite3.Connection:
        connection = self._connect_for_writes()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect_for_writes(self) -> sqlite3.Connection:
        if problem := self.write_problem():
            raise StoreTrouble(problem)
        mode = "rwc" if self._opened is None else "rw"  # a file that was open before is not created again
        try:
            connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode={mode}",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=_STATEMENTS_KEPT,
            )
            self._opened = self._opened or OpenedFile(self._path)
            for pragma in (*_PRAGMAS, f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}"):
                connection.execute(pragma)
            if not self._is_connected:
                self._opened.see_log()
        except (sqlite3.Error, OSError) as error:
            raise OperatorError(
                f"the database {self._path} cannot be opened: {error}",
                "Check that its folder exists, is writable and has free space.",
            ) from error
        return connection

    def write_problem(self) -> str:
        # The connection still writes into the file that it opened, where nobody would find it again.
        return self._opened.problem(connected=self._is_connected) if self._opened else ""

    @property
    def _is_connected(self) -> bool:
        return any(each is not None for each in (self._reader, self._writer, self._unversioned))

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection for writes; one thread at a time uses it."""
        if self._writer is None:
            self._writer = self._connect_for_writes()
        return self._writer

    async def run_in_reader(self, work: Callable[[], Result]) -> Result:
        return work()  # the pages are in memory: handing the work to a thread would take longer

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._open_transaction(_BUSY_TIMEOUT_MS) as transaction:
            yield transaction
        transaction.commit()
        transaction.confirm()

    def transaction_at_once(self) -> AbstractContextManager[OpenTransaction]:
        return self._open_transaction(0)

    @contextmanager
    def _open_transaction(self, busy_timeout: int) -> Iterator[OpenTransaction]:
        connection = self.writer
        if problem := self.write_problem():
            raise StoreTrouble(problem)
        with _rolled_back_on_error(connection):
            if busy_timeout != self._busy_timeout:
                connection.execute(f"PRAGMA busy_timeout = {busy_timeout}")
                self._busy_timeout = busy_timeout
            connection.execute("BEGIN IMMEDIATE")
            transaction = OpenSqliteTransaction(connection, self._confirm)
            yield transaction
            connection.execute(_END, (transaction.revision, transaction.audit_head))

    def _confirm(self, transaction: Transaction) -> None:
        self.erasing = self.erasing or transaction.erases_secrets
        self.write_signal.send(of_tokens=transaction.changes_tokens, wait=False)  # often in the event loop
        # Invariant: when a write is acknowledged, the file that it was committed to is still the one at the path. The
        # check before BEGIN is not enough: a write may wait for others, or take long.
        if problem := self.write_problem():
            raise StoreUnconfirmed(f"the write may be lost: {problem}")

    def bulk_transaction(
        self, write_early: Callable[[Transaction], None], rows: int
    ) -> AbstractContextManager[Transaction]:
        return self.transaction()  # one lock for the whole file: nothing can be written before it

    @contextmanager
    def staging(self) -> Iterator[Stage]:
        connection, staged = self.writer, list[str]()
        # In memory: a container may have no place for temporary files. Writing them takes no lock of the database.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = {_BULK_CACHE}")

        def stage(_table: str, rows: RowSet) -> StagedRows:
            staged.append(f"staged_{len(staged)}")
            _fill_staged(connection, staged[-1], rows)
            return StagedRows(rows.columns, staged[-1])

        try:
            yield stage
        finally:
            with _translate_errors():
                for name in staged:
                    connection.execute(f"DROP TABLE IF EXISTS temp.{name}")
                connection.execute(f"PRAGMA cache_size = {_CACHE}")

    def write_unversioned(self, sql: str, values: Values = NO_VALUES, /) -> list[Row]:
        # A connection of its own: a thread may have a transaction open on the writer's.
        if self._unversioned is None:
            self._unversioned = self._connect_for_writes()
        with _translate_errors():
            return _rows(sql, self._unversioned.execute(sql, values))

    @contextmanager
    def migration(self) -> Iterator[Execute]:
        connection = self.writer
        with _rolled_back_on_error(connection):
            connection.execute("BEGIN IMMEDIATE")
            yield connection.execute
            connection.execute("COMMIT")

    def load(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        self.writer.executemany(_insert_statement(table.name, table.column_names, 1), rows)

    def set_counter(self, table: Table, greatest: int) -> None:
        values = (greatest, table.name)
        if not self.writer.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", values).rowcount:
            self.writer.execute("INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)", values)

    def erase_removed(self) -> None:
        """The write-ahead log keeps the pages of removed secrets until it is written over: empty it.

        A process that reads or writes at this moment prevents that; the next call tries again.
        """
        if not self.erasing or self.write_problem():  # connecting would create a file in the place of one that is gone
            return
        with suppress(sqlite3.Error), closing(sqlite3.connect(self._path, timeout=0)) as connection:
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self.erasing = bool(busy)

    def suspend(self) -> None:
        return None  # there is no server that could hang

    def resume(self) -> None:
        return None

    def is_served(self) -> bool:
        return any(map(is_locked, self.write_signal.folder.glob("metrics-*")))  # workers hold rows of these files

    def opening(self) -> AbstractContextManager[None]:
        return nullcontext()  # `open_store` has a lock for the processes of this machine

    def close(self) -> None:
        self.write_problem()  # noted for the next start
        super().close()  # before the log is emptied: this reader would prevent it
        self.erase_removed()
        for connection in (self._writer, self._unversioned):
            if connection is not None:
                connection.close()
        self._writer = self._unversioned = None


def _fill_staged(connection: sqlite3.Connection, name: str, rows: RowSet) -> None:
    with _translate_errors():
        connection.execute(f"CREATE TEMP TABLE {name} (position INTEGER PRIMARY KEY, {', '.join(rows.columns)})")
        for first, some in slices(rows.rows):
            values = [(position, *row) for position, row in enumerate(some, first)]
            statement = _insert_statement(f"temp.{name}", ("position", *rows.columns), 1)
            with _rolled_back_on_error(connection):
                connection.execute("BEGIN")
                connection.executemany(statement, values)
                connection.execute("COMMIT")


@contextmanager
def _rolled_back_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        # A failed COMMIT (of a full disk, for example) may have rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise _to_store_error(error) from error
        raise
