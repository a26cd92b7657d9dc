"""`relaydeck db move`: whole or not at all, whatever happens to it on the way."""

import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.sealing import RowProofs
from relaydeck.store.vault import read_master_keys
from tests.store.test_copying import COPIED
from tests.support.fork_server import Done
from tests.support.places import ENGINES
from tests.support.postgres import PostgresServer
from tests.support.running import COMMAND, Running, clean_environment, make_token, run_command
from tests.support.seeding import fill, issue, opened, relayer

MANY = 20_000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    fill(tmp_path / "home", relayers=[relayer("one")])
    issue(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture(params=ENGINES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> DatabaseUrl:
    if request.param == "sqlite":
        return DatabaseUrl(f"sqlite:///{tmp_path}/target.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url(server.fresh())


def move(home: Path, target: DatabaseUrl) -> Done:
    return run_command(home, "db", "move", "--to", "-", stdin=target.reveal() + "\n")


def there(home: Path, target: DatabaseUrl, *words: str) -> Done:
    return run_command(home, *words, database_url=target.reveal())


def test_everything_is_there_afterwards_and_opens_with_the_same_master_key(home: Path, target: DatabaseUrl) -> None:
    done = move(home, target)
    assert done.stdout == f"moved {COPIED} tables, 6 rows to {target}; all read back equal\n", done.stderr
    assert f"It uses the same master key file, {home / 'master.key'}." in done.stderr
    for words in (("signer", "list", "--json"), ("export",), ("token", "list", "--json"), ("audit", "head")):
        assert there(home, target, *words).stdout == run_command(home, *words).stdout
    assert "the target is not empty" in move(home, target).stderr
    drilled = there(home, target, "backup", "drill")
    assert drilled.returncode == 0, drilled.stderr


def test_a_service_goes_on_from_the_new_place(home: Path, target: DatabaseUrl) -> None:
    assert move(home, target).returncode == 0
    token = there(home, target, "token", "create", "root", "--kind", "admin").stdout.strip()
    with Running(home, token=token, database_url=target.reveal()) as running:
        signer = {"id": "new", "type": "plain", "config": {"key": "33" * 32}}
        assert running.ask("POST", "/api/v1/signers", signer).status == 201
        assert running.ask("POST", "/admin/v1/relayers/one/pause").json["data"]["paused"] is True


def many_events(home: Path) -> None:
    proofs = RowProofs(read_master_keys(home / "master.key")[0].proof_key)
    with closing(sqlite3.connect(home / "relaydeck.db")) as database, database:
        database.executemany(
            "INSERT INTO events VALUES (?, ?, 'k', NULL, NULL, '{}', 1)", ((n, f"evt_{n}") for n in range(1, MANY))
        )
        database.executemany(
            "INSERT INTO tokens (seq, name, kind, digest, created_at, revoked_at, revision, proof)"
            " VALUES (?, ?, 'api', ?, 1, 2, 1, ?)",
            (
                (n, f"t{n}", n.to_bytes(32), proofs.of("tokens", (f"t{n}", "api", n.to_bytes(32), 1, None, 2)))
                for n in range(10, MANY)
            ),
        )


@contextmanager
def held_up(target: DatabaseUrl) -> Iterator[None]:
    """Waits until a first table is there whole, and then keeps the move from going on."""
    path = target.sqlite_path
    deadline = time.monotonic() + 60
    with closing(sqlite3.connect(path, timeout=60) if path else psycopg.connect(target.reveal())) as connection:
        while not _has_a_data_key(connection):
            assert time.monotonic() < deadline
        if path:
            connection.execute("BEGIN IMMEDIATE")
        else:
            connection.execute("LOCK TABLE troubles IN ACCESS EXCLUSIVE MODE")  # the last one
        yield
        connection.rollback()


def _has_a_data_key(connection: "sqlite3.Connection | psycopg.Connection") -> bool:
    try:
        return connection.execute("SELECT count(*) FROM data_keys").fetchone() == (1,)
    except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):
        return False
    finally:
        connection.rollback()


def test_killed_in_the_middle_it_is_opened_by_nobody_and_goes_on(home: Path, target: DatabaseUrl) -> None:
    many_events(home)
    if target.sqlite_path:
        target.sqlite_path.touch(0o600)
    moving = subprocess.Popen(
        [*COMMAND, "db", "move", "--to", target.reveal()],
        env=clean_environment(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with held_up(target):
        assert moving.poll() is None
        moving.kill()
        moving.wait(60)
    refused = there(home, target, "token", "list")
    assert refused.returncode == 1
    assert f"this database is an unfinished copy of {home / 'relaydeck.db'}" in refused.stderr
    assert "unfinished copy" in there(home, target, "doctor").stdout
    assert "unfinished copy" in there(home, target, "backup", str(home / "b")).stderr
    done = move(home, target)
    assert done.returncode == 0, done.stderr
    assert "tables had been moved before" in done.stdout
    assert there(home, target, "token", "list", "--json").stdout == run_command(home, "token", "list", "--json").stdout
    assert there(home, target, "doctor").stdout.count("unfinished") == 0


def test_a_source_that_was_written_to_meanwhile_is_not_moved_until_it_stands_still(
    home: Path, target: DatabaseUrl
) -> None:
    many_events(home)
    token = make_token(home, "root", "--kind", "admin")
    with Running(home, token=token, rate_limit_per_second="0") as running:
        moving = subprocess.Popen(
            [*COMMAND, "db", "move", "--to", target.reveal()],
            env=clean_environment(home),
            stderr=subprocess.PIPE,
            text=True,
        )
        with moving:
            while moving.poll() is None:
                assert running.ask("POST", "/admin/v1/relayers/one/pause").status == 200
                assert running.ask("POST", "/admin/v1/relayers/one/resume").status == 200
            assert moving.stderr is not None
            reported = moving.stderr.read()
    assert moving.returncode == 1
    assert "the source was written to while it was copied" in reported and "Stop the service" in reported
    assert "unfinished copy" in there(home, target, "token", "list").stderr
    assert move(home, target).returncode == 0
    assert there(home, target, "audit", "head").stdout == run_command(home, "audit", "head").stdout
    assert "head" in there(home, target, "audit", "verify").stdout


def test_an_address_that_cannot_be_read_is_not_repeated(home: Path) -> None:
    done = run_command(home, "db", "move", "--to", "postgresql://u:pl4nted@word@host/x")
    assert done.returncode == 1 and "--to must be" in done.stderr
    assert "pl4nted" not in done.stderr + done.stdout


def test_a_server_that_is_not_there_is_told_and_nothing_is_changed(home: Path) -> None:
    before = revision(home)
    done = run_command(home, "db", "move", "--to", "postgresql://u:pl4nted@127.0.0.1:1/x")
    assert done.returncode == 1 and "cannot be reached" in done.stderr and "pl4nted" not in done.stderr
    assert revision(home) == before


def revision(home: Path) -> int:
    with opened(home) as store:
        return int(store.database.read("SELECT revision FROM clock")[0][0])
