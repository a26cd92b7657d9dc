"""The file of the master key, and the data keys that it wraps."""

from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

from relaydeck.errors import OperatorError
from relaydeck.store.sealing import RowProofs
from relaydeck.store.vault import (
    MasterKey,
    create_master_key,
    new_data_key,
    open_keyring,
    open_keys,
    read_master_keys,
    replacing_master_key,
    write_master_keys,
)


def test_a_data_key_is_wrapped_by_its_master_key_alone() -> None:
    wrapped = new_data_key(MasterKey(b"m" * 32))
    with pytest.raises(InvalidTag):
        MasterKey(b"n" * 32).unwrap(wrapped)


def test_a_keyring_does_not_open_under_another_master_key() -> None:
    wrapped = new_data_key(MasterKey(b"m" * 32))
    with pytest.raises(OperatorError) as error:
        open_keyring([MasterKey(b"n" * 32)], [(1, wrapped)])
    assert error.value.problem == "the master key does not open this database's keyring"
    assert error.value.remedy == (
        "Restore the master key file of this database (RELAYDECK_MASTER_KEY_FILE). If 'relaydeck key rotate --master'"
        " replaced the key, copy the file from where that ran."
    )


def test_a_keyring_proves_rows_with_the_key_of_its_master() -> None:
    master = MasterKey(b"m" * 32)
    assert open_keyring([master], []).proofs.of("t", (1,)) == RowProofs(master.proof_key).of("t", (1,))


OLD, NEW, STALE = (MasterKey(letter * 32) for letter in (b"o", b"n", b"s"))


def test_the_master_key_of_the_newest_data_key_is_in_use_and_others_as_long_as_they_wrap_one() -> None:
    keys = open_keys([NEW, OLD, STALE], [(2, new_data_key(NEW)), (1, new_data_key(OLD))])
    assert (keys.master, keys.older, keys.keyring.active) == (NEW, [OLD], 2)


def test_a_new_key_that_wraps_nothing_yet_is_not_in_use() -> None:
    keys = open_keys([NEW, OLD], [(1, new_data_key(OLD))])
    assert (keys.master, keys.older) == (OLD, [])


@pytest.mark.parametrize("row", [(1, None), (None, b""), ("x", b"x" * 60), (2**70, b"")])
def test_rows_that_nothing_of_ours_wrote_do_not_open(row: tuple[object, object]) -> None:
    with pytest.raises(OperatorError, match="does not open this database's keyring"):
        open_keys([NEW], [row])


def test_a_file_has_a_key_in_each_line(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key", b"o" * 32)
    (tmp_path / "master.key").chmod(0o640)
    write_master_keys(tmp_path / "master.key", [NEW, OLD])
    assert (tmp_path / "master.key").read_text() == "6e" * 32 + "\n" + "6f" * 32 + "\n"
    assert [each.reveal() for each in read_master_keys(tmp_path / "master.key")] == [b"n" * 32, b"o" * 32]
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o640


def test_replacing_the_keys_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    (tmp_path / ".master.key.9999999").write_text("a draft")
    write_master_keys(tmp_path / "master.key", [NEW])
    assert [path.name for path in tmp_path.iterdir()] == ["master.key"]


def test_a_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    create_master_key(tmp_path / "real.key")
    (tmp_path / "master.key").symlink_to("real.key")
    write_master_keys(tmp_path / "master.key", [NEW])
    assert (tmp_path / "master.key").is_symlink()
    assert (tmp_path / "real.key").read_text() == "6e" * 32 + "\n"


def test_a_file_that_cannot_be_changed_is_explained() -> None:
    with pytest.raises(OperatorError) as error:
        write_master_keys(Path("/proc/version"), [NEW])
    assert error.value.problem == "the master key file /proc/version cannot be changed: No such file or directory"
    assert error.value.remedy == (
        "Run the command as the owner of the file. If the file is mounted, change it where it comes from: a new key"
        " ('openssl rand -hex 32') in the first line, the present one in the second. When every service has the file,"
        " run the command again."
    )


def test_one_process_at_a_time_replaces_the_key(tmp_path: Path) -> None:
    with (
        replacing_master_key(tmp_path / "master.key"),
        pytest.raises(OperatorError, match="another process replaces the master key now"),
        replacing_master_key(tmp_path / "master.key"),
    ):
        pass
    with replacing_master_key(tmp_path / "master.key"):
        pass


def test_a_missing_master_key_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as error:
        read_master_keys(tmp_path / "master.key")[0]
    assert (error.value.problem, error.value.remedy) == (
        f"the master key file {tmp_path / 'master.key'} is missing",
        "Put your copy of it back, or correct RELAYDECK_MASTER_KEY_FILE: without it the sealed secrets of this database"
        " cannot be opened. Only a backup made"
        " with --with-master-key contains it.",
    )


def test_a_master_key_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as error:
        read_master_keys(tmp_path)[0]
    assert (error.value.problem, error.value.remedy) == (
        f"the master key file {tmp_path} cannot be used: Is a directory",
        "Check the file and its permissions, or restore it from your backup.",
    )


def test_a_new_master_key_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o600


def test_an_existing_master_key_is_left_as_it_is(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key", b"a" * 32)
    create_master_key(tmp_path / "master.key", b"b" * 32)
    assert (tmp_path / "master.key").read_text() == "61" * 32 + "\n"


def test_an_existing_master_key_may_be_in_a_folder_that_cannot_be_written() -> None:
    create_master_key(Path("/proc/version"))  # no user can create a file in that folder


def test_making_a_master_key_leaves_no_draft(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    assert [path.name for path in tmp_path.iterdir()] == ["master.key"]


@pytest.mark.parametrize(
    "content", [b"", b"00" * 31, b"00" * 32 + b"\n" + b"00" * 31, b"00" * 33, b"zz" * 32, b"\xff" * 64]
)
def test_a_file_that_is_no_master_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "master.key").write_bytes(content)
    with pytest.raises(OperatorError) as error:
        read_master_keys(tmp_path / "master.key")[0]
    reason = "it is not 64 hexadecimal digits"
    assert error.value.problem == f"the master key file {tmp_path / 'master.key'} cannot be used: {reason}"


@pytest.mark.parametrize(("folder", "reason"), [("none", "No such file or directory"), ("file", "Not a directory")])
def test_a_folder_in_which_no_master_key_can_be_created_is_named(tmp_path: Path, folder: str, reason: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError) as error:
        create_master_key(tmp_path / folder / "master.key")
    assert (error.value.problem, error.value.remedy) == (
        f"the master key cannot be written to the folder {tmp_path / folder}: {reason}",
        "Create the folder, or make it writable, or choose another file with RELAYDECK_MASTER_KEY_FILE.",
    )
