"""Strangers with more connections than the service may open files, and clients that are served beside them."""

import fcntl
import json
import os
import resource
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from relaydeck.http.connection_guard import Connection, connections, limit_unread, reset
from tests.support.raw_http import Wire
from tests.support.running import Running, children
from tests.support.seeding import fill, issue
from tests.support.tls import RunningTls, self_signed

SIGNERS = "/api/v1/signers"
STRANGERS = 1100
CONNECTIONS = 768  # that a worker holds with a limit of 1024 files
CROWDED = "too many connections: the oldest idle ones are closed"
UNREAD = "too many clients do not read their responses: their connections are closed"


@pytest.fixture(scope="module", autouse=True)
def many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("plain") / "home"
    fill(home, signers=[f"a signer with a rather long name, number {n}" for n in range(1000)])
    with Running(home, token=issue(home), files="1024") as running:
        yield running


@pytest.fixture
def calm(tmp_path: Path) -> Iterator[Running]:
    """Where nothing was logged yet."""
    home = tmp_path / "home"
    with Running(home, token=issue(home), files="1024") as running:
        yield running


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTls]:
    home = tmp_path_factory.mktemp("tls") / "home"
    certificate, key = self_signed(home.parent)
    with RunningTls(home, certificate, key, token=issue(home), files="1024") as running:
        yield running


def events(running: Running) -> list[str]:
    return [json.loads(line)["event"] for line in running.log.splitlines()]


def connect_silently(running: Running, stack: ExitStack) -> None:
    for _ in range(STRANGERS):
        stack.enter_context(Wire(running))


def test_the_log_states_how_many_connections_the_limit_on_open_files_permits(plain: Running, tls: Running) -> None:
    found = [json.loads(running.log.splitlines()[0]) for running in (plain, tls)]
    assert [(line["event"], line["files"], line["connections"]) for line in found] == [
        ("the limit on open files bounds the connections of a worker", 1024, CONNECTIONS)
    ] * 2


def test_1100_silent_connections_do_not_keep_others_out(plain: Running) -> None:
    with ExitStack() as stack:
        connect_silently(plain, stack)
        assert plain.ask("GET", f"{SIGNERS}?per_page=1").status == 200
    await_event(plain, CROWDED)


def test_1100_silent_tls_handshakes_do_not_keep_others_out_for_long(tls: RunningTls) -> None:
    """They end by themselves, or the worker that has no file left is replaced, whichever comes first."""
    with ExitStack() as stack:
        connect_silently(tls, stack)
        assert answered(tls) == 200


def answered(tls: RunningTls) -> int:
    """The status of the first response."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return tls.get(SIGNERS, tls.token)[0]
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_silent_tls_handshake_is_ended(tls: RunningTls) -> None:
    with Wire(tls) as wire:
        assert wire.closed()


def test_clients_that_do_not_read_are_dropped_when_they_are_many(plain: Running) -> None:
    """They leave responses unread long before the time limit for a single one."""
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(deaf(plain))
        await_event(plain, UNREAD)
        assert plain.ask("GET", f"{SIGNERS}?per_page=1").status == 200


def deaf(running: Running) -> Wire:
    wire = Wire(running)
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.send(wire.head("GET", f"{SIGNERS}?per_page=1000") * 20)
    return wire


def await_event(running: Running, expected: str) -> None:
    deadline = time.monotonic() + 60
    while expected not in events(running):
        assert time.monotonic() < deadline, events(running)
        time.sleep(0.01)


def test_what_was_closed_is_counted_and_logged_once(calm: Running) -> None:
    for _ in range(2):
        with ExitStack() as stack:
            connect_silently(calm, stack)
            assert calm.ask("GET", SIGNERS).status == 200
    await_event(calm, CROWDED)
    lines = calm.ask("GET", "/metrics").body.decode().splitlines()
    [closed] = [line for line in lines if line.startswith("relaydeck_connections_closed_total ")]
    assert float(closed.split()[1]) > 2 * (STRANGERS - CONNECTIONS)
    assert events(calm).count(CROWDED) == 1


def test_a_client_with_a_credential_keeps_its_connection_while_its_request_is_in_progress(calm: Running) -> None:
    body = json.dumps({"id": "slow", "type": "plain", "config": {"key": "0x" + "11" * 32}}).encode()
    with Wire(calm) as wire, ExitStack() as stack:
        length = f"Content-Length: {len(body)}"
        wire.send(wire.head("POST", SIGNERS, "Content-Type: application/json", length, "Expect: 100-continue"))
        assert wire.socket.recv(64) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connect_silently(calm, stack)
        assert calm.ask("GET", SIGNERS).status == 200
        wire.send(body)
        assert wire.answer().status == 201


def test_the_worker_is_the_same_as_before(plain: Running) -> None:
    assert len(children(plain.process.pid)) == 1
    assert not [line for line in plain.log.splitlines() if json.loads(line)["level"] == "error"]


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def connected(listening: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(listening.getsockname(), timeout=60)
    return client, listening.accept()[0]


def port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def test_connections_inherit_the_time_limit_of_unread_responses(listening: socket.socket) -> None:
    with socket.socket():
        assert limit_unread(2.5) == {port_of(listening)}
    client, server = connected(listening)
    with client, server:
        assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 2500


def test_connections_to_a_port_are_found_by_their_clients(listening: socket.socket) -> None:
    client, server = connected(listening)
    with client, server:
        found = connections({port_of(listening)})
        inode = os.fstat(server.fileno()).st_ino
        assert found == [Connection(server.fileno(), inode, client.getsockname(), unread=0)]


def test_a_connection_whose_client_does_not_read_is_unread(listening: socket.socket) -> None:
    client, server = connected(listening)
    with client, server:
        server.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                server.send(bytes(65_536))
        assert [each.unread > 0 for each in connections({port_of(listening)})] == [True]


def test_both_sides_notice_a_reset_connection(listening: socket.socket) -> None:
    client, server = connected(listening)
    with client:
        with server:
            reset(connections({port_of(listening)})[0])
            assert server.recv(1) == b""
        assert client.recv(1) == b""
        with pytest.raises(ConnectionError):
            client.send(b"x")


def test_a_number_that_belongs_to_another_connection_is_left_alone(listening: socket.socket) -> None:
    client, server = connected(listening)
    with client, server:
        found = connections({port_of(listening)})[0]
        reset(found._replace(peer=("127.0.0.1", 1)))
        client.sendall(b"x")
        assert server.recv(1) == b"x"


def test_a_lock_on_a_file_ends_when_its_holder_closes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "opening"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    limit_unread(30)
    os.close(descriptor)
    with path.open() as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_another_process_cannot_take_a_lock_that_sqlite_holds(tmp_path: Path) -> None:
    path = tmp_path / "relaydeck.db"
    take = f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        limit_unread(30)
        other = subprocess.run([sys.executable, "-c", take], capture_output=True, text=True, timeout=60, check=False)
    assert "database is locked" in other.stderr
