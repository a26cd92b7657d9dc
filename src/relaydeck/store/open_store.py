"""Opens the home folder, or makes it: database, schema, master key and keyring. Asks nothing."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.settings import Settings
from relaydeck.store.copying.mark import refuse_unfinished
from relaydeck.store.database import Database, Reader
from relaydeck.store.migrate import migrate
from relaydeck.store.sealing import MasterKey, create_master_key, read_master_key
from relaydeck.store.sqlite import SqliteDatabase, SqliteReader
from relaydeck.store.vault import Vault
from relaydeck.store.write_signal import WriteSignal

if TYPE_CHECKING:
    from relaydeck.store.postgres import PostgresDatabase, PostgresReader

_POSTGRES = "relaydeck.store.postgres"  # loaded when asked for: its driver would be a good part of the start


class Store(NamedTuple):
    database: Database
    vault: Vault

    def close(self) -> None:
        self.database.close()


def open_store(settings: Settings) -> Store:
    return open_store_at(settings.home, settings.database, settings.master_key_path)


def open_store_at(home: Path, where: Path | DatabaseUrl, master_key_path: Path) -> Store:
    """Raises OperatorError, having changed nothing, when the master key is wrong or missing."""
    run = home / "run"
    _make_folders(home, run)
    with _one_at_a_time(run / "opening"):
        database = _database(where, WriteSignal(run / "write-signal"))
        try:
            return _open(database, master_key_path)
        except BaseException:
            database.close()
            raise


def _database(where: Path | DatabaseUrl, write_signal: WriteSignal) -> Database:
    if isinstance(where, Path):
        if not where.exists():
            _make_private_file(where)
        return SqliteDatabase(where, write_signal)
    postgres: type[PostgresDatabase] = import_module(_POSTGRES).PostgresDatabase
    return postgres(where, write_signal)


def open_reader_at(where: Path | DatabaseUrl) -> Reader:
    """A database as it is: nothing is made, locked or brought up to date."""
    if isinstance(where, Path):
        return SqliteReader(where)
    postgres: type[PostgresReader] = import_module(_POSTGRES).PostgresReader
    return postgres(where)


@contextmanager
def open_for_filling(home: Path, where: Path | DatabaseUrl) -> Iterator[Database]:
    """A database as it is, to be filled; whoever would open it here waits until that is done."""
    run = home / "run"
    _make_folders(home, run)
    with (
        _one_at_a_time(run / "opening"),
        closing(_database(where, WriteSignal(run / "write-signal"))) as database,
        database.opening(),
    ):
        yield database


def _open(database: Database, master_key_path: Path) -> Store:
    with database.opening():
        refuse_unfinished(database)
        _require_master_key(database, master_key_path)
        migrate(database)
        return Store(database, _open_vault(database, master_key_path))


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """SQLite turns its write-ahead log on without waiting its turn: two first starts would trip each other."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_folders(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OperatorError(
                f"the folder {folder} cannot be made: {error.strerror}", "Choose another with RELAYDECK_HOME."
            ) from None


def _make_private_file(path: Path) -> None:
    # The database's journal files take their permissions from it.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise OperatorError(f"the database {path} cannot be made: {error.strerror}") from None


def _require_master_key(database: Database, path: Path) -> None:
    """A database that has sealed values is not touched without the key that opens them."""
    if _wrapped_keys(database):
        Vault(database, read_master_key(path))


def _wrapped_keys(database: Database) -> bool:
    return database.has_table("data_keys") and bool(database.read("SELECT 1 FROM data_keys LIMIT 1"))


def _open_vault(database: Database, path: Path) -> Vault:
    if not _wrapped_keys(database):
        create_master_key(path)
        _first_data_key(database, read_master_key(path))
    return Vault(database, read_master_key(path))


def _first_data_key(database: Database, master: MasterKey) -> None:
    vault = Vault(database, master)
    with database.transaction() as transaction:
        # Another first start may have been faster: one data key is enough.
        if transaction.one("SELECT 1 FROM data_keys") is None:
            vault.add_data_key(transaction, int(time.time()))
