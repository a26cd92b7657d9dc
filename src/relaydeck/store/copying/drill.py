"""Proves that a backup can be restored, by restoring it into a temporary database."""

from typing import NamedTuple

from relaydeck.store.copying.backup_reader import BackupFile
from relaydeck.store.copying.contents import Content, ShowProgress
from relaydeck.store.copying.copy import contents_of, load
from relaydeck.store.copying.mark import remove_mark
from relaydeck.store.database import Database
from relaydeck.store.migrate import migrate
from relaydeck.store.sealing import Keyring


class Compared(NamedTuple):
    table: str
    expected: Content
    found: Content


def restore_into_scratch(
    backup: BackupFile, database: Database, show_progress: ShowProgress, keyring: Keyring | None
) -> list[Compared]:
    """Fill the temporary database, read it back, and migrate it to the newest schema, as a start would."""
    with show_progress("restoring", 2 * backup.count()) as advance:
        load(backup, database, "a drill", advance)
        found = contents_of(database, backup.tables, advance)
    remove_mark(database)
    migrate(database, keyring=keyring)
    return [Compared(name, backup.contents[name], content) for name, content in found.items()]
