"""Statements that go around the database's interface, as an operator's own session would."""

from typing import Any, LiteralString

from relaydeck.store.database import Database, Reader
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.sqlite import SqliteDatabase


def run_statement(database: Database, sql: LiteralString) -> None:
    """Run it on the connection that writes, outside a transaction of ours."""
    assert isinstance(database, SqliteDatabase | PostgresDatabase)
    database.writer.execute(sql)


def column(reader: Reader, sql: str) -> list[Any]:
    """The first column of each row."""
    return [row[0] for row in reader.read(sql)]
