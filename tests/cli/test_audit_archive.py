"""`relaydeck audit archive` and `audit verify`, as an operator runs them."""

import json
import time
from pathlib import Path

import pytest

from relaydeck.store.audit import AuditEntry, AuditLog
from tests.support.running import Running, make_token, run_command
from tests.support.seeding import opened

DAY = 86_400


def days_ago(days: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() - days * DAY))


@pytest.fixture
def old(home: Path) -> str:
    """A home whose log has 20 entries of a month ago and one of today; its token."""
    with opened(home) as store, store.database.transaction() as transaction:
        then = int(time.time()) - 30 * DAY
        entries = [AuditEntry(then, "cli:me", "relayer.updated", "r", None, "{}") for _ in range(20)]
        AuditLog(store.vault).append(transaction, entries)
    return make_token(home, "me", "--kind", "admin")


def test_entries_are_moved_and_both_parts_verify(home: Path, old: str) -> None:
    file = home.parent / "archive"
    done = run_command(home, "audit", "archive", str(file), "--before", days_ago(8), "--json")
    moved = json.loads(done.stdout)
    assert (moved.pop("head")[:3], moved) == ("20:", {"file": str(file), "entries": 20, "stayed": 1})
    said = run_command(home, "audit", "verify").stdout.splitlines()
    assert said[0].startswith("2 entries, every link holds; head 22:")
    assert said[1].startswith("20 entries archived until ")
    checked = run_command(home, "audit", "verify", "--file", str(file))
    assert (checked.returncode, checked.stdout.startswith("20 entries, every link holds; head 20:")) == (0, True)
    doctor = json.loads(run_command(home, "doctor", "--json").stdout)
    (remark,) = [each["remark"] for each in doctor if each["subject"] == "audit log"]
    assert remark.startswith("2 entries, every link holds; 20 more archived until ")


def test_a_service_that_runs_goes_on(home: Path, old: str) -> None:
    with Running(home, token=old) as running:
        done = run_command(home, "audit", "archive", str(home.parent / "archive"), "--before", days_ago(8))
        assert done.returncode == 0, done.stderr
        assert running.ask("POST", "/admin/v1/tokens", {"name": "other", "kind": "api"}).status == 201
        found = running.ask("GET", "/admin/v1/audit/verify").json["data"]
        assert (found["entries"], found["problem"], found["archived"]) == (3, None, 20)
        refused = running.ask("GET", f"/admin/v1/audit/verify?head=5:{'00' * 32}")
        assert (refused.status, "which is archived" in refused.json["detail"]) == (400, True)


def test_a_backup_of_it_can_be_restored(home: Path, old: str) -> None:
    run_command(home, "audit", "archive", str(home.parent / "archive"), "--before", days_ago(8))
    drill = run_command(home, "backup", "drill")
    assert drill.returncode == 0, drill.stderr


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("soon", "'soon' is not a date"),
        ("2999-01-01", "2999-01-01 is too recent: entries of the last 7 days stay"),
    ],
)
def test_a_date_that_cannot_be_meant_is_refused(home: Path, old: str, before: str, said: str) -> None:
    file = home.parent / "archive"
    done = run_command(home, "audit", "archive", str(file), "--before", before)
    assert (done.returncode, said in done.stderr, file.exists()) == (1, True, False)


def test_the_outcome_says_what_is_where_and_a_second_run_succeeds_without_a_file(home: Path, old: str) -> None:
    file, other = home.parent / "archive", home.parent / "other"
    done = run_command(home, "audit", "archive", str(file), "--before", days_ago(8))
    said = f"wrote 20 entries to {file}; removed 19 of them from the database and kept 1 there too"
    assert done.stdout.startswith(said), done.stdout
    again = run_command(home, "audit", "archive", str(other), "--before", days_ago(8))
    nothing = f"nothing to archive: every entry before {days_ago(8)} is archived already\n"
    assert (again.returncode, again.stdout, other.exists()) == (0, nothing, False)
    as_json = run_command(home, "audit", "archive", str(other), "--before", days_ago(8), "--json")
    outcome = json.loads(as_json.stdout)
    assert (outcome["file"], outcome["entries"], outcome["head"][:3]) == ("", 0, "20:")


def test_a_file_of_another_home_and_a_missing_one_are_told_apart(home: Path, old: str) -> None:
    file, missing = home.parent / "archive", home.parent / "nowhere" / "archive"
    done = run_command(home, "audit", "archive", str(missing), "--before", days_ago(8))
    assert f"{missing} cannot be written: No such file or directory" in done.stderr
    assert (done.returncode, "doctor" in done.stderr) == (1, False)
    run_command(home, "audit", "archive", str(file), "--before", days_ago(8))
    with opened(home.parent / "elsewhere"):
        pass
    make_token(home.parent / "elsewhere", "me", "--kind", "admin")
    done = run_command(home.parent / "elsewhere", "audit", "verify", "--file", str(file))
    assert (done.returncode, "was not written by this home, or was changed" in done.stderr) == (1, True), done.stderr
    done = run_command(home, "audit", "verify", "--file", str(missing))
    assert f"{missing} cannot be read: No such file or directory" in done.stderr
    assert "doctor" not in done.stderr


def test_a_file_is_never_overwritten_and_a_broken_log_is_not_archived(home: Path, old: str) -> None:
    file = home.parent / "archive"
    file.write_text("mine")
    done = run_command(home, "audit", "archive", str(file), "--before", days_ago(8))
    assert (done.returncode, "exists" in done.stderr, file.read_text()) == (1, True, "mine")
    with opened(home) as store, store.database.transaction() as transaction:
        transaction.execute("UPDATE audit SET actor = 'me' WHERE seq = 3")
    done = run_command(home, "audit", "archive", str(home.parent / "other"), "--before", days_ago(8))
    assert (done.returncode, "the audit log does not hold" in done.stderr) == (1, True)
    broken = run_command(home, "audit", "verify", "--file", str(file))
    assert (broken.returncode, "not an archive" in broken.stderr) == (1, True)
