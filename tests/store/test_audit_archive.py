"""Old entries of the audit log in a file: both verify, nothing is lost, and what checks need stays."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from relaydeck.credentials.people import EVERY_PROOF
from relaydeck.credentials.tokens import REVIVED, doubted_tokens
from relaydeck.doctor.integrity import verify_audit
from relaydeck.errors import BadRequest, OperatorError
from relaydeck.store import audit_archive
from relaydeck.store.audit import COLUMNS, AuditEntry, AuditLog, BrokenLink, Head, head, read_archive, verify
from relaydeck.store.audit_archive import Archived, archive, verify_file
from relaydeck.store.open_store import Store
from relaydeck.store.rotation import Rotation
from tests.support.seeding import opened

NOW = 1_800_000_000
ENTRIES = 12


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    """Entries of one second each: a record that is updated again and again, and two more."""
    with opened(home) as store:
        for number in range(ENTRIES):
            append(store, NOW + number, "relayer.updated", f"r{number % 3}")
        yield store


def append(store: Store, moment: int, action: str, record: str) -> None:
    with store.database.transaction() as transaction:
        AuditLog(store.vault, "api").append(transaction, [AuditEntry(moment, "token:é", action, record, None, "{}")])


def verified(store: Store, saved: Head | None = None) -> Head | BrokenLink:
    with store.database.snapshot():
        return verify(store.database.stream, store.vault, saved)


def numbers(store: Store) -> list[int]:
    return [row.seq for row in store.database.read("SELECT seq FROM audit ORDER BY seq")]


def move(store: Store, path: Path, before: int = NOW + 10) -> Archived:
    return archive(store, before, path, actor="cli:me", now=NOW + 100)


def test_the_log_and_the_file_verify(store: Store, tmp_path: Path) -> None:
    tenth = store.database.read("SELECT seq, hash FROM audit WHERE seq = 10")[0]
    moved = move(store, tmp_path / "archive")
    assert moved == Archived(10, 1, Head(*tenth))
    assert numbers(store) == [10, 11, 12, 13]  # the newest about r0 stays; about the others it is newer
    assert verified(store) == head(store.database.read)
    assert verify_file(tmp_path / "archive", store, None) == moved
    assert oct((tmp_path / "archive").stat().st_mode)[-3:] == "600"
    with store.database.snapshot():
        found = verify_audit(store.database, store.vault)
    assert (found.problem, found.entries, found.archived, found.archived_until) == (None, 3, 10, "2027-01-15T08:00:09Z")


def test_a_second_archive_continues_after_the_first(store: Store, tmp_path: Path) -> None:
    move(store, tmp_path / "one", NOW + 4)
    second = move(store, tmp_path / "two")
    assert (second.entries, second.head.seq) == (6, 10)
    assert isinstance(verified(store), Head)
    for name, entries in (("one", 4), ("two", 6)):
        found = verify_file(tmp_path / name, store, None)
        assert isinstance(found, Archived) and found.entries == entries


def test_the_end_of_a_log_that_is_archived_whole_stays_too_and_nothing_is_left_for_a_second_run(
    store: Store, tmp_path: Path
) -> None:
    """A process that runs remembers the newest entry, and looks for it."""
    append(store, NOW + 50, "session.ended", "s")
    moved = move(store, tmp_path / "all", NOW + 60)
    assert (moved.entries, moved.stayed, moved.head.seq) == (13, 4, 13)
    assert numbers(store) == [10, 11, 12, 13, 14]
    assert isinstance(verified(store), Head)
    assert move(store, tmp_path / "none", NOW + 60) == Archived(0, 0, moved.head)
    assert not (tmp_path / "none").exists()


def test_a_file_that_cannot_be_finished_is_removed_and_nothing_is_changed(store: Store, tmp_path: Path) -> None:
    path, before = tmp_path / "archive", numbers(store)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))  # bytes: as on a disk that becomes full
    try:
        with pytest.raises(OperatorError, match="cannot be written: File too large"):
            move(store, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (path.exists(), numbers(store)) == (False, before)


def test_an_entry_that_is_older_than_one_before_it_stays(store: Store, tmp_path: Path) -> None:
    """The clock was set back: entries are archived up to the first that is young."""
    append(store, NOW + 50, "relayer.updated", "r0")
    append(store, NOW - 50, "relayer.updated", "r0")
    assert move(store, tmp_path / "archive", NOW + 20).head.seq == ENTRIES


@pytest.mark.parametrize(
    "forgery",
    [
        "UPDATE audit SET actor = 'token:me' WHERE seq = 10",  # it stayed
        "DELETE FROM audit WHERE seq = 10",
        "UPDATE audit SET seq = 9 WHERE seq = 10",
        "DELETE FROM audit WHERE seq = 11",
        "DELETE FROM audit_keys WHERE name = 'archive'",
        "UPDATE audit_keys SET sealed_key = (SELECT sealed_key FROM audit_keys WHERE name = 'chain')",
    ],
)
def test_what_is_changed_afterwards_is_found(store: Store, tmp_path: Path, forgery: str) -> None:
    move(store, tmp_path / "archive")
    with store.database.transaction() as transaction:
        transaction.execute(forgery)
    assert isinstance(verified(store), BrokenLink)


def test_an_older_archive_that_is_put_back_is_found(store: Store, tmp_path: Path) -> None:
    move(store, tmp_path / "one", NOW + 4)
    old = store.database.read("SELECT sealed_key FROM audit_keys WHERE name = 'archive'")[0].sealed_key
    move(store, tmp_path / "two")
    with store.database.transaction() as transaction:
        transaction.execute("UPDATE audit_keys SET sealed_key = :old WHERE name = 'archive'", {"old": old})
    assert isinstance(verified(store), BrokenLink)


@contextmanager
def copied(store: Store) -> Iterator[None]:
    """In the block, this is the database of a copy with the same keys; after it, the original again."""
    entries = store.database.read(f"SELECT {COLUMNS} FROM audit")
    end = store.database.read("SELECT audit_head FROM clock")[0].audit_head
    yield
    with store.database.transaction() as transaction:
        transaction.execute("DELETE FROM audit")
        transaction.insert("audit", COLUMNS.split(", "), entries)
        transaction.execute("DELETE FROM audit_keys WHERE name = 'archive'")
        transaction.execute("UPDATE clock SET audit_head = :end", {"end": end})


@pytest.mark.parametrize("archived_too", [False, True])
def test_what_a_copy_has_archived_hides_nothing_here(store: Store, tmp_path: Path, archived_too: bool) -> None:
    """The copy has one more entry about r0: there, the tenth entry does not stay."""
    with copied(store):
        append(store, NOW + 20, "relayer.updated", "r0")
        move(store, tmp_path / "of-copy")
        sealed = store.database.read("SELECT sealed_key FROM audit_keys WHERE name = 'archive'")[0].sealed_key
    assert verified(store) == head(store.database.read)
    if archived_too:
        move(store, tmp_path / "archive")
    with store.database.transaction() as transaction:
        transaction.execute("DELETE FROM audit WHERE seq <= 10")
        transaction.execute("DELETE FROM audit_keys WHERE name = 'archive'")
        transaction.insert("audit_keys", ("name", "sealed_key"), [("archive", sealed)])
    found = verified(store)
    assert isinstance(found, BrokenLink)
    assert (found.seq, "no later entry records that archive" in found.why) == (10, True)


@pytest.mark.parametrize(
    "change", ["a value", "an entry", "the end", "the beginning", "the beginning and header", "all", "rubbish"]
)
def test_a_file_that_was_changed_is_found(store: Store, tmp_path: Path, change: str) -> None:
    file = tmp_path / "archive"
    fifth = Head(*store.database.read("SELECT seq, hash FROM audit WHERE seq = 5")[0])
    moved = move(store, file)
    header, *lines = file.read_text("utf-8").splitlines(keepends=True)
    nothing = str(Head(0, bytes(32)))
    forged = {
        "a value": [header, *(line.replace("r1", "r2") for line in lines)],
        "an entry": [header, *lines[:3], *lines[4:]],
        "the end": [header, *lines[:-1]],
        "the beginning": [header, *lines[1:]],
        "the beginning and header": [header.replace(nothing, str(fifth)), *lines[5:]],
        "all": [header.replace(nothing, str(moved.head))],
        "rubbish": [header, *lines, "rubbish\n"],
    }
    file.write_text("".join(forged[change]), "utf-8")
    if change == "rubbish":
        with pytest.raises(OperatorError):
            verify_file(file, store, None)
    else:
        assert isinstance(verify_file(file, store, None), BrokenLink)


def test_a_record_of_an_archive_that_was_forged_is_not_believed(store: Store, tmp_path: Path) -> None:
    """The file lacks its first entries, and the database says that it always did."""
    file = tmp_path / "archive"
    fifth = Head(*store.database.read("SELECT seq, hash FROM audit WHERE seq = 5")[0])
    move(store, file)
    header, *lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text("".join([header.replace(str(Head(0, bytes(32))), str(fifth)), *lines[5:]]), "utf-8")
    with store.database.transaction() as transaction:
        forged = {"record": f'{{"after":"{fifth}","last":10,"stayed":""}}'}
        transaction.execute("UPDATE audit SET after_change = :record WHERE seq = 13", forged)
    with pytest.raises(OperatorError, match="but not the audit log"):
        verify_file(file, store, None)


def test_a_head_that_was_kept_elsewhere_is_found_in_the_file(store: Store, tmp_path: Path) -> None:
    fifth = Head(*store.database.read("SELECT seq, hash FROM audit WHERE seq = 5")[0])
    other = Head(5, bytes(32))
    moved = move(store, tmp_path / "archive")
    with pytest.raises(BadRequest):
        verified(store, fifth)
    assert verify_file(tmp_path / "archive", store, fifth) == moved
    assert isinstance(verify_file(tmp_path / "archive", store, other), BrokenLink)
    assert verified(store, moved.head) == head(store.database.read)
    assert isinstance(verified(store, Head(10, bytes(32))), BrokenLink)
    with pytest.raises(OperatorError):
        verify_file(tmp_path / "archive", store, head(store.database.read))


def test_a_token_that_was_revoked_long_ago_cannot_be_revived(store: Store, tmp_path: Path) -> None:
    append(store, NOW, "token.created", "t")
    append(store, NOW, "token.revoked", "t")
    append(store, NOW + 90, "relayer.updated", "r0")
    with store.database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO tokens (name, kind, digest, created_at, revision) VALUES ('t', 'api', :digest, :now, 1)",
            {"digest": bytes(32), "now": NOW},
        )
    assert list(doubted_tokens(store.database)) == [("t", REVIVED)]
    move(store, tmp_path / "archive", NOW + 50)
    assert list(doubted_tokens(store.database)) == [("t", REVIVED)]


def test_the_entries_that_show_a_replaced_secret_stay(store: Store, tmp_path: Path) -> None:
    for action in ("created", "deleted", "created", "updated"):
        append(store, NOW, f"signer.{action}", "s")
    append(store, NOW + 90, "relayer.updated", "r0")
    move(store, tmp_path / "archive", NOW + 50)
    about = store.database.read("SELECT action FROM audit WHERE record = 's' ORDER BY seq")
    assert [row.action for row in about] == ["signer.deleted", "signer.created", "signer.updated"]


def test_the_archive_survives_a_rotation_of_the_keys(store: Store, tmp_path: Path) -> None:
    move(store, tmp_path / "archive")
    rotation = Rotation(store, EVERY_PROOF)
    rotation.begin(NOW, "cli:me")
    list(rotation.batches())
    assert rotation.finish().damaged == []
    assert isinstance(verified(store), Head)
    with store.database.snapshot():
        assert read_archive(store.database.stream, store.vault).seq == 10


@contextmanager
def dying(at: str, monkeypatch: pytest.MonkeyPatch, after: int) -> Iterator[None]:
    """This process is killed when it calls `at` for the time after so many."""
    original, calls = getattr(audit_archive, at), iter(range(after))

    def killed(*arguments: object, **options: object) -> object:
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(audit_archive, at, killed)
        yield


@pytest.mark.parametrize(("at", "after"), [("_write", 0), ("_remove", 0), ("_remove", 2)])
def test_a_process_that_is_killed_loses_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, after: int
) -> None:
    monkeypatch.setattr(audit_archive, "_STEP_ENTRIES", 3)
    with opened(home) as store:
        for number in range(ENTRIES):
            append(store, NOW + number, "relayer.updated", f"r{number % 3}")
    if (child := os.fork()) == 0:
        with opened(home) as store, dying(at, monkeypatch, after):
            move(store, tmp_path / "one")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with opened(home) as store:
        assert isinstance(verified(store), Head)
        left = 10 - 3 * after
        assert move(store, tmp_path / "two").entries == left
        assert isinstance(verified(store), Head)
        assert isinstance(verify_file(tmp_path / "two", store, None), Archived)
        if after:
            assert isinstance(verify_file(tmp_path / "one", store, None), Archived)
            move(store, tmp_path / "three", NOW + 200)  # with the entries about the archives
            for name, entries in (("one", 10), ("two", left)):
                found = verify_file(tmp_path / name, store, None)
                assert isinstance(found, Archived) and found.entries == entries
