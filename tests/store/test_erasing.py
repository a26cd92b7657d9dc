"""A secret that was removed is on no disk any more: neither in the file of the database nor in its log."""

from pathlib import Path

import pytest

from relaydeck.store.open_store import Store
from relaydeck.store.removals import remove_row
from tests.seeding import fill, opened


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def sealed(store: Store) -> bytes:
    value: bytes = store.database.read("SELECT sealed_config FROM signers")[0].sealed_config
    return value


def on_disk(home: Path, value: bytes) -> bool:
    return any(value in path.read_bytes() for path in home.glob("relaydeck.db*"))


def remove_signer(store: Store) -> None:
    with store.database.transaction() as transaction:
        remove_row(transaction, "signers", "id", "ops")


def test_a_removed_key_leaves_the_write_ahead_log(home: Path) -> None:
    fill(home)
    with opened(home) as store:
        value = sealed(store)
        remove_signer(store)
        assert (store.database.erasing, on_disk(home, value)) == (True, True)
        store.database.erase_removed()
        assert (store.database.erasing, on_disk(home, value)) == (False, False)


def test_a_command_that_removes_a_key_empties_the_log_of_a_running_service(home: Path) -> None:
    fill(home)
    with opened(home) as running:
        value = sealed(running)
        with opened(home) as command:
            remove_signer(command)
        assert not on_disk(home, value)


def test_a_reader_in_the_way_delays_the_erasing(home: Path) -> None:
    fill(home)
    with opened(home) as store, opened(home) as other:
        value = sealed(store)
        with other.database.snapshot():
            other.database.read("SELECT count(*) FROM signers")
            remove_signer(store)
            store.database.erase_removed()
            assert (store.database.erasing, on_disk(home, value)) == (True, True)
        store.database.erase_removed()
        assert (store.database.erasing, on_disk(home, value)) == (False, False)
