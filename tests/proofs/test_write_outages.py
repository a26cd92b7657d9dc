"""Writes that do not work are reported with their true cause, while lists are served; the report ends with the outage.

Each fault is a real one. Nobody sends a write: the workers find out by themselves.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from relaydeck.errors import WRITE_CAUSES
from relaydeck.settings.values import DatabaseUrl
from tests.contract.test_section_7_errors import disk_that_takes_nothing
from tests.proofs.small_disk import small_disk
from tests.proofs.test_full_disk import filled_up
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.postgres_pair import PostgresPair
from tests.support.running import Running, clean_environment, eventually, pipes, run_command
from tests.support.seeding import fill, issue, relayer

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

SIGNERS = "/api/v1/signers"
SIGNER = {"type": "plain", "config": {"key": "11" * 32}}
# A command of ours that is stopped inside a write.
STOPPED = """
import os, signal, sys
from pathlib import Path
from relaydeck.store.open_store import open_store_at
home = Path(sys.argv[1])
store = open_store_at(home, home / "relaydeck.db", home / "master.key")
with store.database.transaction():
    print("held", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
"""
STRANGER = r"the lock is held by session \d+ \(somebody, 127\.0\.0\.1\), in a transaction since \S+: idle"
Fault = Callable[[], AbstractContextManager[object]]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.remove()


def prepared(home: Path, url: DatabaseUrl | None = None) -> str:
    if url is not None:
        choose(home, url)
    fill(home, notifications={"pager": "a key"}, relayers=[relayer("one")])
    return issue(home, kind="admin")


def writes_of(running: Running) -> tuple[int, Any]:
    answer = running.ask("GET", "/readyz?detail", token="")
    return answer.status, answer.json["writes"]


def samples(running: Running) -> dict[str, str]:
    lines = running.ask("GET", "/metrics", token="").body.decode().splitlines()
    return {name: value for name, _, value in (line.rpartition(" ") for line in lines) if "_writes_" in name}


def told(running: Running) -> list[dict[str, Any]]:
    """What the log said about whether writes work. A worker that waits for a lock says so, too, and earlier."""
    return [json.loads(line) for line in running.log.splitlines() if re.search('"event": "writes (?!wait)', line)]


def findings(running: Running, *options: str, **settings: str) -> list[tuple[str, str]]:
    """What `doctor` says about writes."""
    done = run_command(running.home, "doctor", "--json", *options, **settings)
    return [(each["result"], each["remark"]) for each in json.loads(done.stdout) if each["subject"] == "writes"]


def go_through(running: Running, cause: str, fault: Fault, *, ready: int = 200, workers: int = 1) -> list[str]:
    """The whole story. Returns the line of the log, and what `doctor` found here and over HTTP."""
    eventually(lambda: running.ask("GET", "/writez", token="").status == 200)
    listed = running.ask("GET", SIGNERS).body
    with fault():
        eventually(lambda: running.ask("GET", "/writez", token="").status == 503)
        eventually(lambda: writes_of(running)[1]["cause"] == cause)
        status, writes = writes_of(running)
        assert (status, writes["ok"], writes["last_success_seconds"] >= 4) == (ready, False, True)
        assert writes["text"].startswith(f"{WRITE_CAUSES[cause]}; the last write succeeded ")
        assert running.ask("GET", "/writez", token="").body.decode().startswith(WRITE_CAUSES[cause])
        assert running.ask("GET", SIGNERS).body == listed
        shown = samples(running)
        assert (shown["relaydeck_writes_ok"], int(shown["relaydeck_writes_last_success_seconds"]) >= 4) == ("0", True)
        assert int(shown[f'relaydeck_writes_failed_total{{cause="{cause}"}}']) > 0
        there = {"server": f"http://127.0.0.1:{running.port}", "token": running.token}
        found = [*findings(running), *findings(running, **there)]
        assert [(result, remark.startswith(WRITE_CAUSES[cause])) for result, remark in found] == [("FAIL", True)] * 2
        eventually(lambda: len(told(running)) == workers)
        assert {(line["event"], line["reason"]) for line in told(running)} == {("writes fail", cause)}
    eventually(lambda: running.ask("GET", "/writez", token="").status == 200)
    eventually(lambda: len(told(running)) == 2 * workers)
    assert {line["event"] for line in told(running)[workers:]} == {"writes work again"}
    assert running.ask("POST", SIGNERS, SIGNER).status == 201
    assert writes_of(running)[1] | {"last_success_seconds": 0} == {
        "ok": True,
        "cause": None,
        "text": "writes work",
        "last_success_seconds": 0,
    }
    assert samples(running)["relaydeck_writes_ok"] == "1"
    assert findings(running)[0][0] == "ok"
    return [told(running)[0]["problem"], *(remark for _, remark in found)]


@contextmanager
def stopped_writer(home: Path) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(home),
    )
    try:
        assert pipes(process)[1].readline() == "held\n"
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=60)


def test_another_process_has_the_sqlite_file_locked(home: Path) -> None:
    with Running(home, "--workers", "2", token=prepared(home)) as running:
        go_through(running, "lock_held", lambda: stopped_writer(home), workers=2)


def test_the_disk_of_a_sqlite_file_is_full(tmp_path: Path) -> None:
    """Where no small disk may be made, files that cannot grow stand in for it."""
    with small_disk(tmp_path / "disk") as mounted:
        home = tmp_path / "disk"  # the log is beside it
        home.chmod(0o700)
        with Running(home, token=prepared(home)) as running:
            go_through(
                running,
                "disk_full" if mounted else "disk_error",
                lambda: filled_up(home) if mounted else disk_that_takes_nothing(running),
            )


def test_a_session_of_another_program_holds_the_lock(tmp_path: Path, server: PostgresServer) -> None:
    """Nobody ends it. A process of ours that is stopped inside a write loses the lock after five seconds."""
    home, url = tmp_path / "home", server.url(server.fresh())

    @contextmanager
    def locked() -> Iterator[None]:
        with psycopg.connect(url.reveal(), application_name="somebody") as stranger:
            stranger.execute("UPDATE clock SET revision = revision")
            yield
            stranger.rollback()

    with Running(home, token=prepared(home, url)) as running:
        found = go_through(running, "lock_held", locked)
    assert {bool(re.search(STRANGER, each)) for each in found} == {True}


def test_the_synchronous_standby_is_away(tmp_path: Path) -> None:
    pair, home = PostgresPair(), tmp_path / "home"

    @contextmanager
    def without_standby() -> Iterator[None]:
        pair.standby.stop()
        yield
        pair.standby.start()

    try:
        with Running(home, token=prepared(home, pair.url(pair.fresh()))) as running:
            go_through(running, "standby_away", without_standby)
    finally:
        pair.remove()


def test_the_role_has_no_right_to_write(tmp_path: Path, server: PostgresServer) -> None:
    home, name = tmp_path / "home", server.fresh()
    server.ask(f"CREATE ROLE role_of_{name} LOGIN PASSWORD 'limited'")
    server.ask(f"GRANT ALL ON SCHEMA public TO role_of_{name}", name)
    url = DatabaseUrl(f"postgresql://role_of_{name}:limited@127.0.0.1:{server.port}/{name}")

    @contextmanager
    def without_rights() -> Iterator[None]:
        server.ask(f"REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public FROM role_of_{name}", name)
        yield
        server.ask(f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO role_of_{name}", name)

    with Running(home, token=prepared(home, url)) as running:
        go_through(running, "no_permission", without_rights)


def test_the_database_is_a_standby(tmp_path: Path, server: PostgresServer) -> None:
    """A balancer should use replicas that are connected to the primary: this one is not ready."""
    home = tmp_path / "home"

    @contextmanager
    def in_recovery() -> Iterator[None]:
        server.stop()
        server.make_standby()
        yield
        server.promote()

    with Running(home, token=prepared(home, server.url(server.fresh()))) as running:
        go_through(running, "read_only", in_recovery, ready=503)


def test_a_session_that_is_read_only_by_default_does_not_hinder_writes(tmp_path: Path, server: PostgresServer) -> None:
    home, name = tmp_path / "home", server.fresh()
    token = prepared(home, server.url(name))
    server.ask(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with Running(home, token=token) as running:
        eventually(lambda: running.ask("GET", "/writez", token="").status == 200)
        assert running.ask("POST", SIGNERS, SIGNER).status == 201


def test_the_server_is_away(tmp_path: Path, server: PostgresServer) -> None:
    home = tmp_path / "home"
    with Running(home, token=prepared(home, server.url(server.fresh()))) as running:
        eventually(lambda: running.ask("GET", "/writez", token="").status == 200)
        server.stop()
        eventually(lambda: writes_of(running)[1]["cause"] == "unreachable")
        assert writes_of(running)[0] == 200
        server.start()
        eventually(lambda: running.ask("GET", "/writez", token="").status == 200)
