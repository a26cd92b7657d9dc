"""`relaydeck serve`: how it starts, what it prints, how it stops."""

import http.client
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner

from relaydeck import __version__
from relaydeck.cli.commands import cli
from tests.console.conftest import Operator
from tests.support import shapes
from tests.support.raw_http import Wire
from tests.support.running import COMMAND, Running, children, clean_environment, eventually, free_port, run_command
from tests.support.seeding import issue, opened
from tests.support.statements import run_statement
from tests.support.tls import RunningTls, self_signed
from tests.support.token_format import is_token

SIGNERS = "/api/v1/signers"


def events(running: Running) -> list[str]:
    return [json.loads(line)["event"] for line in running.log.splitlines()]


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_request_in_flight_is_finished_before_the_end(home: Path, ending: signal.Signals) -> None:
    body = json.dumps(shapes.request("plain", id="in flight")).encode()
    with Running(home, token=issue(home)) as running, Wire(running) as wire:
        length = f"Content-Length: {len(body)}"
        wire.send(wire.head("POST", SIGNERS, "Content-Type: application/json", length) + body[:-1])
        served_by_now(running)
        running.process.send_signal(ending)
        stopping(running)
        wire.send(body[-1:])
        answer = wire.answer()
        code = running.process.wait(60)
    assert (answer.status, answer.json["data"]["id"], code, stored(home)) == (201, "in flight", 0, {"in flight"})


def stored(home: Path) -> set[str]:
    """The signers in the database of a home that is no longer served."""
    with opened(home) as store:
        return {row[0] for row in store.database.read("SELECT id FROM signers")}


def served_by_now(running: Running) -> None:
    """An answer that was asked for later: what was sent before has reached the worker."""
    assert running.ask("GET", "/healthz").status == 200


def stopping(running: Running) -> None:
    """Wait until the service takes no new connection."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", running.port), timeout=1) as client:
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                if not client.recv(1):
                    return
        except OSError:
            return
        time.sleep(0.01)
    raise AssertionError("it still takes connections")


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_service_ends_with_code_0(home: Path, ending: signal.Signals) -> None:
    running = Running(home)
    running.process.send_signal(ending)
    code = running.process.wait(60)
    running.stop()
    assert (code, events(running)[-1]) == (0, "stopped")


def test_workers_that_are_told_to_stop_while_they_start_stop(home: Path) -> None:
    """One of them that did not hear it would be waited for much longer than this test does."""
    issue(home)
    for _ in range(3):
        running = Running(home, "--workers", "8", stop_timeout_seconds="600")
        running.process.terminate()
        try:
            assert running.process.wait(60) == 0
        except subprocess.TimeoutExpired:
            running.kill()
            raise
        running.stop()


def test_core_dumps_are_off_and_a_readable_master_key_is_warned_of(home: Path) -> None:
    token = issue(home)
    (home / "master.key").chmod(0o644)
    with Running(home, token=token) as running:
        limits = Path(f"/proc/{running.process.pid}/limits").read_text().splitlines()
        assert [line.split()[4:6] for line in limits if line.startswith("Max core file size")] == [["0", "0"]]
        assert f"other users can read the master key; run: chmod 600 {home}/master.key" in running.log


def test_nothing_acknowledged_is_lost_when_it_ends_under_load(home: Path) -> None:
    acknowledged: list[str] = []

    def keep_creating(running: Running, name: str) -> None:
        for number in range(10_000):
            try:
                answer = running.ask("POST", SIGNERS, shapes.request("plain", id=f"{name}-{number}"))
            except (OSError, http.client.HTTPException):
                return
            if answer.status == 201:
                acknowledged.append(f"{name}-{number}")

    with Running(home, token=issue(home)) as running:
        threads = [threading.Thread(target=keep_creating, args=(running, name)) for name in "abcd"]
        for thread in threads:
            thread.start()
        while len(acknowledged) < 50:
            time.sleep(0.01)
        code = running.stop()
        for thread in threads:
            thread.join()
    assert (code, set(acknowledged) - stored(home)) == (0, set())


def test_a_worker_that_is_killed_is_replaced(home: Path) -> None:
    with Running(home, "--workers", "2", token=issue(home)) as running:
        victim = next(pid for pid in children(running.process.pid) if is_worker(pid))
        os.kill(victim, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while len(workers := [p for p in children(running.process.pid) if is_worker(p)]) < 2 or victim in workers:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running.await_answer()
        assert running.ask("GET", SIGNERS).status == 200


def test_the_log_says_which_worker_serves_again_and_after_how_long(home: Path) -> None:
    with Running(home, "--workers", "2") as running:
        for pid in filter(is_worker, children(running.process.pid)):
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: running.log.count('"a worker was replaced and serves again"') == 2)
    lines = [json.loads(line) for line in running.log.splitlines()]
    ended = [line["worker"] for line in lines if line["event"] == "a worker has died"]
    again = [line for line in lines if line["event"] == "a worker was replaced and serves again"]
    assert sorted(line["worker"] for line in again) == sorted(ended) == ["worker-1", "worker-2"]
    assert {(line["level"], line["seconds"] > 0) for line in again} == {("info", True)}
    died = [line for line in lines if line["event"] == "a worker has died"]
    assert {(line["died_of"], line["deaths"], line["pause_seconds"]) for line in died} == {("SIGKILL", 1, 0)}


def kill_again_and_again(running: Running, times: int) -> None:
    """One worker, and each that replaces it."""
    victims = {max(workers_of(running))}
    others = workers_of(running) - victims
    for count in range(1, times + 1):
        os.kill(max(victims), signal.SIGKILL)
        eventually(partial(_has_died, running, count))
        if count < times:
            eventually(lambda: bool(workers_of(running) - others))
            victims = workers_of(running) - others


def _has_died(running: Running, times: int) -> bool:
    return running.log.count('"a worker has died"') == times


def test_a_worker_that_dies_again_and_again_is_replaced_ever_later_while_others_serve(home: Path) -> None:
    with Running(home, "--workers", "2", token=issue(home)) as running:
        kill_again_and_again(running, 4)
        eventually(lambda: len(workers_of(running)) == 1)
        assert [running.ask("GET", path).status for path in (SIGNERS, "/readyz", "/healthz")] == [200, 200, 200]
        metrics = running.ask("GET", "/metrics").body
        assert b'relaydeck_worker_restarts_total{reason="signal"} 4\n' in metrics
        assert b"relaydeck_workers 1\n" in metrics
        assert running.stop() == 0  # at once, and not a failure
    died = [json.loads(line) for line in running.log.splitlines() if '"a worker has died"' in line]
    assert [(line["deaths"], line["pause_seconds"]) for line in died] == [(1, 0), (2, 1), (3, 2), (4, 4)]


def test_a_service_whose_workers_all_die_again_and_again_ends_with_the_reason(home: Path) -> None:
    running = Running(home)
    try:
        kill_again_and_again(running, 4)
        eventually(lambda: bool(workers_of(running)))
        os.kill(max(workers_of(running)), signal.SIGSEGV)
        assert running.process.wait(30) == 1
    finally:
        running.kill() if running.process.poll() is None else running.stop()
    last = json.loads(running.log.splitlines()[-1])
    assert (last["event"], last["died_of"], last["deaths"]) == (
        "the workers do not stay alive: the service ends",
        "SIGSEGV",
        5,
    )


def logging_to(pipe: IO[bytes]) -> type[Running]:
    """A service whose log goes there."""
    return type("Logging", (Running,), {"stderr": pipe})


@pytest.fixture
def full_pipe() -> Iterator[IO[bytes]]:
    """Its reader has stopped reading."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 65_536)
    os.set_blocking(write_end, True)
    with open(write_end, "wb") as pipe:
        yield pipe
    os.close(read_end)


def test_a_reader_of_the_log_that_is_stuck_stops_neither_a_replacement_nor_the_end(
    home: Path, full_pipe: IO[bytes]
) -> None:
    running = logging_to(full_pipe)(home, "--workers", "2")
    try:
        before = workers_of(running)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: len(workers_of(running) - before) == len(before))
        running.await_answer()
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 0
    finally:
        running.kill() if running.process.poll() is None else running.stop()


def test_lines_that_a_full_disk_does_not_take_are_counted(home: Path) -> None:
    with open("/dev/full", "wb") as full, logging_to(full)(home) as running:
        lost = re.compile(rb"^relaydeck_log_lines_dropped_total [1-9]", re.MULTILINE)
        eventually(lambda: lost.search(running.ask("GET", "/metrics").body) is not None)


def test_a_worker_that_dies_during_a_rolling_upgrade_is_replaced(home: Path) -> None:
    """A newer version has migrated the database, while this one still serves."""
    with Running(home, token=issue(home, "root", "admin")) as running:
        with opened(home) as store:
            run_statement(store.database, "INSERT INTO schema_versions (version, applied_at) VALUES (9999, 'tomorrow')")
        [victim] = [pid for pid in children(running.process.pid) if is_worker(pid)]
        os.kill(victim, signal.SIGKILL)
        running.await_answer()
        assert [running.ask("GET", path).status for path in (SIGNERS, "/admin/v1/signers")] == [200, 200]
        assert victim not in children(running.process.pid)


def workers_of(running: Running) -> set[int]:
    return set(filter(is_worker, children(running.process.pid)))


def is_worker(pid: int) -> bool:
    """Python keeps a helper process beside the workers."""
    try:
        return b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture(scope="module")
def log_lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The output for a home without a token that is served to the whole network."""
    with Running(tmp_path_factory.mktemp("log_lines") / "home", "--host", "0.0.0.0") as running:
        pass
    return [json.loads(line) for line in running.log.splitlines()]


def test_without_a_terminal_the_command_that_makes_a_token_is_named(log_lines: list[dict[str, str]]) -> None:
    event = "there is no access token yet: create one with 'relaydeck token create NAME'"
    assert [line["level"] for line in log_lines if line["event"] == event] == ["warning"]


def test_plain_http_on_a_non_loopback_address_warns_loudly(log_lines: list[dict[str, str]]) -> None:
    assert (log_lines[0]["level"], log_lines[0]["event"].split(":")[0]) == (
        "warning",
        "PLAIN HTTP ON A NON-LOOPBACK ADDRESS",
    )


def test_with_a_token_on_a_loopback_address_nothing_is_warned_of(home: Path) -> None:
    with Running(home, "--host", "localhost", token=issue(home)) as running:
        pass
    # A request that a busy machine answers late is sent again.
    assert list(dict.fromkeys(events(running))) == ["serving", "request", "stopped"]


def on_a_terminal(home: Path, port: int, *arguments: str) -> str:
    """What `serve` prints to a terminal until it serves."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", str(port), *arguments],
        env=clean_environment(home) | {"TERM": "xterm", "COLUMNS": "300"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said, deadline = b"", time.monotonic() + 60
    while b"info serving" not in said and time.monotonic() < deadline:
        readable, _, _ = select.select([ours], [], [], 0.1)
        if readable:
            said += os.read(ours, 65_536)
    process.terminate()
    process.wait(60)
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def welcomed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    home, port = tmp_path_factory.mktemp("terminal") / "home", free_port()
    return home, port, on_a_terminal(home, port)


def test_on_a_terminal_the_first_token_is_printed(welcomed: tuple[Path, int, str]) -> None:
    (token,) = re.findall(r"export TOKEN=(\S+)", welcomed[2])
    assert is_token(token)


def test_on_a_terminal_ready_to_paste_lines_are_printed(welcomed: tuple[Path, int, str]) -> None:
    _, port, said = welcomed
    assert said.count(f'curl -s http://127.0.0.1:{port}/api/v1/signers -H "Authorization: Bearer $TOKEN"') == 2


def test_the_lines_printed_on_a_terminal_work(welcomed: tuple[Path, int, str]) -> None:
    home, _, said = welcomed
    (token,) = re.findall(r"export TOKEN=(\S+)", said)
    (body,) = re.findall(r"-d '(.*)'", said)
    with Running(home, token=token) as running:
        assert running.ask("POST", SIGNERS, body.encode()).status == 201


def test_on_a_terminal_a_link_that_signs_in_to_the_console_once_is_printed(welcomed: tuple[Path, int, str]) -> None:
    home, port, said = welcomed
    (link,) = re.findall(rf"http://127\.0\.0\.1:{port}/console(/enter\?code=\S+)", said)
    with Running(home) as running:
        first, again = (Operator(running.port).enter(link) for _ in range(2))
    assert (first.status, first.headers["location"], again.status) == (303, "/console", 401)


def test_a_second_start_on_a_terminal_prints_no_token(welcomed: tuple[Path, int, str]) -> None:
    assert "TOKEN" not in on_a_terminal(welcomed[0], free_port())


def test_on_a_terminal_the_core_names_nothing_that_it_does_not_serve(home: Path) -> None:
    said = on_a_terminal(home, free_port(), "--core")
    assert ("export TOKEN=" in said, "/docs" in said, "/console" in said) == (True, False, False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]) -> Iterator[RunningTls]:
    home = tmp_path_factory.mktemp("https") / "home"
    with RunningTls(home, *certificate, token=issue(home)) as running:
        yield running


def test_https_is_served_with_a_certificate(tls: RunningTls) -> None:
    status, body = tls.get(SIGNERS, tls.token)
    assert (status, json.loads(body)) == (200, shapes.page([], 1, 10, 0))


def test_plain_http_to_an_https_service_is_not_answered(tls: RunningTls) -> None:
    with Wire(tls) as wire:
        wire.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            said = wire.socket.recv(100)
        except ConnectionError:
            said = b""
    assert not said.startswith(b"HTTP/1.1 200")


def test_a_certificate_without_its_key_is_refused(home: Path, certificate: tuple[Path, Path]) -> None:
    done = run_command(home, "serve", "--port", str(free_port()), "--tls-cert", str(certificate[0]))
    assert (done.returncode, done.stderr) == (
        1,
        "relaydeck: --tls-cert and --tls-key require each other\nPass both, or neither.\n",
    )


def test_an_option_replaces_a_setting_that_cannot_be_read(home: Path) -> None:
    with Running(home, port="eighty") as running:  # which passes --port
        assert running.ask("GET", "/healthz").status == 200
    refused = run_command(home, "serve", port="eighty", core="maybe")
    assert refused.stderr.startswith("relaydeck: RELAYDECK_PORT must be a port from 1 to 65535; RELAYDECK_CORE must be")


def test_a_port_that_is_taken_is_told_in_a_sentence(home: Path) -> None:
    with Running(home, token=issue(home)) as running:
        done = run_command(home, "serve", "--port", str(running.port))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_version(home: Path) -> None:
    done = run_command(home, "--version")
    assert (done.returncode, done.stdout, home.exists()) == (0, f"relaydeck {__version__}\n", False)


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("serve",),
        ("token",),
        ("token", "create"),
        ("token", "list"),
        ("token", "revoke"),
        ("apply",),
        ("export",),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_help_is_there_for_every_command(command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*command, "--help"])
    assert (done.exit_code, "Usage: " in done.output) == (0, True)


@pytest.mark.parametrize("command", [("serve",), ("token", "create"), ("apply",)], ids=" ".join)
def test_help_teaches_with_an_example(command: tuple[str, ...]) -> None:
    assert "relaydeck " + " ".join(command) in CliRunner().invoke(cli, [*command, "--help"]).output.split("Example")[-1]


def test_a_worker_that_cannot_start_says_why_and_ends_the_service(home: Path) -> None:
    issue(home)
    for name in ("limits", "limits.users"):
        (home / "run" / name).unlink(missing_ok=True)
    (home / "run" / "limits").mkdir()
    done = run_command(home, "serve", "--port", str(free_port()))
    log_lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 1
    assert {line["problem"] for line in log_lines if line["event"] == "cannot start"} == {
        f"Is a directory (EISDIR): {home / 'run' / 'limits'}"
    }


def test_the_operations_port_cannot_be_the_services_own(home: Path) -> None:
    port = free_port()
    done = run_command(home, "serve", "--port", str(port), operations_address=f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert "RELAYDECK_OPERATIONS_ADDRESS uses the port of the service itself" in done.stderr


def test_a_closed_terminal_ends_the_service(home: Path) -> None:
    running = Running(home, token=issue(home))
    running.process.send_signal(signal.SIGHUP)
    assert running.process.wait(60) == 0
    running.stop()


def test_signals_that_come_together_end_it_like_one(home: Path) -> None:
    for _ in range(5):
        running = Running(home, token="")
        for ending in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            running.process.send_signal(ending)
        assert running.stop() == 0


def test_a_certificate_that_is_none_is_told_in_a_sentence(home: Path) -> None:
    text = home.parent / "text"
    text.write_text("no certificate")
    done = run_command(home, "serve", "--port", str(free_port()), "--tls-cert", str(text), "--tls-key", str(text))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
