"""SQLite: one file, shared by every process of the machine."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from relaydeck.errors import OperatorError, StoreError, StoreMisuse, StoreRefusal, StoreTrouble, StoreUnconfirmed
from relaydeck.process.shared_memory import is_locked
from relaydeck.store.database import (
    NO_VALUES,
    START_COLUMNS,
    Database,
    Execute,
    OpenTransaction,
    Reader,
    Result,
    Row,
    Scoped,
    Transaction,
    Values,
    insert_statement,
)
from relaydeck.store.files import OpenedFile
from relaydeck.store.lock_holder import LockHolder, OnLockWait, end_stopped_worker, find_file_lock_holder
from relaydeck.store.rows import Stage, StagedRows, Table, named_rows, row_maker, slices, table_of
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
_ROWS_PER_INSERT = 64
_STATEMENTS_KEPT = 512  # compiled: an insertion has a statement for every number of rows
_BUSY_TIMEOUT_MS = 3_000  # how long to wait for other processes that write, before looking who they are
_ATTEMPTS = 3
_NOT_TEXT = "Could not decode to UTF-8"
_REFUSALS = (sqlite3.IntegrityError, sqlite3.DataError)
_MISUSES = (sqlite3.ProgrammingError, sqlite3.InterfaceError)
_CAUSES = {  # of failed writes, by the low byte of SQLite's error code
    sqlite3.SQLITE_BUSY: "lock_held",
    sqlite3.SQLITE_FULL: "disk_full",
    sqlite3.SQLITE_IOERR: "disk_error",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_CANTOPEN: "unreachable",
}
_TRY_TIMEOUT_MS = 1_000
_NAMES = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
_COLUMNS = (
    "SELECT name, upper(type) AS type, pk AS key_at, pk = 1 AND :serial AS serial"
    " FROM pragma_table_info(:table) ORDER BY cid"
)
_REFERENCES = 'SELECT DISTINCT "table" AS target FROM pragma_foreign_key_list(:table) ORDER BY 1'


def _to_store_error(error: sqlite3.Error) -> StoreError:
    if isinstance(error, _REFUSALS):
        return StoreRefusal(str(error))
    if isinstance(error, _MISUSES) or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
        return StoreMisuse(str(error))
    # Python quotes a text that it cannot decode, which may be anything.
    problem = "a stored text is not UTF-8" if str(error).startswith(_NOT_TEXT) else str(error)
    return StoreTrouble(problem, _CAUSES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "other"))


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _to_store_error(error) from error


class SqliteTransaction(OpenTransaction):
    schema = "main."

    def __init__(self, connection: sqlite3.Connection, confirm: Callable[[Transaction], None]) -> None:
        start = connection.execute(_START)
        super().__init__(row_maker(_START, start)(start.fetchone()))
        self._connection, self._confirm = connection, confirm

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        # Without the context manager above, which would cost as much as a short statement.
        try:
            return self._connection.execute(sql, values)
        except sqlite3.Error as error:
            raise _to_store_error(error) from error

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        for _, some in slices(rows, _ROWS_PER_INSERT):
            self.execute(insert_statement(table, tuple(columns), len(some), "?"), list(chain.from_iterable(some)))

    def execute_many(self, sql: str, many: Sequence[Values]) -> None:
        with _translate_errors():
            self._connection.executemany(sql, many)

    def commit(self) -> None:
        with _rolled_back_on_error(self._connection):
            self._connection.execute("COMMIT")

    def confirm(self) -> None:
        self._confirm(self)


class SqliteReader(Scoped, Reader):
    """Reads a database over a connection of its own."""

    schema = "main."
    soundness = "is sound"
    clock_sql = ""

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
        sql, values = self.scoped(sql, values)
        with _translate_errors():
            return named_rows(sql, self.reader.execute(sql, values))

    def stream(self, sql: str) -> Iterator[Row]:
        sql, values = self.scoped(sql, NO_VALUES)
        with _translate_errors():
            cursor = self.reader.execute(sql, values)
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
        return [self._table(row.name, has_serial=" AUTOINCREMENT" in row.sql.upper()) for row in self.read(_NAMES)]

    def _table(self, name: str, *, has_serial: bool) -> Table:
        columns = self.read(_COLUMNS, {"table": name, "serial": has_serial})
        return table_of(name, columns, tuple(row.target for row in self.read(_REFERENCES, {"table": name})))

    def counter(self, table: Table) -> int:
        rows = self.read("SELECT seq FROM sqlite_sequence WHERE name = :table", {"table": table.name})
        return rows[0].seq if rows else 0

    def write_problem(self) -> str:
        return ""

    def try_write(self) -> None:
        raise StoreMisuse("this connection only reads the file")

    def write_lock_holder(self) -> LockHolder | None:
        return find_file_lock_holder(self._path)

    def damage(self) -> list[str]:
        return [row[0] for row in self.read("PRAGMA quick_check(5)") if row[0] != "ok"]

    def close(self) -> None:
        self._close_reader()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None


class SqliteDatabase(SqliteReader, Database):
    remote = False
    server_sql = ""

    def __init__(self, path: Path, write_signal: WriteSignal) -> None:
        super().__init__(path)
        self.write_signal = write_signal
        self.schema_types: Mapping[str, str] = _SCHEMA_TYPES
        self._writer: sqlite3.Connection | None = None
        self._found_read_only = False  # by the connection for writes
        self._busy_timeout = _BUSY_TIMEOUT_MS  # of the connection for writes
        self.on_lock_wait: OnLockWait | None = None
        self._opened: OpenedFile | None = None

    def _connect(self) -> sqlite3.Connection:
        connection = self._connect_for_writes()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect_for_writes(self) -> sqlite3.Connection:
        if problem := self.write_problem():
            raise StoreTrouble(problem, "file_replaced")
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
        return self._reader is not None or self._writer is not None

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection for writes; one thread at a time uses it.

        One that found the file read-only would find it so for ever, so there is another one when the file is not. Until
        then it is not opened again: SQLite would keep a descriptor each time.
        """
        before = self._writer
        if before is None or (self._found_read_only and os.access(self._path, os.W_OK)):
            self._writer, self._busy_timeout = self._connect_for_writes(), _BUSY_TIMEOUT_MS
            self._found_read_only = False
            if before is not None:
                before.close()
        assert self._writer is not None
        return self._writer

    def open_reader(self) -> SqliteReader:
        if problem := self.write_problem():
            raise StoreTrouble(problem, "file_replaced")
        return SqliteReader(self._path)

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
            raise StoreTrouble(problem, "file_replaced")
        with self._noted_if_read_only(), _rolled_back_on_error(connection):
            if busy_timeout != self._busy_timeout:
                connection.execute(f"PRAGMA busy_timeout = {busy_timeout}")
                self._busy_timeout = busy_timeout
            self._begin(connection)
            transaction = SqliteTransaction(connection, self._confirm)
            yield transaction
            connection.execute(_END, (transaction.revision, transaction.audit_head))

    @contextmanager
    def _noted_if_read_only(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            self._found_read_only = self._found_read_only or error.cause == "read_only"
            raise

    def _begin(self, connection: sqlite3.Connection) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or not self._busy_timeout:
                    raise
                self._report_holder()
                if attempt == _ATTEMPTS:
                    raise

    def _report_holder(self) -> None:
        if self.on_lock_wait is not None and (holder := self.write_lock_holder()) is not None:
            self.on_lock_wait(holder, end_stopped_worker(holder))

    def _confirm(self, transaction: Transaction) -> None:
        if transaction.erases_secrets:
            self.write_signal.erasing = True
        self.write_signal.send(of_tokens=transaction.changes_tokens)
        # Invariant: when a write is acknowledged, the file that it was committed to is still the one at the path. The
        # check before BEGIN is not enough: a write may wait for others, or take long.
        if problem := self.write_problem():
            raise StoreUnconfirmed(f"the write may be lost: {problem}", "file_replaced")

    def try_write(self) -> None:
        with self._open_transaction(_TRY_TIMEOUT_MS) as transaction:
            transaction.execute("UPDATE clock SET revision = :revision", {"revision": transaction.revision})
            transaction.revision -= 1  # the one before is stored again; SQLite writes nothing for a row left alone
        transaction.commit()

    @contextmanager
    def staging(self) -> Iterator[Stage]:
        connection, staged = self.writer, list[str]()
        # In memory: a container may have no place for temporary files. Writing them takes no lock of the database.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = {_BULK_CACHE}")

        def stage(_table: str, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> StagedRows:
            name = f"staged_{len(staged)}"
            staged.append(name)
            with _rolled_back_on_error(connection):
                connection.execute("BEGIN")
                connection.execute(f"CREATE TEMP TABLE {name} (position INTEGER PRIMARY KEY, {', '.join(columns)})")
                statement = insert_statement(f"temp.{name}", ("position", *columns), 1, "?")
                connection.executemany(statement, ((position, *row) for position, row in enumerate(rows)))
                connection.execute("COMMIT")
            return StagedRows(columns, name)

        try:
            yield stage
        finally:
            with _translate_errors():
                for name in staged:
                    connection.execute(f"DROP TABLE IF EXISTS temp.{name}")
                connection.execute(f"PRAGMA cache_size = {_CACHE}")

    @contextmanager
    def migration(self, lock_seconds: float = 0) -> Iterator[Execute]:
        connection = self.writer
        with _rolled_back_on_error(connection):
            connection.execute("BEGIN IMMEDIATE")
            yield connection.execute
            connection.execute("COMMIT")

    @contextmanager
    def trial(self, rows: int) -> Iterator[Execute]:
        connection, tables = self.writer, self.read(_NAMES)
        with _translate_errors():
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN")
            try:
                connection.execute("PRAGMA defer_foreign_keys = ON")  # rows may refer to others that are not copied
                for each in tables:
                    connection.execute(each.sql.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
                for each in tables:
                    connection.execute(f"INSERT INTO temp.{each.name} SELECT * FROM main.{each.name} LIMIT {rows}")
                yield connection.execute
            finally:
                connection.execute("ROLLBACK")

    def load(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        self.writer.executemany(insert_statement(table.name, table.column_names, 1, "?"), rows)

    def set_counter(self, table: Table, greatest: int) -> None:
        values = (greatest, table.name)
        if not self.writer.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", values).rowcount:
            self.writer.execute("INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)", values)

    def erase_removed(self) -> None:
        """The write-ahead log keeps the pages of removed secrets until it is written over: empty it.

        A process that reads or writes at this moment prevents that; the next call tries again.
        """
        signal, busy = self.write_signal, 1
        if not signal.erasing or self.write_problem():
            return  # without a connection, which would create a file in the place of one that is gone
        signal.erasing = False  # before it is emptied: another process may remove a secret meanwhile
        with suppress(sqlite3.Error), closing(sqlite3.connect(self._path, timeout=0)) as connection:
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        signal.erasing = signal.erasing or bool(busy)

    def is_served(self) -> bool:
        return any(map(is_locked, self.write_signal.folder.glob("metrics-*")))  # workers hold rows of these files

    def close(self) -> None:
        self.write_problem()  # noted for the next start
        super().close()  # before the log is emptied: this reader would prevent it
        self.erase_removed()
        if self._writer is not None:
            self._writer.close()
        self._writer = None


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
