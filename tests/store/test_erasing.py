"""A secret that was removed is on no disk any more: neither in the file of the database nor in its log."""

import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relaydeck.settings.model import Settings
from relaydeck.store.open_store import Store, open_served_store
from tests.support.running import Running, make_token
from tests.support.seeding import fill, opened
from tests.support.stored_rows import remove_signer

_REMOVE_AND_DIE = """
import os, pathlib, signal, sys
from tests.support.seeding import opened
from tests.store.test_erasing import remove_ops

with opened(pathlib.Path(sys.argv[1])) as store:
    remove_ops(store)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def sealed(store: Store) -> bytes:
    value: bytes = store.database.read("SELECT sealed_config FROM signers")[0].sealed_config
    return value


def on_disk(home: Path, value: bytes) -> bool:
    return any(value in path.read_bytes() for path in home.glob("relaydeck.db*"))


def remove_ops(store: Store) -> None:
    with store.database.transaction() as transaction:
        remove_signer(transaction, "ops")


def test_a_removed_key_leaves_the_write_ahead_log(home: Path) -> None:
    fill(home)
    with opened(home) as store:
        value = sealed(store)
        remove_ops(store)
        assert (store.database.write_signal.erasing, on_disk(home, value)) == (True, True)
        store.database.erase_removed()
        assert (store.database.write_signal.erasing, on_disk(home, value)) == (False, False)


def test_a_command_that_removes_a_key_empties_the_log_of_a_running_service(home: Path) -> None:
    fill(home)
    with opened(home) as running:
        value = sealed(running)
        with opened(home) as command:
            remove_ops(command)
        assert not on_disk(home, value)


def test_a_key_removed_by_a_process_that_was_killed_leaves_the_log_of_the_next_one(home: Path) -> None:
    fill(home)
    with opened(home) as other:  # otherwise the next process to open the file would empty the log by closing it
        value = sealed(other)
        killed = subprocess.run([sys.executable, "-c", _REMOVE_AND_DIE, str(home)], timeout=60, check=False)
        assert (killed.returncode, on_disk(home, value)) == (-signal.SIGKILL, True)
        with closing(open_served_store(Settings(home=home))) as served:
            served.database.erase_removed()
            assert (served.database.write_signal.erasing, on_disk(home, value)) == (False, False)


def test_a_reader_in_the_way_delays_the_erasing(home: Path) -> None:
    fill(home)
    with opened(home) as store, opened(home) as other:
        value = sealed(store)
        with other.database.snapshot():
            other.database.read("SELECT count(*) FROM signers")
            remove_ops(store)
            store.database.erase_removed()
            assert (store.database.write_signal.erasing, on_disk(home, value)) == (True, True)
        store.database.erase_removed()
        assert (store.database.write_signal.erasing, on_disk(home, value)) == (False, False)


def test_a_key_that_an_apply_over_http_replaces_leaves_the_log_of_the_running_service(home: Path) -> None:
    """The apply has a connection of its own."""
    admin = make_token(home, "admin", "--kind", "admin")
    with Running(home, token=admin) as service:
        assert service.ask("POST", "/admin/v1/apply", document("a first key of the receiver")).status == 200
        with opened(home) as store:
            value = store.database.read("SELECT sealed_signing_key FROM notifications")[0].sealed_signing_key
        assert service.ask("POST", "/admin/v1/apply", document("another key of the receiver")).status == 200
        deadline = time.monotonic() + 60
        while on_disk(home, value) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not on_disk(home, value)


def document(key: str) -> dict[str, Any]:
    notification = {"id": "pager", "type": "webhook", "url": "https://hooks.example.com", "signing_key": key}
    return {"document": {"notifications": [notification]}}
