"""Marks a database that is being filled, from before its first table until the copy is verified.

A database with the mark cannot be opened. The command that began the copy can continue it.
"""

from relaydeck.errors import OperatorError
from relaydeck.store.database import Database, Reader

MARK = "unfinished_copy"


def unfinished_copy_of(reader: Reader) -> str | None:
    """The source of an unfinished copy; None when the database is not one."""
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
    origin = unfinished_copy_of(reader)
    if origin is not None:
        raise OperatorError(
            f"this database is an unfinished copy of {origin}",
            "Run the command that began it again ('relaydeck db move' or 'relaydeck restore').",
        )
