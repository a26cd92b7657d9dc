"""Proves that a backup can be restored, by restoring it into a temporary database."""

from typing import NamedTuple

from relaydeck.errors import Damaged
from relaydeck.store.audit import BrokenLink, Head, verify
from relaydeck.store.copying.backup_reader import BackupFile
from relaydeck.store.copying.contents import Content, ShowProgress
from relaydeck.store.copying.copy import contents_of, load
from relaydeck.store.copying.mark import remove_mark
from relaydeck.store.database import Database, Reader
from relaydeck.store.migrate import migrate
from relaydeck.store.rotation import SEALED_COLUMNS
from relaydeck.store.row_proofs import RowProofs
from relaydeck.store.sealing import Keyring


class Compared(NamedTuple):
    table: str
    expected: Content
    found: Content


class Secrets(NamedTuple):
    """The result of a check that needs the master key."""

    opened: int
    damaged: list[Damaged]
    audit: Head | BrokenLink


def restore_into_scratch(
    backup: BackupFile, database: Database, show_progress: ShowProgress, proofs: RowProofs | None
) -> list[Compared]:
    """Fill the temporary database, read it back, and migrate it to the newest schema, as a start would."""
    with show_progress("restoring", 2 * backup.count()) as advance:
        load(backup, database, "a drill", advance)
        found = contents_of(database, backup.tables, advance)
    remove_mark(database)
    migrate(database, proofs=proofs)
    return [Compared(name, backup.contents[name], content) for name, content in found.items()]


def check_secrets(reader: Reader, keyring: Keyring) -> Secrets:
    """Open every sealed value, and verify the audit log."""
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
