"""`relaydeck key rotate --master`: what it prints, what it leaves in the file, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fork_server import Done
from tests.support.places import ENGINES
from tests.support.running import Running, make_token, run_command
from tests.support.seeding import fill, issue

MASTER = ("key", "rotate", "--master")
DONE = (
    "sealed 2 values with a new data key; removed 1 old data key\n"
    "the master key is replaced; proved 1 token, session or link anew\n"
)


@pytest.fixture(params=ENGINES)
def home(request: pytest.FixtureRequest, tmp_path: Path, lend: Callable[[Path, str], Path]) -> Path:
    return lend(tmp_path / "home", request.param)


@pytest.fixture
def local_home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    fill(made)
    issue(made)
    return made


def keys(home: Path) -> list[str]:
    return (home / "master.key").read_text().split()


def outcome(done: Done) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_a_file_on_one_machine_is_replaced_at_once(local_home: Path) -> None:
    (old,) = keys(local_home)
    assert outcome(run_command(local_home, *MASTER)) == (0, DONE, "")
    (new,) = keys(local_home)
    assert new != old
    (local_home / "master.key").write_text(old)
    refused = run_command(local_home, "signer", "list")
    assert "the master key does not open this database's keyring" in refused.stderr


def test_a_running_service_goes_on_and_its_tokens_stay_valid(home: Path) -> None:
    fill(home)
    token = make_token(home, "t", "--kind", "admin")
    with Running(home, "--workers", "2", token=token) as service:
        for _ in range(2):
            run_command(home, *MASTER, "--prepare")
            assert run_command(home, *MASTER).returncode == 0
            made = make_token(home, f"made-{len(keys(home)[0])}-{_}")
            body = {"id": f"s-{_}", "type": "plain", "config": {"key": "11" * 32}}
            assert service.ask("POST", "/api/v1/signers", body).status == 201
            assert service.ask("GET", "/api/v1/signers", token=made).status == 200
        verified = service.ask("GET", "/admin/v1/audit/verify").json["data"]
    assert verified["problem"] is None
    assert run_command(home, "audit", "verify").returncode == 0


def test_on_a_server_the_new_key_is_prepared_first(tmp_path: Path, lend: Callable[[Path, str], Path]) -> None:
    home = lend(tmp_path / "home", "postgresql")
    fill(home)
    issue(home)
    path, before = home / "master.key", keys(home)
    assert outcome(run_command(home, *MASTER)) == (
        1,
        "",
        f"relaydeck: {path} has one key, and services on other machines would not have a new one\n"
        "Run 'relaydeck key rotate --master --prepare', give the file to every machine, then run this again.\n",
    )
    assert keys(home) == before
    prepared = f"{path} has a new master key in its first line; run this without --prepare to use it\n"
    for _ in range(2):  # the second run keeps the key of the first
        assert outcome(run_command(home, *MASTER, "--prepare")) == (0, prepared, "")
        both = keys(home)
        assert (len(both), both[1:]) == (2, before)
    remark = f"On every other machine, remove all lines but the first from the master key file, {path}.\n"
    assert outcome(run_command(home, *MASTER)) == (0, DONE, remark)
    assert keys(home) == both[:1]
    path.write_text("\n".join(both))  # as on another machine
    assert outcome(run_command(home, *MASTER)) == (0, "the database has the new master key already\n", "")
    assert keys(home) == both[:1]


def test_doctor_says_that_a_replacement_has_not_ended(local_home: Path) -> None:
    assert run_command(local_home, *MASTER, "--prepare").returncode == 0
    found = run_command(local_home, "doctor")
    path = local_home / "master.key"
    assert f"{path} has 2 keys: the replacement of the master key has not ended" in found.stdout
    assert "run: relaydeck key rotate --master" in found.stdout
    run_command(local_home, *MASTER)
    assert "has not ended" not in run_command(local_home, "doctor").stdout


def test_a_file_that_cannot_be_changed_may_have_both_keys(local_home: Path) -> None:
    (old,), path = keys(local_home), local_home / ("k" * 250)  # the draft of another one would have too long a name
    path.write_text(old)
    refused = run_command(local_home, *MASTER, master_key_file=str(path))
    assert refused.stderr.startswith(f"relaydeck: the master key file {path} cannot be changed: File name too long\n")
    path.write_text(f"{'ab' * 32}\n{old}\n")
    remark = f"{path} cannot be changed: remove all lines but the first from it. They open nothing any more.\n"
    assert outcome(run_command(local_home, *MASTER, master_key_file=str(path))) == (0, DONE, remark)
    path.write_text("ab" * 32)
    assert run_command(local_home, "audit", "verify", master_key_file=str(path)).returncode == 0


def test_it_prints_json(local_home: Path) -> None:
    done = run_command(local_home, *MASTER, "--json")
    assert json.loads(done.stdout) == {"resealed": 2, "retired": 1, "damaged": [], "proven": 1, "master_keys": 1}


def test_prepare_needs_master(local_home: Path) -> None:
    refused = run_command(local_home, "key", "rotate", "--prepare")
    assert refused.returncode == 2
    assert "--prepare needs --master" in refused.stderr


def test_a_backup_with_the_key_waits_for_the_end(local_home: Path, tmp_path: Path) -> None:
    assert run_command(local_home, *MASTER, "--prepare").returncode == 0
    phrase = tmp_path / "phrase"
    phrase.write_text("a long passphrase")
    words = ("backup", str(tmp_path / "backup"), "--with-master-key", "--passphrase-file", str(phrase))
    assert run_command(local_home, *words).returncode == 0  # prepared: one key is enough


def test_a_backup_from_before_is_restored_with_the_key_of_that_time(local_home: Path, tmp_path: Path) -> None:
    (old,), file, other = keys(local_home), tmp_path / "backup", tmp_path / "other"
    assert run_command(local_home, "backup", str(file)).returncode == 0
    assert run_command(local_home, *MASTER).returncode == 0
    other.mkdir()
    (other / "master.key").write_text((local_home / "master.key").read_text())
    refused = run_command(other, "restore", str(file))
    assert refused.stderr == (
        f"relaydeck: the backup {file} is not authentic: another master key made it, or somebody changed it\n"
        f"Use the master key file of the service that wrote it ({other / 'master.key'}), as it was then if the key was"
        " replaced since, or another copy of the backup. Nothing was changed.\n"
    )
    (new,) = keys(other)
    (other / "master.key").write_text(f"{new}\n{old}\n")
    assert run_command(other, "restore", str(file)).returncode == 0
    assert run_command(other, *MASTER).returncode == 0  # continues with the key in the first line
    assert keys(other) == [new]
    assert run_command(other, "audit", "verify").returncode == 0
