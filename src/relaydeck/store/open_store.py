"""Opens the home folder, or creates it: database, schema, master key and keyring. Never prompts."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.settings import Settings
from relaydeck.store.copying.mark import refuse_unfinished
from relaydeck.store.database import Database
from relaydeck.store.engines import connect_database
from relaydeck.store.migrate import migrate
from relaydeck.store.row_proofs import RowProofs
from relaydeck.store.sealing import MasterKey, create_master_key, read_master_key
from relaydeck.store.vault import Vault


class Store(NamedTuple):
    database: Database
    vault: Vault

    def close(self) -> None:
        self.database.close()


def open_store(settings: Settings) -> Store:
    return open_store_at(settings.home, settings.database, settings.master_key_path)


def open_store_at(home: Path, where: Path | DatabaseUrl, master_key_path: Path) -> Store:
    """Raises OperatorError, with nothing changed, when the master key is wrong or missing."""
    with _opening_lock(home) as run_folder:
        database = connect_database(where, run_folder)
        try:
            return _open(database, master_key_path)
        except BaseException:
            database.close()
            raise


@contextmanager
def open_for_filling(home: Path, where: Path | DatabaseUrl) -> Iterator[Database]:
    """A database as it is, for a copy to fill. Other processes wait until this block ends before they open it."""
    with (
        _opening_lock(home) as run_folder,
        closing(connect_database(where, run_folder)) as database,
        database.opening(),
    ):
        yield database


def _open(database: Database, master_key_path: Path) -> Store:
    with database.opening():
        refuse_unfinished(database)
        migrate(database, proofs=_existing_proofs(database, master_key_path))
        return Store(database, _open_vault(database, master_key_path))


@contextmanager
def _opening_lock(home: Path) -> Iterator[Path]:
    """One process of this machine at a time opens the home; yields the folder of run-time files.

    SQLite switches to its write-ahead log without waiting for a lock: two first starts at once would fail.
    """
    run_folder = home / "run"
    for folder in (home, run_folder):
        _create_folder(folder)
    descriptor = os.open(run_folder / "opening", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield run_folder
    finally:
        os.close(descriptor)


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(
            f"the folder {folder} cannot be created: {error.strerror}", "Choose another one with RELAYDECK_HOME."
        ) from None


def _existing_proofs(database: Database, path: Path) -> RowProofs | None:
    """A database that has sealed values is not touched without the key that opens them. None for a new database."""
    return Vault(database, read_master_key(path)).proofs if _has_data_keys(database) else None


def _has_data_keys(database: Database) -> bool:
    return database.has_table("data_keys") and bool(database.read("SELECT 1 FROM data_keys LIMIT 1"))


def _open_vault(database: Database, path: Path) -> Vault:
    if not _has_data_keys(database):
        create_master_key(path)
        _add_first_data_key(database, read_master_key(path))
    return Vault(database, read_master_key(path))


def _add_first_data_key(database: Database, master: MasterKey) -> None:
    vault = Vault(database, master)
    with database.transaction() as transaction:
        # Another process may have added one since the check.
        if transaction.one("SELECT 1 FROM data_keys") is None:
            vault.add_data_key(transaction, int(time.time()))
            transaction.audit_head = vault.proofs.signed_head(*transaction.chain_end)
