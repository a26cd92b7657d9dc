"""`relaydeck backup`, `restore` and `backup drill`, typed: on both engines, beside a service, with damaged files."""

import hashlib
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relaydeck.errors import OperatorError
from relaydeck.store.copying.backup import MAC_BYTES, MAGIC, BackupFile, Footer, Header, encode_frame, write_backup
from relaydeck.store.copying.contents import DatabaseSource
from relaydeck.store.vault import read_master_keys
from tests.conftest import DEMO
from tests.store.test_copying import COPIED
from tests.support.places import ENGINES, choose
from tests.support.postgres import PostgresServer
from tests.support.running import Running, make_token, run_command
from tests.support.seeding import fill, opened

PASSPHRASE = "correct horse battery staple"


@pytest.fixture(params=ENGINES)
def home(request: pytest.FixtureRequest, tmp_path: Path, put: Callable[[Path, str], Path]) -> Path:
    home = put(tmp_path / "home", request.param)
    done = run_command(home, "apply", "-", stdin=DEMO)
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture(params=ENGINES)
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A home that does not exist yet, with a database that is empty."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        choose(tmp_path / "elsewhere", server.url(server.fresh()))
    return tmp_path / "elsewhere"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A backup of a small SQLite home, made without a command."""
    home, path = tmp_path / "small", tmp_path / "backup"
    fill(home)
    with opened(home) as store, store.database.snapshot():
        master = read_master_keys(home / "master.key")[0]
        write_backup(DatabaseSource(store.database), path, master, now=1, advance=ignored)
    return path


def ignored(done: int) -> None: ...


def typed(home: Path, *words: str, fails: bool = False) -> str:
    done = run_command(home, *words)
    assert (done.returncode, "Traceback" in done.stderr) == (int(fails), False), done
    return done.stderr if fails else done.stdout


def read(path: Path) -> BackupFile:
    with path.open("rb") as file:
        backup = BackupFile(path, file, ignored)
        backup.check_contents(ignored)
        return backup


def test_a_backup_of_either_engine_restores_into_either(home: Path, elsewhere: Path, tmp_path: Path) -> None:
    path = tmp_path / "backup"
    assert typed(home, "backup", str(path)) == f"backed up {COPIED} tables, 11 rows to {path}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    elsewhere.mkdir(0o700)
    (elsewhere / "master.key").write_bytes((home / "master.key").read_bytes())
    restored = typed(elsewhere, "restore", str(path))
    assert restored.startswith(f"restored {COPIED} tables, 11 rows to ") and "revoked" not in restored
    assert typed(elsewhere, "export") == typed(home, "export")
    assert typed(elsewhere, "audit", "head") == typed(home, "audit", "head")
    refusal = typed(elsewhere, "restore", str(path), fails=True)
    assert "the target is not empty" in refusal and "set RELAYDECK_HOME or RELAYDECK_DATABASE_URL" in refusal


def test_a_drill_proves_the_present_state_and_a_file(home: Path, tmp_path: Path) -> None:
    typed(home, "backup", str(tmp_path / "backup"))
    for words in ((), (str(tmp_path / "backup"),)):
        shown = typed(home, "backup", "drill", *words)
        assert shown.count(" same ") == COPIED and "DIFFERENT" not in shown
        assert "the backup is authentic\n" in shown
        assert "opened 6 sealed values; audit log: every link holds, head 4:" in shown


def test_a_drill_fails_on_a_sealed_value_and_an_audit_entry_that_were_changed(home: Path) -> None:
    with opened(home) as store, store.database.migration() as execute:
        execute("UPDATE signers SET sealed_config = :damaged", {"damaged": b"\x01" * 60})
        execute("UPDATE audit SET actor = 'nobody' WHERE seq = 2")
    reported = typed(home, "backup", "drill", fails=True)
    assert "the sealed config of signers record 'ops' does not open" in reported
    assert "the audit log is broken: entry 2 was changed" in reported


def test_a_drill_without_the_master_key_does_not_claim_to_have_opened_anything(home: Path, tmp_path: Path) -> None:
    typed(home, "backup", str(tmp_path / "backup"))
    (home / "master.key").rename(tmp_path / "away")
    for words in (["drill"], [str(tmp_path / "another")]):
        assert f"the master key file {home / 'master.key'} is missing" in typed(home, "backup", *words, fails=True)
    words = ["drill", "--unauthenticated", str(tmp_path / "backup")]
    assert "the sealed values could not be opened" in typed(home, "backup", *words, fails=True)


def test_a_backup_is_one_moment_of_a_service_that_writes(home: Path, tmp_path: Path) -> None:
    """Each pause writes a relayer, an audit entry and an event together: a backup has all three or none."""
    paths = [tmp_path / f"backup-{number}" for number in range(3)]
    with Running(home, token=make_token(home, "root", "--kind", "admin"), rate_limit_per_second="0") as running:
        enough, stop = threading.Semaphore(0), threading.Event()

        def write() -> None:
            while not stop.is_set():
                for deed in ("pause", "resume"):
                    assert running.ask("POST", f"/admin/v1/relayers/sepolia-1/{deed}").status == 200
                    enough.release()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for path in paths:
                for _ in range(10):
                    assert enough.acquire(timeout=60)
                typed(home, "backup", str(path))
        finally:
            stop.set()
            writer.join()
        assert "DIFFERENT" not in typed(home, "backup", "drill")
    seen = []
    for path in paths:
        with path.open("rb") as file:
            backup = BackupFile(path, file, ignored)
            backup.check_contents(ignored)
            tables = {table.name: table for table in backup.tables}
            (relayer,) = backup.rows(tables["relayers"])
            audit, events = list(backup.rows(tables["audit"])), list(backup.rows(tables["events"]))
        paused = relayer[tables["relayers"].column_names.index("paused")]
        deeds = [row[3] for row in audit if row[3] in ("relayer.paused", "relayer.resumed")]
        assert deeds == [row[2] for row in events]
        assert paused == (deeds[-1] == "relayer.paused")
        seen.append(len(deeds))
    assert seen == sorted(set(seen))


def test_a_planted_secret_is_nowhere_in_a_backup(tmp_path: Path) -> None:
    home, path = tmp_path / "home", tmp_path / "backup"
    planted = secrets.token_hex(32)
    make_token(home, "t")
    done = run_command(home, "signer", "create", "id=ops", "type=plain", f"config.key=0x{planted}")
    assert done.returncode == 0, done.stderr
    (tmp_path / "passphrase").write_text(PASSPHRASE + "\n")
    options = ("--with-master-key", "--passphrase-file", str(tmp_path / "passphrase"))
    typed(home, "backup", str(path), *options)
    with path.open("rb") as file:
        backup = BackupFile(path, file, ignored)
        backup.check_contents(ignored)
        inside = repr([list(backup.rows(table)) for table in backup.tables]) + repr(backup.header)
    master = (home / "master.key").read_text().strip()
    for each in (planted, master, PASSPHRASE):
        assert each not in inside and each.encode() not in path.read_bytes()
    for key in (planted, master):
        assert repr(bytes.fromhex(key))[2:-1] not in inside


def test_the_master_key_comes_back_with_the_passphrase_and_not_with_another(tmp_path: Path) -> None:
    home, path, right, wrong = (tmp_path / name for name in ("home", "backup", "right", "wrong"))
    fill(home)
    right.write_text(PASSPHRASE)
    wrong.write_text(PASSPHRASE + "?")
    typed(home, "backup", str(path), "--with-master-key", "--passphrase-file", str(right))
    new = tmp_path / "new"
    reported = typed(new, "restore", str(path), "--passphrase-file", str(wrong), fails=True)
    assert "the passphrase does not open the master key" in reported
    assert "there is no terminal" in typed(new, "restore", str(path), fails=True)
    assert not new.exists()
    typed(new, "restore", str(path), "--passphrase-file", str(right))
    assert (new / "master.key").read_bytes() == (home / "master.key").read_bytes()
    assert (new / "master.key").stat().st_mode & 0o777 == 0o600
    assert typed(new, "signer", "list", "--json") == typed(home, "signer", "list", "--json")


def test_a_short_passphrase_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "home")
    (tmp_path / "short").write_text("eleven char")
    options = ("--with-master-key", "--passphrase-file", str(tmp_path / "short"))
    assert "shorter than 12" in typed(tmp_path / "home", "backup", str(tmp_path / "b"), *options, fails=True)
    assert not (tmp_path / "b").exists()


def test_a_master_key_of_another_home_is_neither_used_nor_replaced(small: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "master.key").write_text("ab" * 32 + "\n")
    assert "is not authentic: another master key made it" in typed(other, "restore", str(small), fails=True)
    assert [each.name for each in other.iterdir()] == ["master.key"]
    assert (other / "master.key").read_text() == "ab" * 32 + "\n"


def test_a_file_that_exists_is_only_replaced_by_force(small: Path, tmp_path: Path) -> None:
    home, path = tmp_path / "small", tmp_path / "there"
    path.write_text("mine")
    assert f"{path} exists" in typed(home, "backup", str(path), fails=True)
    assert path.read_text() == "mine"
    typed(home, "backup", "--force", str(path))
    assert read(path).contents == read(small).contents


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_byte_flipped_anywhere_is_noticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path, whole = _kept_backup(tmp_path_factory)
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
    path.write_bytes(whole[:at] + flipped + whole[at + 1 :])
    if at >= len(whole) - MAC_BYTES:
        assert not read(path).is_authentic(read_master_keys(path.parent / "home" / "master.key")[0])
        return
    with pytest.raises(OperatorError, match=r"damaged|not a Relaydeck backup"):
        read(path)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_file_cut_short_or_grown_anywhere_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path, whole = _kept_backup(tmp_path_factory)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    path.write_bytes(data.draw(st.sampled_from([cut, whole + b"\0", whole + whole])))
    with pytest.raises(OperatorError, match=r"damaged|not a Relaydeck backup"):
        read(path)


_KEPT: dict[str, tuple[Path, bytes]] = {}


def _kept_backup(factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    if "backup" not in _KEPT:
        folder = factory.mktemp("kept")
        fill(folder / "home")
        with opened(folder / "home") as store, store.database.snapshot():
            master = read_master_keys(folder / "home" / "master.key")[0]
            write_backup(DatabaseSource(store.database), folder / "b", master, now=1, advance=ignored)
        _KEPT["backup"] = (folder / "damaged", (folder / "b").read_bytes())
    return _KEPT["backup"]


def test_a_damaged_file_restores_nothing(small: Path, elsewhere: Path) -> None:
    whole = small.read_bytes()
    small.write_bytes(whole[:-40] + b"\0" + whole[-39:])
    assert "is damaged or truncated" in typed(elsewhere, "restore", str(small), fails=True)
    assert not elsewhere.exists()


def test_a_backup_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    for words in (["restore", str(path)], ["backup", "drill", str(path)]):
        assert typed(tmp_path / "home", *words, fails=True) == (
            f"relaydeck: the backup {path} cannot be read: No such file or directory\n"
            "Name a file that 'relaydeck backup' wrote.\n"
        )


def test_a_backup_of_a_newer_schema_is_refused(small: Path, tmp_path: Path) -> None:
    frames = encode_frame(Header("9.9", 9999, 1, [], None)) + encode_frame(Footer({}))
    small.write_bytes(MAGIC + frames + hashlib.sha256(MAGIC + frames).digest() + bytes(32))
    reported = typed(tmp_path / "new", "restore", str(small), fails=True)
    assert "has schema version 9999, this program knows" in reported and "Relaydeck 9.9 or newer" in reported
    assert not (tmp_path / "new").exists()


def test_nothing_is_backed_up_where_nothing_is(tmp_path: Path) -> None:
    assert "there is no database" in typed(tmp_path / "none", "backup", str(tmp_path / "b"), fails=True)
    assert list(tmp_path.iterdir()) == []


def test_the_tables_of_a_restored_home_are_those_of_the_source(small: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "master.key").write_bytes((tmp_path / "small" / "master.key").read_bytes())
    typed(tmp_path / "new", "restore", str(small))
    listed = [json.loads(typed(tmp_path / name, "signer", "list", "--json")) for name in ("new", "small")]
    assert listed[0] == listed[1] and listed[0][0]["id"] == "ops"


def test_only_a_regular_file_is_replaced(home: Path, tmp_path: Path) -> None:
    assert run_command(home, "token", "create", "me").returncode == 0
    kept, link, pipe = tmp_path / "kept", tmp_path / "latest", tmp_path / "pipe"
    kept.write_text("an older one")
    link.symlink_to(kept)
    os.mkfifo(pipe)
    assert run_command(home, "backup", str(link), "--force").returncode == 0
    assert (link.is_symlink(), kept.read_bytes()[:4] != b"an o") == (True, True)
    refused = run_command(home, "backup", str(pipe), "--force")
    assert (refused.returncode, pipe.is_fifo(), "is not a regular file" in refused.stderr) == (1, True, True)


def test_what_a_killed_backup_left_is_cleared_by_the_next(home: Path, tmp_path: Path) -> None:
    assert run_command(home, "token", "create", "me").returncode == 0
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left = tmp_path / f".copy.{int(ended.stdout)}"
    left.write_text("half")
    assert run_command(home, "backup", str(tmp_path / "copy")).returncode == 0
    assert (left.exists(), (tmp_path / "copy").exists()) == (False, True)
