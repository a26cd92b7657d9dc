"""The probes notice a worker that no longer runs, on a port that none of the workers serves."""

import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.proofs.tcp_proxy import Proxy
from tests.support.places import choose
from tests.support.postgres import PostgresServer, through
from tests.support.running import Answer, Running, ask, children, eventually, free_port, run_command

READY_SECONDS, ALIVE_SECONDS = 10, 30  # as documented
TOLERANCE_SECONDS = 30  # for a busy machine


def workers_of(running: Running) -> list[int]:
    """The process that serves the probes has a child of its own."""
    return [each for each in children(running.process.pid) if not children(each)]


@contextmanager
def stopped(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def await_workers(port: int, workers: int) -> None:
    """Until so many have started: the probes do not count one that is starting."""
    deadline = time.monotonic() + TOLERANCE_SECONDS
    while f"\nrelaydeck_workers {workers}\n" not in (found := ask(port, "GET", "/metrics").body.decode()):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)


def await_status(port: int, path: str, status: int, seconds: float) -> Answer:
    deadline = time.monotonic() + seconds + TOLERANCE_SECONDS
    while (answer := probe(port, path)) is None or answer.status != status:
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    return answer


def probe(port: int, path: str) -> Answer | None:
    """None while the port is not served yet."""
    with suppress(ConnectionRefusedError):
        return ask(port, "GET", path)
    return None


@pytest.mark.prove
@pytest.mark.parallel
def test_a_worker_that_stops_is_not_ready_then_not_alive_and_recovers(tmp_path: Path) -> None:
    port = free_port()
    with Running(tmp_path / "home", "--workers", "2", operations_address=f"127.0.0.1:{port}") as running:
        await_status(port, "/readyz", 200, 0)
        await_workers(port, 2)
        one, _ = workers_of(running)
        with stopped(one):
            not_ready = await_status(port, "/readyz", 503, READY_SECONDS)
            still_alive = ask(port, "GET", "/healthz")
            not_alive = await_status(port, "/healthz", 503, ALIVE_SECONDS)
            assert (writes := ask(port, "GET", "/writez")).status == 200, writes.body  # the other worker does
            found = run_command(running.home, "doctor").stdout
        assert "\nok    writes: " in found
        assert f"\nFAIL  workers: 1 worker does not respond; if it is stopped, run 'kill -CONT {one}'" in found
        assert [not_ready.body, still_alive.body, not_alive.body] == [
            b"1 worker does not respond\n",
            b"ok\n",
            b"1 worker does not respond\n",
        ]
        await_status(port, "/healthz", 200, 0)
        await_status(port, "/readyz", 200, 0)


@pytest.mark.prove
@pytest.mark.parallel
def test_a_worker_that_can_open_no_file_is_replaced(tmp_path: Path) -> None:
    port = free_port()
    with Running(tmp_path / "home", operations_address=f"127.0.0.1:{port}") as running:
        await_status(port, "/healthz", 200, 0)
        [worker] = workers_of(running)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (3, 3))  # it has more open, and can open no other
        with socket.create_connection(("127.0.0.1", running.port)):
            eventually(lambda: worker not in workers_of(running))
        await_status(port, "/healthz", 200, 0)
        await_status(running.port, "/api/v1/signers", 401, 0)
    assert "no file can be opened: this worker ends and is replaced" in running.log


@pytest.mark.prove
@pytest.mark.parallel
def test_a_silent_connection_of_the_probes_is_not_taken_for_an_absent_database(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    home, port, proxy = tmp_path / "home", free_port(), Proxy(postgres.port)
    choose(home, through(postgres.url(postgres.fresh()), proxy.port))
    with closing(proxy), Running(home, operations_address=f"127.0.0.1:{port}"):
        await_text(port, "ready")
        proxy.silence()
        await_text(port, "ready, from memory")
        began = time.monotonic()
        await_text(port, "ready\n")
        assert time.monotonic() - began < 40  # the connection itself is given up after 65 seconds


def await_text(port: int, start: str) -> None:
    eventually(lambda: (found := probe(port, "/readyz")) is not None and found.body.decode().startswith(start))
