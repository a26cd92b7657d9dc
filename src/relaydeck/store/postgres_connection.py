"""Connections to PostgreSQL: every wait is bounded, and no message contains the password or a row.

Of a server's error message only the first line is used: the lines after it quote rows.
"""

import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import (
    OperatorError,
    StoreConflict,
    StoreError,
    StoreMisuse,
    StoreRefusal,
    StoreTrouble,
    StoreUnreachable,
)

Result = TypeVar("Result")
CHANNEL = "relaydeck"  # each commit notifies it of its revision

# A server that disappears without closing the connection is noticed within a minute. The URL overrides these.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "relaydeck",
}
_SOON = {"connect_timeout": "2"}  # the least that the driver takes
_LIMITS = "-c statement_timeout=60s -c lock_timeout=10s"
_LONGEST_WAIT = 65.0  # seconds: longer than the server lets a statement take
_REST_OF_ANSWER = 0.2  # seconds: for an answer of which a part has come
LONGEST_MIGRATION = 3600.0  # of one statement, or the wait for another process that migrates
LONGEST_STATEMENT = 15.0  # of a transaction that others wait for: longer than the server lets it wait for a lock
# A reader only writes in a transaction that it declares READ WRITE. It may stay idle in a transaction (an export into
# a pager); a writer that does so blocks all the others, so the server ends it.
_READER_LIMITS = " -c default_transaction_read_only=on"
_WRITER_LIMITS = " -c idle_in_transaction_session_timeout=60s"
# An acknowledged write is on disk: every value of synchronous_commit but `off` guarantees that.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"

# A session keeps its locks until the server notices that its client is gone: with these settings, in about a minute.
_KEEPALIVES = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
# The same while the client has not acknowledged an answer, and while a statement runs. Not every server supports it.
_MORE_KEEPALIVES = "SET tcp_user_timeout = 60000; SET client_connection_check_interval = '10s'"
_KNOWS_MORE = 140_000  # the first version of the server that has both settings

# The start keeps it apart from a process of another server with the same number.
_SESSION = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
# A commit that waits for a synchronous standby is left alone: to end that wait is to do without the standby.
_END_SESSION = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"
    " AND datname = current_database() AND usename = current_user AND wait_event IS DISTINCT FROM 'SyncRep'"
)


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """Waits for a response for a bounded time. A server that hangs keeps its limits no more than it answers."""

    longest_wait = _LONGEST_WAIT
    session: tuple[Any, ...] | None = None  # of one that writes: process of the server, and when it started
    fell_silent = False

    def wait(self, gen: PQGen[Result], interval: float = 0.1, timeout: float | None = None) -> Result:
        try:
            try:
                return super().wait(gen, interval, self.longest_wait if timeout is None else timeout)
            except psycopg.errors._WaitTimeout:
                if timeout is not None or not self._has_answered():
                    raise
            return super().wait(gen, interval, _REST_OF_ANSWER)
        except psycopg.errors._WaitTimeout:
            if timeout is not None:
                raise
            self.fell_silent = True
            self.pgconn.finish()  # the response may still come: no other statement may take it for its own
            raise psycopg.OperationalError("the database server does not answer") from None

    def _has_answered(self) -> bool:
        """Whether an answer came while this process was not running, and could not look in time."""
        answers = select.poll()
        answers.register(self.fileno(), select.POLLIN)
        return bool(answers.poll(0))

    @contextmanager
    def waiting(self, seconds: float) -> Iterator[None]:
        """Wait for so long for each response in this block."""
        before, self.longest_wait = self.longest_wait, seconds
        try:
            yield
        finally:
            self.longest_wait = before


def connect(url: DatabaseUrl, *, writes: bool = False, soon: bool = False) -> PostgresConnection:
    """Raises StoreUnreachable, or OperatorError when trying again cannot help. `soon`: a request waits for it."""
    given = _url_options(url) | (_SOON if soon else {})
    limits = _LIMITS + (_WRITER_LIMITS if writes else _READER_LIMITS)
    options = _DEFAULTS | given | {"options": f"{limits} {given.get('options', '')}".strip(), "client_encoding": "utf8"}
    try:
        connection = PostgresConnection.connect(make_conninfo("", **options), autocommit=True)
        connection.longest_wait = _LONGEST_WAIT
        if writes:
            with connection.waiting(float(options["connect_timeout"]) or _LONGEST_WAIT):
                connection.execute(_DURABLE)
                connection.session = connection.execute(_SESSION).fetchone()
                _notice_lost_clients(connection)
    except psycopg.Error as error:
        first_line = str(error).partition("\n")[0]
        raise StoreUnreachable(f"the database {url} cannot be reached: {first_line}") from None
    return _checked(connection, url)


def _notice_lost_clients(connection: PostgresConnection) -> None:
    connection.execute(_KEEPALIVES)
    if connection.info.server_version >= _KNOWS_MORE:
        with suppress(psycopg.DataError):
            connection.execute(_MORE_KEEPALIVES)


def end_session(silent: PostgresConnection, connection: PostgresConnection) -> None:
    """End the transaction of a connection that fell silent: it keeps the lock that all writers need.

    The network may have lost the connection without the server noticing.
    """
    if silent.session is not None:
        with translate_errors():
            connection.execute(_END_SESSION, silent.session)


def interrupt(connection: PostgresConnection | None) -> None:
    """Make a thread that waits for the server on this connection fail at once: a server that hangs may never answer."""
    if connection is None or connection.closed:
        return
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)


def _url_options(url: DatabaseUrl) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url.reveal()).items()}
    except psycopg.ProgrammingError:
        # The driver's message is not used: it quotes the text that it could not parse, which may be a password.
        raise OperatorError(
            "RELAYDECK_DATABASE_URL is not a valid address of a PostgreSQL server",
            "Write postgresql://user:password@host:port/name, with special characters of the password percent-encoded.",
        ) from None


def _checked(connection: PostgresConnection, url: DatabaseUrl) -> PostgresConnection:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise OperatorError(
            f"the database {url} has the encoding {encoding}, but UTF8 is required",
            "Create a database with ENCODING 'UTF8' and set RELAYDECK_DATABASE_URL to it.",
        )
    # All integers have one type, so that the server plans a statement once, whatever the size of its numbers.
    connection.adapters.register_dumper(int, Int8Dumper)
    return connection


class PostgresChangeFeed:
    """A connection that receives a notification for each commit, by any machine."""

    def __init__(self, url: DatabaseUrl) -> None:
        self._connection = connect(url)
        try:
            with translate_errors():
                self._connection.execute(f"LISTEN {CHANNEL}")
                # A duplicate: the driver closes its socket when the connection breaks, while the event loop still
                # watches it.
                self._descriptor = os.dup(self._connection.fileno())
        except BaseException:
            self._connection.close()
            raise

    def fileno(self) -> int:
        return self._descriptor

    def consume(self) -> None:
        """Discard the notifications that arrived: a refresh finds out which revisions they were."""
        with translate_errors():
            self._connection.pgconn.consume_input()
            while self._connection.pgconn.notifies() is not None:
                pass

    def close(self) -> None:
        os.close(self._descriptor)
        self._connection.close()


def create_database(url: DatabaseUrl, name: str) -> bool:
    """Create another database on the same server. False when this user may not, or the server refuses."""
    with connect(url, writes=True) as connection:
        try:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'".encode())
        except psycopg.Error:
            return False
    return True


def drop_database(url: DatabaseUrl, name: str) -> None:
    try:
        with connect(url, writes=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
    except psycopg.Error:
        raise StoreTrouble(f"the database {name} could not be dropped: drop it by hand") from None


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turns an error of the driver into a StoreError."""
    try:
        yield
    except psycopg.Error as error:
        raise to_store_error(error) from None


def to_store_error(error: psycopg.Error) -> StoreError:
    first_line = error.diag.message_primary or str(error).partition("\n")[0]
    if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected):
        return StoreConflict(first_line)
    if isinstance(error, psycopg.ProgrammingError) and not isinstance(error, psycopg.errors.InsufficientPrivilege):
        return StoreMisuse(first_line)
    refused = isinstance(error, psycopg.IntegrityError | psycopg.DataError)
    return (StoreRefusal if refused else StoreTrouble)(first_line)
