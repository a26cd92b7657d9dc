"""Ways to break a connection to a PostgreSQL server."""

import ctypes
import os
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.postgres import PostgresServer


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
