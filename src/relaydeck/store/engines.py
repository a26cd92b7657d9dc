"""Chooses the engine of a database: SQLite for a path, PostgreSQL for a URL."""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.store.database import Database, Reader
from relaydeck.store.served_file import forget_replaced, keep_to_file, refuse_new_file, refuse_replaced
from relaydeck.store.sqlite import SqliteDatabase, SqliteReader
from relaydeck.store.write_signal import WriteSignal

if TYPE_CHECKING:
    from relaydeck.store.postgres import PostgresDatabase
    from relaydeck.store.postgres_reader import PostgresReader

# Imported when needed: the driver would be a good part of the time that a start takes.
_POSTGRES = "relaydeck.store.postgres"


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
    postgres: type[PostgresDatabase] = import_module(_POSTGRES).PostgresDatabase
    return postgres(where, write_signal)


def serve_only(where: Path | DatabaseUrl) -> None:
    """From now on, the processes of this service open no other file in the place of this one."""
    if isinstance(where, Path):
        keep_to_file(where)


def open_reader_at(where: Path | DatabaseUrl) -> Reader:
    """A database to read as it is: nothing is created, locked or migrated. Raises OperatorError."""
    if isinstance(where, Path):
        refuse_replaced(where)
        return SqliteReader(where)
    postgres: type[PostgresReader] = import_module(_POSTGRES).PostgresReader
    return postgres(where)


def _create_private_file(path: Path) -> None:
    # SQLite gives its journal files the permissions of the database.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise OperatorError(f"the database {path} cannot be created: {error.strerror}") from None
