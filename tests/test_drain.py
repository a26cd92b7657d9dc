"""`relaydeck drain` and SIGUSR1: not ready at once, requests served meanwhile, then the end as on SIGTERM."""

import http.client
import json
import os
import signal
from pathlib import Path

from tests.support import shapes
from tests.support.running import Running, children, eventually, free_port, run_command
from tests.support.seeding import issue

SIGNERS = "/api/v1/signers"


def is_draining(running: Running) -> bool:
    ready = running.ask("GET", "/readyz")
    return (ready.status, ready.body) == (503, b"draining\n")


def test_a_service_that_drains_is_not_ready_and_serves_requests(home: Path) -> None:
    with Running(home, "--workers", "3", token=issue(home)) as running:
        assert running.ask("GET", "/readyz").status == 200
        running.process.send_signal(signal.SIGUSR1)
        eventually(lambda: is_draining(running))
        assert [is_draining(running) for _ in range(30)] == [True] * 30  # whichever worker is asked
        created = running.ask("POST", SIGNERS, shapes.request("plain", id="late"))
        assert (created.status, created.headers["connection"]) == (201, "close")
        assert running.ask("GET", "/healthz").status == 200
        assert running.stop() == 0  # SIGTERM ends the drain early
        assert '"event": "draining: not ready from now on' in running.log and '"seconds": 15' in running.log


def test_connections_that_are_kept_alive_are_closed_as_they_are_answered(home: Path) -> None:
    with Running(home, token=issue(home)) as running:
        client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
        client.request("GET", "/healthz")
        before = client.getresponse()
        assert (before.read(), before.getheader("connection")) == (b"ok\n", None)
        kept = client.sock
        running.process.send_signal(signal.SIGUSR1)
        eventually(lambda: is_draining(running))
        client.request("GET", SIGNERS, headers={"Authorization": f"Bearer {running.token}"})
        assert client.sock is kept
        answer = client.getresponse()
        assert (answer.status, answer.getheader("connection"), answer.read()[:1]) == (200, "close", b"{")
        assert client.sock is None  # the client has closed it, as it was told to


def test_the_command_waits_until_the_service_has_ended(home: Path) -> None:
    running = Running(home, "--workers", "2")
    done = run_command(home, "drain", "--for", "1", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"pid": running.process.pid, "seconds": 1})
    assert "serves requests for 1 s" in done.stderr
    assert (running.process.wait(60), list((home / "run").glob("drain-*"))) == (0, [])
    assert '"seconds": 1,' in running.log or '"seconds": 1}' in running.log
    running.stop()


def test_a_second_drain_waits_for_the_first(home: Path) -> None:
    running = Running(home)
    running.process.send_signal(signal.SIGUSR1)  # for 15 seconds
    eventually(lambda: is_draining(running))
    done = run_command(home, "drain", "--for", "600", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"pid": running.process.pid, "seconds": 15})
    assert f"process {running.process.pid} is draining already, for 15 s in all" in done.stderr
    running.stop()


def test_the_port_for_operations_says_it_too(home: Path) -> None:
    operations = free_port()
    with Running(home, operations_address=f"127.0.0.1:{operations}") as running:
        running.port = operations
        running.await_answer()
        running.process.send_signal(signal.SIGUSR1)
        eventually(lambda: is_draining(running))


def test_workers_do_not_mind_the_signal(home: Path) -> None:
    """It may be sent to the whole process group."""
    with Running(home, "--workers", "2") as running:
        workers = children(running.process.pid)
        os.killpg(running.process.pid, signal.SIGUSR1)
        eventually(lambda: is_draining(running))
        assert children(running.process.pid) == workers


def test_without_a_service_the_command_says_so(home: Path) -> None:
    home.mkdir(exist_ok=True)
    done = run_command(home, "drain")
    assert (done.returncode, f"no service of the home {home} that can be drained is running" in done.stderr) == (
        1,
        True,
    )


def test_a_service_that_was_killed_is_not_drained(home: Path) -> None:
    running = Running(home)
    running.kill()
    assert len(list((home / "run").glob("drain-*"))) == 1
    done = run_command(home, "drain")
    assert (done.returncode, f"no service of the home {home} that can be drained is running" in done.stderr) == (
        1,
        True,
    )


def test_two_services_of_one_home_are_named(home: Path) -> None:
    with Running(home) as one, Running(home) as other:
        done = run_command(home, "drain")
        pids = ", ".join(sorted(str(each.process.pid) for each in (one, other)))
        assert (done.returncode, f"several services of this home are running: {pids}" in done.stderr) == (1, True)
