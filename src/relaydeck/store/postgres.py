"""PostgreSQL: a server that processes on several machines may share."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from relaydeck.errors import OperatorError, StoreConflict, StoreError, StoreTrouble, StoreUnconfirmed, StoreUnreachable
from relaydeck.process.background import SideThreads
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.database import (
    NO_VALUES,
    START_COLUMNS,
    Database,
    Execute,
    Result,
    Row,
    Transaction,
    Values,
    insert_statement,
)
from relaydeck.store.lock_holder import COPYING, END_SILENT, LONGEST_SILENCE, OnLockWait, find_session
from relaydeck.store.postgres_connection import (
    LONGEST_MIGRATION,
    LONGEST_STATEMENT,
    PostgresConnection,
    connect,
    has_connect_timeout,
    interrupt,
    limit_long_statements,
    limit_writes,
    to_postgres,
    to_postgres_schema,
    translate_errors,
)
from relaydeck.store.postgres_reader import (
    SUSPENDED,
    PostgresCursor,
    PostgresReader,
    execute,
    try_write,
)
from relaydeck.store.rows import Stage, StagedRows, Table, first_row, named_rows, slices
from relaydeck.store.write_signal import WriteSignal

_ROWS_TO_COPY = 8  # from which on COPY takes less of both processors than INSERT


class PostgresTransaction(Transaction):
    def __init__(self, connection: PostgresConnection, start: Row) -> None:
        super().__init__(start)
        self.connection = connection

    def execute(self, sql: str, values: Any = NO_VALUES, /) -> PostgresCursor:
        return execute(self.connection, sql, values or NO_VALUES)

    def allow_long_statements(self) -> None:
        with translate_errors():
            limit_long_statements(self.connection)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if len(rows) >= _ROWS_TO_COPY:
            copy_rows(self.connection, table, columns, rows)
        elif rows:
            statement = insert_statement(table, tuple(columns), len(rows), "%s").encode()
            with translate_errors():
                self.connection.execute(statement, list(chain.from_iterable(rows)))

    def execute_many(self, sql: str, many: Sequence[Values]) -> None:
        with translate_errors(), self.connection.cursor() as cursor:
            cursor.executemany(to_postgres(sql), many)


def copy_rows(
    connection: PostgresConnection, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()
    with translate_errors(), connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


# Every writer has the lock on the row of the clock until its transaction ends. So when a new connection gets this lock,
# the transaction has ended: either its audit entry is stored, or nothing of it is.
_RETRY_SECONDS = 0.05
_LEAST_SECONDS = 0.1  # for the answer of a server that a connection was just opened to
_LOCK_CLOCK = "BEGIN; SET LOCAL lock_timeout = {milliseconds}; SELECT 1 FROM clock FOR UPDATE"
_ENTRY = "SELECT 1 FROM audit WHERE seq = %s AND hash = %s"


def is_stored(url: DatabaseUrl, entry: tuple[int, bytes], seconds: float) -> bool:
    """Whether the transaction that wrote this audit entry was stored. Raises StoreTrouble when time runs out."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with closing(connect(url, writes=True, soon=True)) as connection:
                return _has_entry(connection, entry, max(deadline - time.monotonic(), _LEAST_SECONDS))
        except StoreUnreachable:  # it may be restarting
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)


def _has_entry(connection: PostgresConnection, entry: tuple[int, bytes], seconds: float) -> bool:
    with translate_errors(), connection.waiting(seconds):
        connection.execute(_LOCK_CLOCK.format(milliseconds=int(seconds * 1000)).encode(), prepare=False)
        return connection.execute(_ENTRY, entry).fetchone() is not None


# Seconds, of a write that a request waits for, so that it is answered within four. The commit of a synchronous standby
# that is away takes for ever, and no timeout of the server ends it.
_LONGEST_COMMIT = 1.9
_LONGEST_SEARCH = 1.9  # for what became of a commit that was not confirmed
_LONGEST_LOCK_WAIT = 8.0  # after which no further attempt is made; the server ends each after three seconds
_LONGEST_BEGIN = 5.0  # of one attempt, if the server does not answer
_MIGRATION_LOCK = int.from_bytes(b"relaydck")
OPENING_LOCK = _MIGRATION_LOCK + 1
# Each worker of such a version has one connection that listens, and uses it for nothing else. While a service connects
# again, its others may be there first, which have this name.
_SERVING = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND (query LIKE 'LISTEN %' OR application_name = 'relaydeck')"
)
_HOLDER_OF_LOCK = (
    "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database AND datname = current_database()"
    " WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32 | objid::bigint) = %s"
)
_IS_OPENED = f"EXISTS ({_HOLDER_OF_LOCK.replace('%s', str(OPENING_LOCK))})"
# Of processes of the server itself, either the database or the user is unknown.
_NEAREST_LIMIT = (
    "WITH clients AS (SELECT datname, usename FROM pg_stat_activity WHERE datname IS NOT NULL AND usename IS NOT NULL)"
    " SELECT used, most FROM (SELECT count(*) AS used, current_setting('max_connections')::bigint"
    " - current_setting('superuser_reserved_connections')::bigint"
    " - coalesce(current_setting('reserved_connections', true), '0')::bigint AS most FROM clients"  # since version 16
    " UNION ALL SELECT count(*), datconnlimit FROM clients JOIN pg_database USING (datname)"
    " WHERE datname = current_database() GROUP BY datconnlimit"
    " UNION ALL SELECT count(*), rolconnlimit FROM clients JOIN pg_roles ON rolname = usename"
    " WHERE usename = current_user GROUP BY rolconnlimit"
    ") AS limits WHERE most > 0 ORDER BY used::float / most DESC LIMIT 1"
)
_OPENING_SECONDS = 0.05
# On a connection for reads, which may stay idle in a transaction: one that writes keeps locks, so the server ends it.
_BEGIN_UNVERSIONED = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
    f" SET LOCAL idle_in_transaction_session_timeout = '{LONGEST_SILENCE}s'"
).encode()
# The update locks the row of the clock until the transaction ends: the next writer waits for it, so transactions
# commit in the order of their revisions.
_BEGIN = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
    " UPDATE clock SET revision = revision + 1;"
    # A statement of its own: one statement sees the database as of its start, which is before it waited for the lock.
    f" SELECT {START_COLUMNS} FROM clock"
)
_READER_THREADS = 2
_SCHEMA_TYPES = {"serial": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", "bytes": "BYTEA"}


class PostgresDatabase(PostgresReader, Database):
    remote = True
    server_sql = (
        f"SELECT {PostgresReader.clock_sql} AS moment, used, most, {_IS_OPENED} AS migrating"
        f" FROM ({_NEAREST_LIMIT}) AS nearest"
    )

    def __init__(self, url: DatabaseUrl, write_signal: WriteSignal) -> None:
        super().__init__(url)
        self.write_signal = write_signal
        self.schema_types: Mapping[str, str] = _SCHEMA_TYPES
        self._writer: PostgresConnection | None = None
        self._staged_on: PostgresConnection | None = None  # temporary tables belong to a session
        self._reader_threads = SideThreads(_READER_THREADS, "reader")
        self._of_threads: dict[int, PostgresConnection | None] = {}  # the connection of each, by its number
        self._is_committing = False
        self.on_lock_wait: OnLockWait | None = None
        self._copying: Row | None = None  # of the holder of the lock, when last seen
        self.serves_requests = False  # the wait for a commit is shorter then
        self.newest_event = 0  # the greatest number of an event that this process knows

    @property
    def reader(self) -> PostgresConnection:
        thread = threading.get_ident()
        if thread not in self._of_threads:
            return super().reader
        found = self._of_threads[thread]
        if found is None or found.closed:
            found = self._of_threads[thread] = self._connect()
        return found

    async def run_in_reader(self, work: Callable[[], Result]) -> Result:
        return await self._reader_threads.run(partial(self._run_in_thread, work))

    def _run_in_thread(self, work: Callable[[], Result]) -> Result:
        """Over a connection of its own: a snapshot belongs to a connection, and a thread would end that of another."""
        self._of_threads.setdefault(threading.get_ident(), None)
        return work()

    @property
    def writer(self) -> PostgresConnection:
        """The connection for writes; one thread at a time uses it."""
        if self._writer is None or self._writer.closed:
            self._writer = self._connect(writes=True)
        return self._writer

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        connection, start = self._begin()
        with connection.waiting(LONGEST_STATEMENT), self._committed(PostgresTransaction(connection, start)) as begun:
            if self._staged_on not in (None, connection):
                raise StoreTrouble("the connection with the staged rows was lost: nothing was changed")
            yield begun

    @contextmanager
    def staging(self) -> Iterator[Stage]:
        """Temporary tables belong to the session: they end with it, whatever happens."""
        with suppress(StoreTrouble):  # the server may have closed the connection since its last use
            execute(self.writer, "SELECT 1")
        connection, staged = self.writer, list[str]()

        def stage(table: str, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> StagedRows:
            staged.append(f"staged_{len(staged)}")
            selected = f"SELECT CAST(0 AS bigint) AS position, {', '.join(columns)} FROM {table}"
            execute(connection, f"DROP TABLE IF EXISTS pg_temp.{staged[-1]}")  # an earlier apply could not drop it
            execute(connection, f"CREATE TEMP TABLE {staged[-1]} AS {selected} WITH NO DATA")
            for first, some in slices(rows):
                numbered = [(position, *row) for position, row in enumerate(some, first)]
                copy_rows(connection, staged[-1], ("position", *columns), numbered)
            return StagedRows(columns, staged[-1])

        self._staged_on = connection
        try:
            yield stage
        finally:
            self._staged_on = None
            for name in staged:
                with suppress(StoreError):  # the session has ended, and the tables with it
                    execute(connection, f"DROP TABLE {name}")

    @contextmanager
    def _committed(self, transaction: PostgresTransaction) -> Iterator[Transaction]:
        connection = transaction.connection
        transaction.newest_event = self.newest_event
        with _rolled_back_on_error(connection):
            yield transaction
            self._commit(connection, transaction)
        self.newest_event = max(self.newest_event, transaction.newest_event)
        self.write_signal.send(of_tokens=transaction.changes_tokens)

    def _commit(self, connection: PostgresConnection, transaction: Transaction) -> None:
        self._is_committing = True
        try:
            with connection.waiting(_LONGEST_COMMIT if self.serves_requests else LONGEST_STATEMENT):
                _commit(connection, transaction.audit_head)
        except StoreTrouble as trouble:
            if not connection.closed:
                raise  # the server answered that it did not commit
            self._confirm(transaction, trouble)
        finally:
            self._is_committing = False

    def _confirm(self, transaction: Transaction, trouble: StoreTrouble) -> None:
        """Return if the transaction was stored, although the server did not answer its commit."""
        try:
            if transaction.audit_head is not None and is_stored(self._url, transaction.chain_end, _LONGEST_SEARCH):
                return
        except StoreTrouble:
            raise _unconfirmed(trouble) from None
        raise _unconfirmed(trouble) if transaction.audit_head is None else trouble

    def try_write(self) -> None:
        self._on_writer(try_write)

    def _begin(self) -> tuple[PostgresConnection, Row]:
        end = time.monotonic() + _LONGEST_LOCK_WAIT
        while True:
            try:
                return self._on_writer(_begin)
            except StoreConflict:
                self._name_holder(self.writer)
                if time.monotonic() > end:
                    raise StoreConflict("another transaction holds the lock that every write needs") from None

    def _on_writer(self, begin: Callable[[PostgresConnection], Result]) -> Result:
        used_before = self._writer
        try:
            return begin(self.writer)
        except StoreTrouble:
            if used_before is None or not used_before.closed or used_before is not self._writer:
                raise
        # The server closed the connection since its last use. Nothing was written yet, so repeating is safe.
        return begin(self.writer)

    def _name_holder(self, connection: PostgresConnection) -> None:
        """Report who holds the write lock, and end its session if it is one of ours with a silent client.

        The server ends most of these by itself, but none whose client falls silent in the middle of a message.
        """
        with suppress(StoreError):
            if (holder := find_session(lambda sql: named_rows(sql, execute(connection, sql)))) is not None:
                before, pid = self._copying, {"pid": holder.pid}
                self._copying = first_row(COPYING, execute(connection, COPYING, pid))
                works = self._copying not in (None, before)
                ended = None if works else first_row(END_SILENT, execute(connection, END_SILENT, pid))
                if self.on_lock_wait is not None:
                    self.on_lock_wait(holder, ended is not None and ended.ended)

    def write_unversioned(self, sql: str, values: Values = NO_VALUES, /) -> list[Row]:
        """Run one statement that writes, in a transaction of its own, and return its rows. In any thread.

        It takes no revision and sends no signal, so it must not change anything that a process keeps in memory.
        """
        self._ask(_begin_unversioned)
        connection = self.reader
        with _committed_or_rolled_back(connection):
            return named_rows(sql, execute(connection, sql, values))

    def open_reader(self) -> PostgresReader:
        return PostgresReader(self._url, soon=not has_connect_timeout(self._url))

    @contextmanager
    def migration(self, lock_seconds: float = 0) -> Iterator[Execute]:
        connection = self.writer
        with connection.waiting(LONGEST_MIGRATION), _committed_or_rolled_back(connection), translate_errors():
            connection.execute("BEGIN")
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute(f"SET LOCAL lock_timeout = {lock_seconds * 1000:.0f}".encode())
            # The server expects few rows where a migration finds many: it would look up each of a million by itself.
            connection.execute("SET LOCAL enable_nestloop = off")
            # Beside services, only parts that are short hold locks.
            silence = LONGEST_SILENCE if lock_seconds else 60
            connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{silence}s'".encode())
            connection.execute("SELECT set_config('application_name', %s, true)", [_migrating(connection)])
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATION_LOCK])
            yield _schema_statements(connection)

    def build_index(self, name: str, statement: str) -> None:
        connection = self.writer
        with connection.waiting(LONGEST_MIGRATION), translate_errors():
            try:
                connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
                connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())
                connection.execute(to_postgres(statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1)))
            finally:
                if not connection.closed:
                    limit_writes(connection)

    @contextmanager
    def trial(self, rows: int) -> Iterator[Execute]:
        connection, tables = self.writer, self.tables()
        with connection.waiting(LONGEST_MIGRATION), translate_errors():
            connection.execute("BEGIN")
            connection.execute(
                "SET LOCAL statement_timeout = '60s'; SET LOCAL idle_in_transaction_session_timeout = '60s'"
            )
            try:
                schema = self.read("SELECT current_schema() AS name")[0].name
                for each in tables:
                    copied = f"INSERT INTO {each.name} SELECT * FROM {schema}.{each.name} LIMIT {rows}"
                    connection.execute(f"CREATE TEMP TABLE {each.name} (LIKE {each.name} INCLUDING ALL)".encode())
                    connection.execute(copied.encode())
                connection.execute("SET LOCAL search_path = pg_temp")  # for tables that the statements create
                yield _schema_statements(connection)
            finally:
                _roll_back(connection)

    def is_served(self) -> bool:
        return bool(self.read(_SERVING))

    def load(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        copy_rows(self.writer, table.name, table.column_names, rows)

    def set_counter(self, table: Table, greatest: int) -> None:
        with translate_errors():
            self.writer.execute(
                "SELECT setval(pg_get_serial_sequence(%s, %s), %s)", [table.name, table.serial, greatest]
            )

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Across machines: of two first starts, one creates the master key, and the other reports that it needs it."""
        connection = self.writer
        with translate_errors():
            if problem := self.pooler_problem(connection):
                raise problem
            self._wait_for_opening_lock(connection)
        try:
            yield
        finally:
            if not connection.closed:
                with translate_errors():
                    connection.execute("SELECT pg_advisory_unlock(%s)", [OPENING_LOCK])

    def _wait_for_opening_lock(self, connection: PostgresConnection) -> None:
        """Wait for up to an hour: another process may be migrating."""
        end = time.monotonic() + LONGEST_MIGRATION
        while connection.execute("SELECT pg_try_advisory_lock(%s)", [OPENING_LOCK]).fetchone() != (True,):
            if time.monotonic() > end and (holder := connection.execute(_HOLDER_OF_LOCK, [OPENING_LOCK]).fetchone()):
                raise OperatorError(
                    f"waited {LONGEST_MIGRATION:g} seconds for another process that opens, migrates or fills the"
                    f" database {self._url}",
                    f"Wait until it is ready. If it is gone, end its session: SELECT pg_terminate_backend({holder[0]})",
                )
            time.sleep(_OPENING_SECONDS)

    def suspend(self) -> None:
        super().suspend()
        self._reader_threads.give_up(StoreTrouble(SUSPENDED))

    def _connections(self) -> list[PostgresConnection | None]:
        """Without one that commits: its wait is bounded, and the server may have stored the write."""
        return [self._reader, None if self._is_committing else self._writer, *self._of_threads.values()]

    def close(self) -> None:
        ended = self._reader_threads.end()
        for connection in self._of_threads.values():
            if connection is not None:
                connection.close() if ended else interrupt(connection)
        if ended:
            self._of_threads.clear()
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        super().close()


def _schema_statements(connection: PostgresConnection) -> Execute:
    return lambda sql, values=NO_VALUES: connection.execute(to_postgres(to_postgres_schema(sql)), values)


def _migrating(connection: PostgresConnection) -> str:
    """The name of a session that others leave alone, however long they wait for it."""
    return (connection.info.parameter_status("application_name") or "").replace(" write ", " migrate ")


def _begin(connection: PostgresConnection) -> tuple[PostgresConnection, Row]:
    with translate_errors(), _rolled_back_on_error(connection):
        with connection.waiting(_LONGEST_BEGIN):
            begun = connection.execute(_BEGIN, prepare=False)  # three statements in one message
        while begun.nextset():
            pass
        start = first_row(_BEGIN, begun)
        assert start is not None
        return connection, start


def _begin_unversioned(connection: PostgresConnection) -> PostgresCursor:
    with translate_errors():
        return connection.execute(_BEGIN_UNVERSIONED, prepare=False)


@contextmanager
def _committed_or_rolled_back(connection: PostgresConnection) -> Iterator[None]:
    with _rolled_back_on_error(connection):
        yield
        _commit(connection)


@contextmanager
def _rolled_back_on_error(connection: PostgresConnection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _roll_back(connection)
        raise


def _commit(connection: PostgresConnection, audit_head: bytes | None = None) -> None:
    """All in one message, which takes no parameters: the head costs no round trip."""
    head = "" if audit_head is None else f"UPDATE clock SET audit_head = decode('{audit_head.hex()}', 'hex'); "
    with translate_errors():
        committed = connection.execute(f"{head}COMMIT".encode(), prepare=False)
        if head:
            committed.nextset()
    if committed.statusmessage != "COMMIT":  # the server rolls back at COMMIT when a statement before it failed
        raise StoreTrouble("a statement of the transaction failed, so the server rolled it back")


def _unconfirmed(trouble: StoreTrouble) -> StoreUnconfirmed:
    problem = f"the server did not confirm the commit, so the write may be stored: {trouble}"
    return StoreUnconfirmed(problem, trouble.cause)


def _roll_back(connection: PostgresConnection) -> None:
    """When even this fails the connection is closed, and the server rolls back its transaction."""
    if connection.closed or connection.info.transaction_status == TransactionStatus.IDLE:
        return
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()
