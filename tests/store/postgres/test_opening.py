"""What a start does before the database can be used, and what it refuses."""

import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from relaydeck.errors import OperatorError, StoreUnreachable
from relaydeck.settings.model import Settings
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store import postgres_connection
from relaydeck.store.migrate import newest_version
from relaydeck.store.open_store import open_store_at
from relaydeck.store.postgres import OPENING_LOCK, PostgresDatabase
from relaydeck.store.postgres_connection import connect
from relaydeck.store.write_signal import WriteSignal
from tests.support.pooler import TransactionPooler
from tests.support.postgres import PostgresServer
from tests.support.running import COMMAND, Running, ask, clean_environment, eventually, free_port, run_command
from tests.support.seeding import issue

PASSWORD = "planted-password-4711"


def test_a_start_that_waits_too_long_names_the_session_that_it_waits_for(
    home: Path, url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaydeck.store.postgres.LONGEST_MIGRATION", 0.2)
    with closing(connect(url)) as holder, pytest.raises(OperatorError) as refused:
        holder.execute("SELECT pg_advisory_lock(%s)", [OPENING_LOCK])
        pid = holder.info.backend_pid
        open_store_at(home, url, home / "master.key")
    assert str(refused.value.problem) == (
        f"waited 0.2 seconds for another process that opens, migrates or fills the database {url}"
    )
    assert refused.value.remedy == (
        f"Wait until it is ready. If it is gone, end its session: SELECT pg_terminate_backend({pid})"
    )


def test_a_database_in_another_encoding_is_refused(postgres: PostgresServer, tmp_path: Path) -> None:
    postgres.ask("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    home = tmp_path / "home"
    with pytest.raises(OperatorError) as refused:
        open_store_at(home, postgres.url("latin"), home / "master.key")
    assert refused.value.problem == (
        f"the database postgresql://127.0.0.1:{postgres.port}/latin has the encoding LATIN1, but UTF8 is required"
    )


def test_five_first_starts_at_once_migrate_once_and_agree_on_one_data_key(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url, home = postgres.url(postgres.fresh()), tmp_path / "home"
    environment = clean_environment(home, database_url=url.reveal())
    starts = [
        subprocess.Popen([*COMMAND, "token", "create", f"t{n}"], env=environment, stdout=subprocess.DEVNULL)
        for n in range(5)
    ]
    assert [start.wait(60) for start in starts] == [0] * 5
    name = str(url).rpartition("/")[2]
    assert postgres.ask("SELECT count(*), max(version) FROM schema_versions", name) == [(newest_version(),) * 2]
    assert postgres.ask("SELECT count(*) FROM data_keys", name) == [(1,)]


def test_a_service_is_not_ready_before_one_of_its_workers_has_loaded_the_records(home: Path, url: DatabaseUrl) -> None:
    issue(home)
    operations = free_port()

    def probe() -> bytes:
        with suppress(OSError):  # the port is not served yet
            return ask(operations, "GET", "/readyz").body
        return b""

    with closing(connect(url)) as other, ThreadPoolExecutor(1) as thread:
        other.execute("BEGIN; LOCK TABLE relayers IN ACCESS EXCLUSIVE MODE")
        starting = thread.submit(lambda: Running(home, operations_address=f"127.0.0.1:{operations}"))
        eventually(lambda: probe() == b"starting: no worker serves requests yet\n")
        other.execute("ROLLBACK")
        with starting.result():
            eventually(lambda: probe() == b"ready\n")


def test_a_second_home_does_not_make_a_master_key_of_its_own(home: Path, url: DatabaseUrl, tmp_path: Path) -> None:
    issue(home)
    other = tmp_path / "other"
    done = run_command(other, "token", "list", database_url=url.reveal())
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"relaydeck: the master key file {other / 'master.key'} is missing\n"
        "Put your copy of it back, or correct RELAYDECK_MASTER_KEY_FILE: without it the sealed secrets of this database"
        " cannot be opened. Only a backup made"
        " with --with-master-key contains it.\n",
    )
    assert not other.exists()
    other.mkdir()
    (other / "master.key").write_text((home / "master.key").read_text())
    assert run_command(other, "token", "list", database_url=url.reveal()).returncode == 0


def planted(port: int, rest: str = "/name") -> str:
    return f"postgresql://relaydeck:{PASSWORD}@127.0.0.1:{port}{rest}"


@pytest.mark.parametrize("command", [("token", "list"), ("doctor",), ("serve",)])
def test_a_password_is_in_no_message(postgres: PostgresServer, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "home").mkdir()
    for port in (postgres.port, free_port()):
        done = run_command(tmp_path / "home", *command, database_url=planted(port), port=str(free_port()))
        assert done.returncode == 1
        assert f"postgresql://127.0.0.1:{port}/name" in done.stdout + done.stderr
        assert PASSWORD not in done.stdout + done.stderr


@pytest.mark.parametrize("url", [planted(1, "/x?nonsense=1"), planted(1).replace("4711", "%zz"), planted(1, "x/y")])
def test_nor_in_what_is_said_of_an_address_that_cannot_be_read(tmp_path: Path, url: str) -> None:
    done = run_command(tmp_path / "home", "token", "list", database_url=url)
    assert done.returncode == 1
    assert "RELAYDECK_DATABASE_URL" in done.stderr
    assert "planted" not in done.stderr


def test_nor_in_the_settings_as_they_are_printed() -> None:
    settings = Settings(database_url=DatabaseUrl(planted(5432)))
    assert PASSWORD not in f"{settings!r} {settings.database_url} {settings.database!r}"
    assert str(settings.database_url) == "postgresql://127.0.0.1:5432/name"


def test_a_server_that_is_away_is_told_as_such(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(StoreUnreachable, match=re.escape(f"the database postgresql://127.0.0.1:{port}/name cannot")):
        PostgresDatabase(DatabaseUrl(planted(port)), WriteSignal(tmp_path / "write-signal")).read("SELECT 1")


def test_a_pooler_in_transaction_mode_is_refused(postgres: PostgresServer, url: DatabaseUrl, tmp_path: Path) -> None:
    with closing(TransactionPooler(postgres.port)) as pooler:
        pooled = DatabaseUrl(url.reveal().replace(f":{postgres.port}/", f":{pooler.port}/"))
        with pytest.raises(OperatorError) as refusal:
            open_store_at(tmp_path / "pooled", pooled, tmp_path / "pooled" / "master.key")
    assert refusal.value.problem.endswith("is behind a pooler in transaction mode")
    assert "session mode" in refusal.value.remedy


def test_a_start_waits_for_another_one_that_takes_longer_than_a_lock_may(
    url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connection, "_WRITER_LIMITS", {"statement_timeout": "200ms", "lock_timeout": "50ms"})
    first, second = (PostgresDatabase(url, WriteSignal(tmp_path / f"signal-{number}")) for number in (1, 2))
    opened = threading.Event()

    def open_second() -> None:
        with second.opening():
            opened.set()

    waiting = threading.Thread(target=open_second)
    with closing(first), closing(second):
        with first.opening():
            waiting.start()
            assert not opened.wait(0.5)  # longer than both limits: it waits and does not fail
        assert opened.wait(60)
        waiting.join()
