"""Opens the home folder, or creates it: database, schema, master key and keyring. Never prompts."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from relaydeck.database_url import DatabaseUrl
from relaydeck.settings import Settings
from relaydeck.store.copying.mark import record_revoked, refuse_unfinished
from relaydeck.store.database import Database
from relaydeck.store.engines import connect_database, serve_only
from relaydeck.store.home_folder import opening_lock
from relaydeck.store.migrate import migrate, newest_version, schema_version
from relaydeck.store.open_vault import existing_keyring, open_vault
from relaydeck.store.vault import Vault


class Store(NamedTuple):
    database: Database
    vault: Vault

    def close(self) -> None:
        self.database.close()


def open_store(settings: Settings, *, to_serve: bool = False) -> Store:
    """`to_serve`: the processes that this one starts open the same file, and no other in its place."""
    store = open_store_at(settings.home, settings.database, settings.master_key_path)
    if to_serve:
        serve_only(settings.database)
    return store


def open_served_store(settings: Settings) -> Store:
    """The store in a process of a service that has opened it before. A missing file is not created.

    A newer version may have migrated it since, during a rolling upgrade. That only adds what this version ignores, so a
    worker that dies then is replaced.
    """
    store = open_store_at(settings.home, settings.database, settings.master_key_path, served=True)
    # A process that was killed between a commit and the next upkeep has erased nothing, and nobody else knows of it.
    store.database.erasing = not store.database.remote
    return store


def open_store_at(home: Path, where: Path | DatabaseUrl, master_key_path: Path, *, served: bool = False) -> Store:
    """Raises OperatorError, with nothing changed, when the master key is wrong or missing."""
    with opening_lock(home) as run_folder:
        database = connect_database(where, run_folder, create=not served)
        try:
            return _open(database, master_key_path, accept_newer=served)
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


def _open(database: Database, master_key_path: Path, *, accept_newer: bool) -> Store:
    with database.opening():
        refuse_unfinished(database)
        if not (accept_newer and schema_version(database) > newest_version()):
            migrate(database, keyring=existing_keyring(database, master_key_path))
        vault = open_vault(database, master_key_path)
        record_revoked(database, vault)
        return Store(database, vault)
