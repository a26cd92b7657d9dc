"""A PostgreSQL server for the benchmark, and homes that store their records in it."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.homes import Home
from relaydeck.store.migrate import migrate
from relaydeck.store.sqlite import SqliteReader
from relaydeck.store.write_signal import WriteSignal

if TYPE_CHECKING:
    from relaydeck.store.postgres import PostgresDatabase
    from tests.support.postgres import PostgresServer

# As one is run in earnest: a server that does not sync would flatter every write.
_SETTINGS = ("fsync=on", "full_page_writes=on", "autovacuum=on", "shared_buffers=128MB")
# What a list needs, each after what it refers to.
_TABLES = ("data_keys", "tokens", "networks", "signers", "relayers")


@contextmanager
def postgres_server() -> Iterator["PostgresServer"]:
    from tests.support.postgres import PostgresServer

    server = PostgresServer(*_SETTINGS)
    try:
        yield server
    finally:
        server.remove()


def copied(home: Home, server: "PostgresServer", folder: Path) -> Home:
    """The records of an SQLite home in a database of their own; they open with the same master key."""
    from relaydeck.store.postgres import PostgresDatabase

    url = server.url(server.fresh())
    beside = replica_of(home._replace(database=url.reveal()), folder)
    with (
        closing(PostgresDatabase(url, WriteSignal(folder / "write-signal"))) as database,
        closing(SqliteReader(home.folder / "relaydeck.db")) as source,
        source.snapshot(),
    ):
        migrate(database)
        for table in _TABLES:
            _copy(table, source, database)
        (revision,) = source.read("SELECT revision FROM clock")[0]
        database.writer.execute("UPDATE clock SET revision = %s", [revision])
        database.writer.execute("ANALYZE")
    return beside


def replica_of(home: Home, folder: Path) -> Home:
    """Another home for the same database."""
    folder.mkdir(mode=0o700)
    shutil.copy(home.folder / "master.key", folder)
    return home._replace(folder=folder)


def _copy(table: str, source: SqliteReader, database: "PostgresDatabase") -> None:
    key = "id" if table == "data_keys" else "seq"
    columns = ", ".join(row[0] for row in source.read(f"SELECT name FROM pragma_table_info('{table}')"))
    with database.writer.cursor() as cursor:
        with cursor.copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy:
            for row in source.stream(f"SELECT {columns} FROM {table}"):
                copy.write_row(row)
        cursor.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{key}'), max({key})) FROM {table}".encode())
