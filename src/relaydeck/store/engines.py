"""Chooses the engine of a database: SQLite for a path, PostgreSQL for a URL."""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.store.database import Database, Reader
from relaydeck.store.sqlite import SqliteDatabase, SqliteReader
from relaydeck.store.write_signal import WriteSignal

if TYPE_CHECKING:
    from relaydeck.store.postgres import PostgresDatabase
    from relaydeck.store.postgres_reader import PostgresReader

# Imported when needed: the driver would be a good part of the time that a start takes.
_POSTGRES = "relaydeck.store.postgres"


def connect_database(where: Path | DatabaseUrl, run_folder: Path) -> Database:
    """A database to read and write. Creates the file of a SQLite database that does not exist yet."""
    write_signal = WriteSignal(run_folder / "write-signal")
    if isinstance(where, Path):
        if not where.exists():
            _create_private_file(where)
        return SqliteDatabase(where, write_signal)
    postgres: type[PostgresDatabase] = import_module(_POSTGRES).PostgresDatabase
    return postgres(where, write_signal)


def open_reader_at(where: Path | DatabaseUrl) -> Reader:
    """A database to read as it is: nothing is created, locked or migrated."""
    if isinstance(where, Path):
        return SqliteReader(where)
    postgres: type[PostgresReader] = import_module(_POSTGRES).PostgresReader
    return postgres(where)


def _create_private_file(path: Path) -> None:
    # SQLite gives its journal files the permissions of the database.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise OperatorError(f"the database {path} cannot be created: {error.strerror}") from None
