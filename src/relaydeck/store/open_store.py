"""Opens the home folder, or creates it: database, schema, master key and keyring. Never prompts.

The database is SQLite for a path, PostgreSQL for a URL.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from relaydeck.errors import OperatorError
from relaydeck.settings.model import Settings
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.copying.mark import record_revoked, refuse_unfinished
from relaydeck.store.database import Database, Reader, ShowProgress, without_progress
from relaydeck.store.files import (
    forget_replaced,
    keep_to_file,
    lost_file,
    opening_lock,
    refuse_new_file,
    refuse_replaced,
)
from relaydeck.store.migrate import migrate, newest_version, schema_version
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.postgres_reader import PostgresReader
from relaydeck.store.sealing import Keyring
from relaydeck.store.sqlite import SqliteDatabase, SqliteReader
from relaydeck.store.vault import Vault, existing_keyring, open_vault
from relaydeck.store.write_signal import WriteSignal


class Store(NamedTuple):
    database: Database
    vault: Vault

    def close(self) -> None:
        self.database.close()


def open_store(
    settings: Settings, *, to_serve: bool = False, migrates: bool = True, progress: ShowProgress = without_progress
) -> Store:
    """`to_serve`: the processes that this one starts open the same file, and no other in its place.

    No empty database is served in the place of one that is missing; commands may create one, and say so. Without
    `migrates`, a database with an older schema is refused.
    """
    if to_serve and isinstance(settings.database, Path) and (lost := lost_file(settings.database, settings.home)):
        raise lost
    place = settings.home, settings.database, settings.master_key_path
    store = open_store_at(*place, migrates=migrates, progress=progress)
    if to_serve and isinstance(settings.database, Path):
        keep_to_file(settings.database)
    return store


def open_served_store(settings: Settings) -> Store:
    """The store in a process of a service that has opened it before. A missing file is not created.

    A newer version may have migrated it since, during a rolling upgrade. That only adds what this version ignores, so a
    worker that dies then is replaced.
    """
    store = open_store_at(settings.home, settings.database, settings.master_key_path, served=True)
    # A process that was killed between a commit and the next upkeep has erased nothing, and nobody else knows of it.
    store.database.write_signal.erasing = not store.database.remote
    return store


def open_store_at(
    home: Path,
    where: Path | DatabaseUrl,
    master_key_path: Path,
    *,
    served: bool = False,
    migrates: bool = True,
    progress: ShowProgress = without_progress,
) -> Store:
    """Raises OperatorError, with nothing changed, when the master key is wrong or missing."""
    with opening_lock(home) as run_folder:
        database = connect_database(where, run_folder, create=not served)
        try:
            if not migrates:
                _refuse_older(schema_version(database))
            return _open(database, master_key_path, progress, accept_newer=served)
        except BaseException:
            database.close()
            raise


@contextmanager
def open_for_filling(home: Path, where: Path | DatabaseUrl) -> Iterator[Database]:
    """A database as it is, for a copy to fill. Other processes wait until this block ends before they open it."""
    with (
        opening_lock(home) as run_folder,
        closing(connect_database(where, run_folder)) as database,
        database.opening(),
    ):
        yield database


@contextmanager
def open_for_plan(settings: Settings) -> Iterator[tuple[Database, Keyring | None]]:
    """A database as it is, and what opens its sealed values, for `migrate.plan`."""
    (settings.home / "run").mkdir(mode=0o700, exist_ok=True)
    with closing(connect_database(settings.database, settings.home / "run", create=False)) as database:
        refuse_unfinished(database)
        yield database, existing_keyring(database, settings.master_key_path)


def _refuse_older(found: int) -> None:
    if found < newest_version():
        raise OperatorError(
            f"the database has schema version {found}, this program needs {newest_version()}",
            "Run 'relaydeck db migrate' first, or start without --no-migrate.",
        )


def _open(database: Database, master_key_path: Path, progress: ShowProgress, *, accept_newer: bool) -> Store:
    with database.opening():
        refuse_unfinished(database)
        if not (accept_newer and schema_version(database) > newest_version()):
            migrate(database, keyring=existing_keyring(database, master_key_path), progress=progress)
        vault = open_vault(database, master_key_path)
        record_revoked(database, vault)
        return Store(database, vault)


def connect_database(where: Path | DatabaseUrl, run_folder: Path, *, create: bool = True) -> Database:
    """A database to read and write. `create`: the file of a SQLite database is created if it does not exist yet."""
    write_signal = WriteSignal(run_folder / "write-signal")
    if isinstance(where, Path):
        if not where.exists():
            refuse_new_file(where, served=not create)
            _create_private_file(where)
        else:
            refuse_replaced(where, served=not create)
        forget_replaced(where)
        return SqliteDatabase(where, write_signal)
    return PostgresDatabase(where, write_signal)


def open_reader_at(where: Path | DatabaseUrl) -> Reader:
    """A database to read as it is: nothing is created, locked or migrated. Raises OperatorError."""
    if isinstance(where, Path):
        refuse_replaced(where)
        return SqliteReader(where)
    return PostgresReader(where)


def _create_private_file(path: Path) -> None:
    # SQLite gives its journal files the permissions of the database.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise OperatorError(f"the database {path} cannot be created: {error.strerror}") from None
