"""Strangers with more connections than the service may open files, and clients that are served beside them."""

import asyncio
import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from relaydeck.http.connection_guard import start_guard
from relaydeck.http.metric_counts import Metrics
from relaydeck.log import Log
from relaydeck.worker.reports import Reports
from tests.http.exhausted_server import FILES
from tests.http.raw import Wire
from tests.running import Running, children
from tests.seeding import fill, issue
from tests.tls import RunningTls, self_signed

SIGNERS = "/api/v1/signers"
STRANGERS = 1100
CONNECTIONS = 768  # that a worker holds with a limit of 1024 files
CROWDED = "too many connections: those that were silent longest are closed"
EXHAUSTED = "no file can be opened: the connections that were silent longest are closed"
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
        ("the limit on open files bounds the connections of a worker", 1024, CONNECTIONS),
        ("the limit on open files bounds the connections of a worker", 1024, 448),
    ]


def test_1100_silent_connections_do_not_keep_others_out(plain: Running) -> None:
    with ExitStack() as stack:
        connect_silently(plain, stack)
        assert plain.ask("GET", f"{SIGNERS}?per_page=1").status == 200
    await_event(plain, CROWDED)


def test_1100_silent_tls_handshakes_do_not_keep_others_out(tls: RunningTls) -> None:
    with ExitStack() as stack:
        connect_silently(tls, stack)
        assert tls.get(SIGNERS, tls.token)[0] == 200
    await_event(tls, CROWDED, EXHAUSTED)


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


def await_event(running: Running, *expected: str) -> None:
    """One of them: whether the files run out first is chance."""
    deadline = time.monotonic() + 60
    while not set(expected) & set(events(running)):
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


def test_a_server_that_can_open_no_file_recovers_and_logs_it_once() -> None:
    command = [sys.executable, "-m", "tests.http.exhausted_server"]
    piped = subprocess.PIPE
    with (
        ExitStack() as strangers,
        subprocess.Popen(command, stdin=piped, stdout=piped, stderr=piped, text=True) as server,
    ):
        assert server.stdout is not None
        address = "127.0.0.1", int(server.stdout.readline())
        for _ in range(FILES):
            strangers.enter_context(socket.create_connection(address, timeout=60))
        assert server.stdout.readline() == "recovered\n"
        with socket.create_connection(address, timeout=60) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
        _, log = server.communicate(timeout=60)
    assert [json.loads(line)["event"] for line in log.splitlines()] == [EXHAUSTED]


async def test_a_server_that_accepts_nobody_is_noticed(tmp_path: Path) -> None:
    log = Log(as_json=True, level="info")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        guard = start_guard(set(), log, Metrics(tmp_path / "metrics"), 30.0)
        with socket.create_connection(listening.getsockname()):
            assert await within_seconds(lambda: guard.unaccepted_seconds() > 0.5)
            listening.accept()[0].close()
            assert await within_seconds(lambda: guard.unaccepted_seconds() < 0.5)
        guard.close()


async def within_seconds(holds: Callable[[], bool]) -> bool:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)
    return True


def test_a_worker_that_accepts_nobody_does_not_count_as_alive(tmp_path: Path) -> None:
    now = [100.0]
    metrics = Metrics(tmp_path / "metrics", monotonic=lambda: now[0])
    metrics.claim_row()
    reports = Reports(Log(as_json=True, level="info"), metrics)
    reports.process(0.0, accepts=True)
    now[0] += 20
    reports.process(0.0, accepts=False)
    assert metrics.silent_workers(10.0) == 1


def test_the_worker_is_the_same_as_before(plain: Running, tls: Running) -> None:
    for running in (plain, tls):
        assert len(children(running.process.pid)) == 1
        assert not [line for line in running.log.splitlines() if json.loads(line)["level"] == "error"]
