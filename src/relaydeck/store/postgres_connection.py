"""Connections to PostgreSQL: every wait is bounded, and no message contains the password or a row.

Of a server's error message only the first line is used: the lines after it quote rows.
"""

import os
import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper

from relaydeck import errors
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.lock_holder import LONGEST_SILENCE, session_name

Result = TypeVar("Result")

# A server that disappears without closing the connection is noticed within a minute. The URL overrides these.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_SOON = {"connect_timeout": "2"}  # the least that the driver takes
_REFUSED_PARAMETER = re.compile(r"unsupported startup parameter(?: in options)?: (\w+)")  # the words of PgBouncer
LONGEST_WAIT = 65.0  # seconds: longer than the server lets a statement take
_REST_OF_ANSWER = 0.2  # seconds: for an answer of which a part has come
LONGEST_MIGRATION = 3600.0  # of one statement, or the wait for another process that migrates
LONGEST_STATEMENT = 8.0  # of a transaction that others wait for: longer than the server lets it take
# A reader only writes in a transaction that it declares READ WRITE. It may stay idle in a transaction (an export into
# a pager).
_READER_LIMITS = {"statement_timeout": "60s", "lock_timeout": "10s", "default_transaction_read_only": "on"}
# Every writer waits for a transaction that writes: the server ends it when its client falls silent, whether the client
# is frozen or the network has lost it. Not every server has all of these settings.
_WRITER_LIMITS = {
    "statement_timeout": "7s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": f"{LONGEST_SILENCE}s",
    "tcp_keepalives_idle": "4",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "7000",  # while the client has not acknowledged an answer
}
_LONG_STATEMENTS = {"statement_timeout": "60s"}
# The server looks for the end of the connection also while a statement runs. Some platforms refuse it.
_CHECK_CLIENT = {"client_connection_check_interval": "2s"}
# After connecting, because poolers refuse or ignore such settings in the request for a connection. What the URL sets
# is left as it is.
_SET = (
    "SELECT set_config(name, value, %s) FROM unnest(%s::text[], %s::text[]) AS ours (name, value)"
    " JOIN pg_settings USING (name) WHERE source <> 'client'"
)
# An acknowledged write is on disk: every value of synchronous_commit but `off` guarantees that.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"

# The causes of failed writes, by how the server's error code begins.
_CAUSES = {
    "42501": "no_permission",
    "25006": "read_only",
    "53100": "disk_full",
    "58030": "disk_error",
    "57014": "timeout",
    **dict.fromkeys(("08", "53300", "57P"), "unreachable"),
}
_SILENT = "the database server does not answer"


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """Waits for a response for a bounded time. A server that hangs keeps its limits no more than it answers."""

    longest_wait = LONGEST_WAIT

    def wait(self, gen: PQGen[Result], interval: float = 0.1, timeout: float | None = None) -> Result:
        return super().wait(self._bounded(gen) if timeout is None else gen, interval, timeout)

    def _bounded(self, steps: PQGen[Result]) -> PQGen[Result]:
        """The driver resumes it when the server sent something, and with nothing after each interval."""
        deadline, is_prolonged = time.monotonic() + self.longest_wait, False
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > deadline:
                    if is_prolonged or not self._has_answered():
                        self.pgconn.finish()  # the response may still come: no other statement may take it for its own
                        raise psycopg.OperationalError(_SILENT)
                    deadline, is_prolonged = time.monotonic() + _REST_OF_ANSWER, True
                wanted = steps.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

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


def has_connect_timeout(url: DatabaseUrl) -> bool:
    """Whether the operator said how long a connection may take."""
    return "connect_timeout" in _url_options(url)


def connect(url: DatabaseUrl, *, writes: bool = False, soon: bool = False, purpose: str = "read") -> PostgresConnection:
    """Raises StoreUnreachable, or OperatorError when trying again cannot help. `soon`: a request waits for it."""
    given = _url_options(url) | (_SOON if soon else {})
    given["application_name"] = session_name(given.get("application_name", "relaydeck"), "write" if writes else purpose)
    options = _DEFAULTS | given | {"client_encoding": "utf8"}
    try:
        connection = PostgresConnection.connect(make_conninfo("", **options), autocommit=True)
        connection.longest_wait = float(options["connect_timeout"]) or LONGEST_WAIT
        _set_up(connection, writes=writes)
        connection.longest_wait = LONGEST_WAIT
    except psycopg.Error as error:
        first_line = str(error).partition("\n")[0]
        unreachable = errors.StoreUnreachable(f"the database {url} cannot be reached: {first_line}")
        if refused := _REFUSED_PARAMETER.search(first_line):
            unreachable.remedy = (
                f"Add {refused[1]} to ignore_startup_parameters of the pooler, or remove it from the URL."
            )
        raise unreachable from None
    return _checked(connection, url)


def _set_up(connection: PostgresConnection, *, writes: bool) -> None:
    if not writes:
        _set(connection, _READER_LIMITS)
        return
    limit_writes(connection)
    connection.execute(_DURABLE)
    with suppress(psycopg.DataError):
        _set(connection, _CHECK_CLIENT)


def limit_writes(connection: PostgresConnection) -> None:
    """Set the limits of a session that writes, or restore them."""
    _set(connection, _WRITER_LIMITS)


def limit_long_statements(connection: PostgresConnection) -> None:
    """Set the limits of statements that change any number of rows, until the transaction ends."""
    _set(connection, _LONG_STATEMENTS, local=True)
    connection.longest_wait = LONGEST_WAIT  # the block of the transaction restores it


def _set(connection: PostgresConnection, values: dict[str, str], *, local: bool = False) -> None:
    connection.execute(_SET, [local, list(values), list(values.values())])


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
        raise errors.OperatorError(
            "RELAYDECK_DATABASE_URL is not a valid address of a PostgreSQL server",
            "Write postgresql://user:password@host:port/name, with special characters of the password percent-encoded.",
        ) from None


def _checked(connection: PostgresConnection, url: DatabaseUrl) -> PostgresConnection:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise errors.OperatorError(
            f"the database {url} has the encoding {encoding}, but UTF8 is required",
            "Create a database with ENCODING 'UTF8' and set RELAYDECK_DATABASE_URL to it.",
        )
    # All integers have one type, so that the server plans a statement once, whatever the size of its numbers.
    connection.adapters.register_dumper(int, Int8Dumper)
    return connection


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turns an error of the driver into a StoreError."""
    try:
        yield
    except psycopg.Error as error:
        raise to_store_error(error) from None


def to_store_error(error: psycopg.Error) -> errors.StoreError:
    first_line = error.diag.message_primary or str(error).partition("\n")[0]
    if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected):
        return errors.StoreConflict(first_line)
    if isinstance(error, psycopg.ProgrammingError) and not isinstance(error, psycopg.errors.InsufficientPrivilege):
        return errors.StoreMisuse(first_line)
    refused = isinstance(error, psycopg.IntegrityError | psycopg.DataError)
    return (errors.StoreRefusal if refused else errors.StoreTrouble)(first_line, _cause_of(error))


def _cause_of(error: psycopg.Error) -> str:
    if str(error) == _SILENT:
        return "timeout"
    code = error.sqlstate or ("08" if isinstance(error, psycopg.OperationalError) else "")
    return next((cause for start, cause in _CAUSES.items() if code.startswith(start)), "other")


# -- our SQL, which SQLite runs as it is ----------------------------------------------------------

_QUOTED = r"""'[^']*'|"[^"]*["]"""
_PARTS = re.compile(rf"{_QUOTED}|::|%|:(?P<name>[A-Za-z_]\w*)|\b(?P<word>instr|json_group_array)\b")
_TEXT = re.compile(rf"{_QUOTED}|\b(?P<text>TEXT)\b")
_WORDS = {"instr": "strpos", "json_group_array": "json_agg"}


@cache
def to_postgres(sql: str) -> bytes:
    """Writes `:name` as `%(name)s`, doubles `%`, and renames the few functions that have another name there."""
    return _PARTS.sub(_part, sql).encode()


def _part(match: "re.Match[str]") -> str:
    if name := match["name"]:
        return f"%({name})s"
    if word := match["word"]:
        return _WORDS[word]
    return match[0].replace("%", "%%")


def to_postgres_schema(sql: str) -> str:
    """Gives text columns the collation "C": compared byte by byte, as in SQLite.

    The order then does not depend on the server's locale, and an index stays valid when the locale's rules change.
    """
    return _TEXT.sub(lambda match: 'TEXT COLLATE "C"' if match["text"] else match[0], sql)
