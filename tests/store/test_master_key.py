"""The file of the master key, and the data keys that it wraps."""

from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

from relaydeck.errors import OperatorError
from relaydeck.store.vault import MasterKey, create_master_key, new_data_key, open_keyring, read_master_key


def test_a_data_key_is_wrapped_by_its_master_key_alone() -> None:
    wrapped = new_data_key(MasterKey(b"m" * 32))
    with pytest.raises(InvalidTag):
        MasterKey(b"n" * 32).unwrap(wrapped)


def test_a_keyring_does_not_open_under_another_master_key() -> None:
    wrapped = new_data_key(MasterKey(b"m" * 32))
    with pytest.raises(OperatorError) as error:
        open_keyring(MasterKey(b"n" * 32), [(1, wrapped)])
    assert error.value.problem == "the master key does not open this database's keyring"
    assert error.value.remedy == ("Restore the master key file of this database (RELAYDECK_MASTER_KEY_FILE).")


def test_a_keyring_proves_rows_with_the_key_of_its_master() -> None:
    master = MasterKey(b"m" * 32)
    assert open_keyring(master, []).proofs is master.proofs


def test_a_missing_master_key_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as error:
        read_master_key(tmp_path / "master.key")
    assert (error.value.problem, error.value.remedy) == (
        f"the master key file {tmp_path / 'master.key'} is missing",
        "Put your copy of it back, or correct RELAYDECK_MASTER_KEY_FILE: without it the sealed secrets of this database"
        " cannot be opened. Only a backup made"
        " with --with-master-key contains it.",
    )


def test_a_master_key_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as error:
        read_master_key(tmp_path)
    assert (error.value.problem, error.value.remedy) == (
        f"the master key file {tmp_path} cannot be used: Is a directory",
        "Check the file and its permissions, or restore it from your backup.",
    )


def test_a_new_master_key_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o600


def test_an_existing_master_key_is_left_as_it_is(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key", lambda size: b"a" * size)
    create_master_key(tmp_path / "master.key", lambda size: b"b" * size)
    assert (tmp_path / "master.key").read_text() == "61" * 32 + "\n"


def test_an_existing_master_key_may_be_in_a_folder_that_cannot_be_written() -> None:
    create_master_key(Path("/proc/version"))  # no user can create a file in that folder


def test_making_a_master_key_leaves_no_draft(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    assert [path.name for path in tmp_path.iterdir()] == ["master.key"]


@pytest.mark.parametrize("content", [b"", b"00" * 31, b"00" * 33, b"zz" * 32, b"\xff" * 64])
def test_a_file_that_is_no_master_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "master.key").write_bytes(content)
    with pytest.raises(OperatorError) as error:
        read_master_key(tmp_path / "master.key")
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
