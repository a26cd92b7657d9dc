"""The schema is brought up to date once, by one process, and never backwards."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from relaydeck.errors import OperatorError, StoreTrouble
from relaydeck.store.migrate import Step, migrate, newest_version, schema_version, steps
from relaydeck.store.open_store import open_store_at
from relaydeck.store.sealing import Place
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.write_signal import WriteSignal
from tests.support.running import clean_environment, free_port, pipes, run_command
from tests.support.statements import column, run_statement


def opened(folder: Path) -> SqliteDatabase:
    return SqliteDatabase(folder / "db", WriteSignal(folder / "write-signal"))


def dumped(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_steps_are_numbered_from_one_without_gaps() -> None:
    assert [step.version for step in steps()] == list(range(1, newest_version() + 1))


def test_an_empty_database_is_brought_to_the_newest_version(tmp_path: Path) -> None:
    database = opened(tmp_path)
    assert migrate(database) == 0
    assert schema_version(database) == newest_version()
    database.close()


def test_migrating_again_changes_nothing(tmp_path: Path) -> None:
    database = opened(tmp_path)
    migrate(database)
    before = list(database.writer.iterdump())
    assert migrate(database) == newest_version()
    assert list(database.writer.iterdump()) == before
    database.close()


def test_a_step_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = opened(tmp_path)
    broken = [*steps(), Step(newest_version() + 1, "CREATE TABLE half (id INT); CREATE TABLE half (id INT);")]
    monkeypatch.setattr("relaydeck.store.migrate.steps", lambda: broken)
    with pytest.raises(StoreTrouble):
        migrate(database)
    assert list(database.writer.iterdump()) == ["BEGIN TRANSACTION;", "COMMIT;"]
    database.close()


def test_signers_that_commands_created_are_known_after_an_upgrade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, older = opened(tmp_path), [step for step in steps() if step.version <= 20]
    with monkeypatch.context() as patch:
        patch.setattr("relaydeck.store.migrate.steps", lambda: older)
        migrate(database)
    entries = [
        ("cli:root", "signer.created", "local"),
        ("token:ops", "signer.created", "remote"),
        ("cli:root", "signer.created", "replaced"),
        ("cli:root", "signer.deleted", "replaced"),
        ("token:cli:x", "signer.created", "replaced"),
        ("cli:root", "relayer.created", "unknown"),
    ]
    for number, name in enumerate(["local", "remote", "replaced", "unknown"]):
        run_statement(
            database,
            "INSERT INTO signers (id, type, open_config, sealed_config, origin, created_at, revision)"
            f" VALUES ('{name}', 'plain', '{{}}', x'00', 'api', 0, {number})",
        )
    for actor, action, record in entries:
        run_statement(
            database,
            "INSERT INTO audit (moment, actor, action, record, hash)"
            f" VALUES (0, '{actor}', '{action}', '{record}', x'00')",
        )
    migrate(database)
    assert column(database, "SELECT id FROM signers WHERE set_locally") == ["local"]
    database.close()


def test_a_newer_database_is_refused_with_a_message(tmp_path: Path) -> None:
    database = opened(tmp_path)
    migrate(database)
    run_statement(database, "INSERT INTO schema_versions (version, applied_at) VALUES (9999, 'tomorrow')")
    with pytest.raises(OperatorError) as error:
        migrate(database)
    database.close()
    assert str(error.value) == (
        f"the database has schema version 9999, this program knows {newest_version()}\n"
        "Run the newer Relaydeck that wrote it, or restore a backup made before the upgrade."
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """These look into SQLite's own files."""
    return tmp_path / "home"


@pytest.fixture
def newer_home(home: Path) -> Path:
    store = open_store_at(home, home / "relaydeck.db", home / "master.key")
    run_statement(store.database, "INSERT INTO schema_versions (version, applied_at) VALUES (9999, 'tomorrow')")
    store.close()
    return home


def test_serve_refuses_a_newer_database_and_says_what_to_do(newer_home: Path) -> None:
    done = run_command(newer_home, "serve", "--port", str(free_port()))
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"relaydeck: the database has schema version 9999, this program knows {newest_version()}\n"
        "Run the newer Relaydeck that wrote it, or restore a backup made before the upgrade.\n",
    )


def test_a_refused_newer_database_is_not_changed(newer_home: Path) -> None:
    before = dumped(newer_home / "relaydeck.db")
    with pytest.raises(OperatorError):
        open_store_at(newer_home, newer_home / "relaydeck.db", newer_home / "master.key")
    assert dumped(newer_home / "relaydeck.db") == before


FIRST_START = """
import sys
from pathlib import Path
from relaydeck.store.open_store import open_store_at
from relaydeck.store.sealing import Place
home = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
store = open_store_at(home, home / "relaydeck.db", home / "master.key")
with store.database.transaction() as transaction:
    sealed = store.vault.seal(b"secret", Place("t", "r", "f"), transaction)
print(sealed.hex(), store.database.read("SELECT count(*) FROM data_keys")[0][0])
"""


def test_five_first_starts_at_once_agree_on_one_master_key(home: Path) -> None:
    starts = [
        subprocess.Popen(
            [sys.executable, "-c", FIRST_START, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(home),
        )
        for _ in range(5)
    ]
    for start in starts:
        assert pipes(start)[1].readline() == "ready\n"
    for start in starts:
        asked, _ = pipes(start)
        asked.write("\n")
        asked.flush()
    said = [start.communicate(timeout=60)[0].split() for start in starts]
    assert [start.returncode for start in starts] == [0] * 5
    assert {keys for _, keys in said} == {"1"}
    assert {opens_in(home, bytes.fromhex(sealed)) for sealed, _ in said} == {b"secret"}


def opens_in(home: Path, sealed: bytes) -> bytes:
    store = open_store_at(home, home / "relaydeck.db", home / "master.key")
    try:
        return store.vault.open(sealed, Place("t", "r", "f"))
    finally:
        store.close()
