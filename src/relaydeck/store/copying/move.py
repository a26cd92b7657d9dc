"""Moves everything from one database to another, or from a backup to a database."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.store.copying.backup_file import BackupFile
from relaydeck.store.copying.contents import Advance
from relaydeck.store.copying.copy import DatabaseSource, Loaded, fill
from relaydeck.store.copying.mark import refuse_unfinished, remove_mark
from relaydeck.store.database import Database, Reader
from relaydeck.store.migrate import schema_version
from relaydeck.store.open_store import open_reader_at

Watch = Callable[[str, int], AbstractContextManager[Advance]]  # shows how far something is, of how much
_REVISION = "SELECT revision FROM clock"


def move(where: Path | DatabaseUrl, target: Database, watch: Watch) -> Loaded:
    """Copy one moment. Raises OperatorError, the copy left unfinished, if the source was written to meanwhile."""
    with closing(open_reader_at(where)) as reader, reader.snapshot():
        source = readable(reader)
        moment = _moment(reader)
        with watch("moving", 2 * source.count()) as advance:
            loaded = fill(source, target, _origin(where), advance)
    with closing(open_reader_at(where)) as reader:
        if _moment(reader) != moment:
            raise OperatorError(
                "the source was written to while it was copied: the copy is not finished",
                "Stop the service, then run this again: it goes on with what has changed.",
            )
    remove_mark(target)
    return loaded


def restore(backup: BackupFile, target: Database, watch: Watch, before_end: Callable[[], None]) -> Loaded:
    """`before_end` is done once the copy is whole, and before anybody may open it."""
    with watch("restoring", 2 * backup.count()) as advance:
        loaded = fill(backup, target, f"the backup {backup.digest.hex()}", advance)
    before_end()
    remove_mark(target)
    return loaded


def readable(reader: Reader) -> DatabaseSource:
    """A database as a source. Raises OperatorError when there is nothing whole in it."""
    refuse_unfinished(reader)
    if schema_version(reader) == 0:
        raise OperatorError("the database is empty: there is nothing to copy", "Check RELAYDECK_DATABASE_URL.")
    return DatabaseSource(reader)


def _moment(reader: Reader) -> tuple[int, int]:
    # Every write takes a revision; a migration takes none.
    return reader.read(_REVISION)[0].revision, schema_version(reader)


def _origin(where: Path | DatabaseUrl) -> str:
    return str(where.absolute() if isinstance(where, Path) else where)
