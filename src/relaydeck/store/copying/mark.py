"""A database that is being filled carries a mark, from before its first table until it was proved whole.

While it is there nobody opens the database; who filled it may go on.
"""

from relaydeck.errors import OperatorError
from relaydeck.store.database import Database, Reader

MARK = "unfinished_copy"


def marked(reader: Reader) -> str | None:
    """What an unfinished copy is a copy of; None when there is none."""
    if not reader.has_table(MARK):
        return None
    origin: str = reader.read(f"SELECT origin FROM {MARK}")[0].origin
    return origin


def set_mark(database: Database, origin: str) -> None:
    with database.migration() as execute:
        execute(f"CREATE TABLE {MARK} (origin TEXT NOT NULL)")
        execute(f"INSERT INTO {MARK} (origin) VALUES (:origin)", {"origin": origin})


def remove_mark(database: Database) -> None:
    with database.migration() as execute:
        execute(f"DROP TABLE {MARK}")


def refuse_unfinished(reader: Reader) -> None:
    origin = marked(reader)
    if origin is not None:
        raise OperatorError(
            f"this database is an unfinished copy of {origin}",
            "Run the command that began it again ('relaydeck db move' or 'relaydeck restore'). Nothing was changed.",
        )
