"""A snapshot of a database, for a copy of it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.store.database import Reader
from relaydeck.store.engines import open_reader_at


@contextmanager
def snapshot_of(where: Path | DatabaseUrl) -> Iterator[Reader]:
    """The database as it is now, regardless of concurrent writes."""
    require_database(where)
    with closing(open_reader_at(where)) as reader, reader.snapshot():
        yield reader


def require_database(where: Path | DatabaseUrl) -> None:
    if isinstance(where, Path) and not where.is_file():
        raise OperatorError(
            f"there is no database {where}", "Choose one with RELAYDECK_HOME or RELAYDECK_DATABASE_URL."
        )
