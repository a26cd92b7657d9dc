"""How a connection to PostgreSQL is made: with bounds on every wait, and without a word of the password."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError, StoreError, StoreRefusal, StoreTrouble, StoreUnreachable

PostgresConnection = psycopg.Connection[tuple[Any, ...]]

# A server that vanished without a word is noticed within a minute. What the URL itself says goes before these.
_USUAL = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "relaydeck",
}
_LIMITS = "-c statement_timeout=60s -c lock_timeout=10s"
# A reader only writes where it says so. It may be idle in a transaction (an export into a pager); a writer that is
# keeps all the others waiting, so the server ends it.
_READER_LIMITS = " -c default_transaction_read_only=on"
_WRITER_LIMITS = " -c idle_in_transaction_session_timeout=60s"
# An answered write is on disk. `off` would break that; every other value keeps it.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


def connect(url: DatabaseUrl, *, writes: bool = False) -> PostgresConnection:
    """Raises StoreUnreachable, or OperatorError for what no waiting mends."""
    given = _given(url)
    limits = _LIMITS + (_WRITER_LIMITS if writes else _READER_LIMITS)
    options = _USUAL | given | {"options": f"{limits} {given.get('options', '')}".strip(), "client_encoding": "utf8"}
    try:
        connection = psycopg.connect(make_conninfo("", **options), autocommit=True)
        if writes:
            connection.execute(_DURABLE)
    except psycopg.Error as error:
        told = str(error).partition("\n")[0]
        raise StoreUnreachable(f"the database {url} cannot be reached: {told}") from None
    return _checked(connection, url)


def break_off(connection: PostgresConnection | None) -> None:
    """Let a thread that waits for the server's word find the connection broken. For when no word may ever come."""
    if connection is None or connection.closed:
        return
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)


def _given(url: DatabaseUrl) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url.reveal()).items()}
    except psycopg.ProgrammingError:
        # Not in the driver's words: they quote what they could not read, which may be a password.
        raise OperatorError(
            "RELAYDECK_DATABASE_URL cannot be read as the address of a PostgreSQL server",
            "It is postgresql://user:password@host:port/name, with special characters of the password percent-encoded.",
        ) from None


def _checked(connection: PostgresConnection, url: DatabaseUrl) -> PostgresConnection:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise OperatorError(
            f"the database {url} has the encoding {encoding}", "Create one with ENCODING 'UTF8' and name that."
        )
    # Every integer in one type: a statement is planned once, however large its numbers grow.
    connection.adapters.register_dumper(int, Int8Dumper)
    return connection


def create_database(url: DatabaseUrl, name: str) -> bool:
    """Another database on the same server; False when this user may not, or the server will not."""
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
        raise StoreTrouble(f"the database {name} could not be removed again: drop it by hand") from None


@contextmanager
def translate_errors() -> Iterator[None]:
    """What the driver raises inside leaves as a StoreError of ours."""
    try:
        yield
    except psycopg.Error as error:
        raise in_our_words(error) from None


def in_our_words(error: psycopg.Error) -> StoreError:
    refused = isinstance(error, psycopg.IntegrityError | psycopg.DataError)
    first_line = error.diag.message_primary or str(error).partition("\n")[0]
    return (StoreRefusal if refused else StoreTrouble)(first_line)
