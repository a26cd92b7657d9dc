"""Ways to break a connection to a PostgreSQL server."""

import ctypes
import os
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from tests.support.postgres import PostgresServer


def hang_up(connection: psycopg.Connection, postgres: PostgresServer) -> None:
    """As a server does that is restarted."""
    postgres.ask(f"SELECT pg_terminate_backend({connection.info.backend_pid}, 5000)")


@contextmanager
def silent(connection: psycopg.Connection) -> Iterator[None]:
    """The server's process of this connection stops: it answers nothing, and its limits do not apply any more."""
    os.kill(connection.info.backend_pid, signal.SIGSTOP)
    pid = connection.info.backend_pid
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def lost_on_the_way(connection: psycopg.Connection) -> Iterator[None]:
    """Nothing passes between client and server any more, and neither of them learns that."""
    kept, (ours, theirs) = os.dup(connection.fileno()), socket.socketpair()
    os.dup2(ours.fileno(), connection.fileno())
    try:
        with ours, theirs:
            yield
    finally:
        os.close(kept)


def drop_what_arrives(connection: psycopg.Connection) -> None:
    """The machine of the client is gone, as far as the server can see: nothing is acknowledged any more."""
    refuse_all = struct.pack("HBBI", 0x06, 0, 0, 0)  # a program of one instruction: keep no byte of a packet
    program = ctypes.create_string_buffer(refuse_all)
    attach_filter = 26  # SO_ATTACH_FILTER
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        given = struct.pack("@HP", 1, ctypes.addressof(program))
        duplicate.setsockopt(socket.SOL_SOCKET, attach_filter, given)


@contextmanager
def exhausted(server: PostgresServer) -> Iterator[None]:
    """No other client has a connection to the server, and none can open one."""
    held: list[psycopg.Connection] = []
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND NOT pid = ANY (%s)"
    )
    try:
        held.append(psycopg.connect(server.url().reveal(), autocommit=True))
        while _fill_up(server, held) or held[0].execute(others, [[each.info.backend_pid for each in held]]).fetchall():
            pass
        yield
    finally:
        for each in held:
            each.close()


def _fill_up(server: PostgresServer, held: list[psycopg.Connection]) -> bool:
    """Take every connection that is free. False: there was none."""
    before = len(held)
    with suppress(psycopg.OperationalError):
        while True:
            held.append(psycopg.connect(server.url().reveal(), autocommit=True))
    return len(held) > before
