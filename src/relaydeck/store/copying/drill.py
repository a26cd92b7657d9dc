"""Proves that a backup can be restored: it is, into a database that lasts no longer than the proof."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from relaydeck.database_url import DatabaseUrl
from relaydeck.store.audit import BrokenLink, Head, verify
from relaydeck.store.copying.backup_file import BackupFile
from relaydeck.store.copying.contents import Content
from relaydeck.store.copying.copy import contents_of, load
from relaydeck.store.copying.mark import remove_mark
from relaydeck.store.copying.move import Watch
from relaydeck.store.database import Database, Reader
from relaydeck.store.migrate import migrate
from relaydeck.store.open_store import open_for_filling
from relaydeck.store.rotation import SEALED_COLUMNS
from relaydeck.store.sealing import Damaged, Keyring


class Compared(NamedTuple):
    table: str
    expected: Content
    found: Content


class Secrets(NamedTuple):
    """What the master key proves."""

    opened: int
    damaged: list[Damaged]
    audit: Head | BrokenLink


@contextmanager
def scratch(where: Path | DatabaseUrl) -> Iterator[Database]:
    """A new database of the same engine, or SQLite where the server makes none for us; removed at the end."""
    with (
        TemporaryDirectory(prefix="relaydeck-drill-") as folder,
        _beside(where, Path(folder)) as place,
        open_for_filling(Path(folder), place) as database,
    ):
        yield database


@contextmanager
def _beside(where: Path | DatabaseUrl, folder: Path) -> Iterator[Path | DatabaseUrl]:
    name = f"relaydeck_drill_{secrets.token_hex(6)}"
    if isinstance(where, Path):
        yield folder / "scratch.db"
        return
    from relaydeck.store.postgres_connection import create_database, drop_database

    if not create_database(where, name):
        yield folder / "scratch.db"
        return
    try:
        yield where.beside(name)
    finally:
        drop_database(where, name)


def restored(backup: BackupFile, database: Database, watch: Watch) -> list[Compared]:
    """Fill the scratch database and read it back; then bring it to the newest schema, as a start would."""
    with watch("restoring", 2 * backup.count()) as advance:
        load(backup, database, "a drill", advance)
        found = contents_of(database, backup.tables, advance)
    remove_mark(database)
    migrate(database)
    return [Compared(name, backup.contents[name], content) for name, content in found.items()]


def examined(reader: Reader, keyring: Keyring) -> Secrets:
    """Open every sealed value, and walk the audit log."""
    opened, damaged = 0, []
    with reader.snapshot():
        for column in SEALED_COLUMNS:
            sql = (
                f"SELECT {column.identity} AS record, {column.column} AS sealed"
                f" FROM {column.table} WHERE {column.column} IS NOT NULL"
            )
            for row in reader.stream(sql):
                try:
                    keyring.open(row.sealed, column.place(row.record))
                    opened += 1
                except Damaged as damage:
                    damaged.append(damage)
        return Secrets(opened, damaged, verify(reader.stream, keyring))
