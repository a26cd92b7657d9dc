"""The sockets of the HTTP server are limited and ended without a trace on the other open files of the process."""

import fcntl
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.http import own_sockets


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def connected(listening: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(listening.getsockname(), timeout=60)
    return client, listening.accept()[0]


def port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def test_listening_sockets_are_found_with_their_ports(listening: socket.socket) -> None:
    with socket.socket():
        assert own_sockets.listening_sockets() == {listening.fileno(): port_of(listening)}


def test_connections_inherit_the_time_limit_of_unread_responses(listening: socket.socket) -> None:
    own_sockets.limit_unread([listening.fileno()], 2.5)
    client, server = connected(listening)
    with client, server:
        assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 2500


def test_connections_to_a_port_are_found_by_their_clients(listening: socket.socket) -> None:
    client, server = connected(listening)
    with client, server:
        found = own_sockets.connections([port_of(listening)])
        assert [(each.descriptor, each.peer, each.unread_ms) for each in found] == [
            (server.fileno(), client.getsockname(), 0)
        ]


def test_a_connection_that_waits_to_be_accepted_is_counted(listening: socket.socket) -> None:
    with socket.create_connection(listening.getsockname(), timeout=60):
        waiting = own_sockets.queue_length([listening.fileno()])
        listening.accept()[0].close()
        assert (waiting, own_sockets.queue_length([listening.fileno()])) == (1, 0)


def test_both_sides_notice_a_reset_connection(listening: socket.socket) -> None:
    client, server = connected(listening)
    with client:
        with server:
            own_sockets.reset(own_sockets.connections([port_of(listening)])[0])
            assert server.recv(1) == b""
        assert client.recv(1) == b""
        with pytest.raises(ConnectionError):
            client.send(b"x")


def test_a_number_that_belongs_to_another_connection_is_left_alone(listening: socket.socket) -> None:
    client, server = connected(listening)
    with client, server:
        found = own_sockets.connections([port_of(listening)])[0]
        own_sockets.reset(found._replace(peer=("127.0.0.1", 1)))
        client.sendall(b"x")
        assert server.recv(1) == b"x"


def test_while_nothing_new_is_admitted_a_client_waits_and_is_accepted_afterwards(listening: socket.socket) -> None:
    with socket.socket() as client:
        client.settimeout(60)
        with own_sockets.no_new_connections([listening.fileno()]):
            client.setblocking(False)
            assert client.connect_ex(listening.getsockname()) != 0
            assert own_sockets.queue_length([listening.fileno()]) == 0
        listening.settimeout(60)
        accepted, peer = listening.accept()
        with accepted:
            assert peer == client.getsockname()


def test_a_lock_on_a_file_ends_when_its_holder_closes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "opening"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    own_sockets.listening_sockets()
    os.close(descriptor)
    with path.open() as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_another_process_cannot_take_a_lock_that_sqlite_holds(tmp_path: Path) -> None:
    path = tmp_path / "relaydeck.db"
    take = f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        own_sockets.listening_sockets()
        other = subprocess.run([sys.executable, "-c", take], capture_output=True, text=True, timeout=60, check=False)
    assert "database is locked" in other.stderr
