"""Moves all contents from one database to another, or from a backup to a database."""

from contextlib import closing
from pathlib import Path

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.store.copying.backup_reader import BackupFile
from relaydeck.store.copying.contents import ShowProgress
from relaydeck.store.copying.copy import DatabaseSource, Loaded, fill
from relaydeck.store.copying.mark import REVOKED, refuse_unfinished, remove_mark
from relaydeck.store.database import Database, Reader
from relaydeck.store.engines import open_reader_at
from relaydeck.store.migrate import schema_version

_REVISION = "SELECT revision FROM clock"


def move(where: Path | DatabaseUrl, target: Database, show_progress: ShowProgress) -> Loaded:
    """Copy a snapshot. Raises OperatorError, with the copy unfinished, when the source was written to meanwhile."""
    with closing(open_reader_at(where)) as reader, reader.snapshot():
        source = complete_source(reader)
        moment = _moment(reader)
        with show_progress("moving", 2 * source.count()) as advance:
            loaded = fill(source, target, _origin(where), advance)
    with closing(open_reader_at(where)) as reader:
        if _moment(reader) != moment:
            raise OperatorError(
                "the source was written to while it was copied, so the copy is not finished",
                "Stop the service and run this command again: it copies the tables that changed.",
            )
    remove_mark(target)
    return loaded


def restore(backup: BackupFile, target: Database, show_progress: ShowProgress) -> Loaded:
    """The target keeps its mark: the caller removes it."""
    with show_progress("restoring", 2 * backup.count()) as advance:
        loaded = fill(backup, target, f"the backup {backup.digest.hex()}", advance)
    if loaded.contents != backup.contents:
        raise OperatorError(
            "the backup file was changed while it was restored",
            "The target stays marked as unfinished and cannot be opened. Use another copy of the backup.",
        )
    return loaded


def complete_source(reader: Reader) -> DatabaseSource:
    """A database as a source. Raises OperatorError when it is empty or an unfinished copy."""
    refuse_unfinished(reader)
    if reader.has_table(REVOKED):
        raise OperatorError(
            "this database was restored from a backup that is not authentic, and was not opened since",
            "Run 'relaydeck token list' first: it records in the audit log which tokens the restore revoked.",
        )
    if schema_version(reader) == 0:
        raise OperatorError("the database is empty: there is nothing to copy", "Check RELAYDECK_DATABASE_URL.")
    return DatabaseSource(reader)


def _moment(reader: Reader) -> tuple[int, int]:
    # Every write takes a revision; a migration changes the version instead.
    return reader.read(_REVISION)[0].revision, schema_version(reader)


def _origin(where: Path | DatabaseUrl) -> str:
    return str(where.absolute() if isinstance(where, Path) else where)
