"""Chooses the engine of a database: SQLite for a path, PostgreSQL for a URL."""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.store.database import Database, Reader
from relaydeck.store.sqlite import FileIdentity, SqliteDatabase, SqliteReader, file_at, replaced_file
from relaydeck.store.write_signal import WriteSignal

if TYPE_CHECKING:
    from relaydeck.store.postgres import PostgresDatabase
    from relaydeck.store.postgres_reader import PostgresReader

# The files that this service serves, by path, and their identities. Its workers inherit this when they are started, so
# it outlives each of them. A file that is put in the place of such a file is not opened: it would share the write-ahead
# log with the file before it, which other workers still use.
_served_files: dict[Path, FileIdentity] = {}

# Imported when needed: the driver would be a good part of the time that a start takes.
_POSTGRES = "relaydeck.store.postgres"


def connect_database(where: Path | DatabaseUrl, run_folder: Path, *, create: bool = True) -> Database:
    """A database to read and write. `create`: the file of a SQLite database is created if it does not exist yet."""
    write_signal = WriteSignal(run_folder / "write-signal")
    if isinstance(where, Path):
        if not where.exists():
            _refuse_new_file(where, create=create)
            _create_private_file(where)
        elif not create and file_at(where) != _served_files.get(where, file_at(where)):
            raise OperatorError(replaced_file(where), "Stop Relaydeck before you replace its database.")
        return SqliteDatabase(where, write_signal)
    postgres: type[PostgresDatabase] = import_module(_POSTGRES).PostgresDatabase
    return postgres(where, write_signal)


def serve_only(where: Path | DatabaseUrl) -> None:
    """From now on, the processes of this service open no other file in the place of this one."""
    if isinstance(where, Path) and (found := file_at(where)) is not None:
        _served_files[where] = found


def open_reader_at(where: Path | DatabaseUrl) -> Reader:
    """A database to read as it is: nothing is created, locked or migrated."""
    if isinstance(where, Path):
        return SqliteReader(where)
    postgres: type[PostgresReader] = import_module(_POSTGRES).PostgresReader
    return postgres(where)


def _refuse_new_file(path: Path, *, create: bool) -> None:
    """SQLite deletes the write-ahead log that it finds beside a new file, and with it acknowledged writes."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise OperatorError(
            f"the database file {path} is missing, and {log.name} contains its newest writes",
            f"Put the file back. If you want a new database instead, move {log.name} away.",
        )
    if not create:
        raise OperatorError(f"the database file {path} is missing", "Put it back, and restart Relaydeck.")


def _create_private_file(path: Path) -> None:
    # SQLite gives its journal files the permissions of the database.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise OperatorError(f"the database {path} cannot be created: {error.strerror}") from None
