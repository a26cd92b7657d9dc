"""Brings the schema up to date at the start, under a lock; refuses a database newer than the program."""

import sqlite3
from importlib.resources import files
from string import Template

from relaydeck.errors import OperatorError
from relaydeck.store.database import Database

_SQLITE_WORDS = {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB"}


def steps() -> list[tuple[int, str]]:
    """Every migration as (version, SQL), oldest first. A released step is never edited."""
    folder = files("relaydeck.store").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), folder.joinpath(name).read_text("utf-8")) for name in names]


def newest_version() -> int:
    return steps()[-1][0]


def schema_version(connection: sqlite3.Connection) -> int:
    """The version a database is at; 0 when it is empty."""
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_versions'").fetchone()
    if not known:
        return 0
    version: int = connection.execute("SELECT max(version) FROM schema_versions").fetchone()[0]
    return version


def migrate(database: Database) -> int:
    """Apply what is missing, in one transaction; gives the version the database was at before."""
    connection = database.writer
    if (found := schema_version(connection)) == newest_version():
        return found
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = schema_version(connection)  # again, now that nobody else can migrate
        _refuse_newer(found)
        for version, sql in steps():
            if version > found:
                _apply(connection, version, sql)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return found


def _refuse_newer(found: int) -> None:
    if found > newest_version():
        raise OperatorError(
            f"the database has schema version {found}, this program knows {newest_version()}",
            "Run the newer Relaydeck that wrote it, or restore a backup made before the upgrade.",
        )


def _apply(connection: sqlite3.Connection, version: int, sql: str) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)"
    )
    for statement in _statements(Template(sql).substitute(_SQLITE_WORDS)):
        connection.execute(statement)
    connection.execute("INSERT INTO schema_versions (version, applied_at) VALUES (?, datetime('now'))", (version,))


def _statements(sql: str) -> list[str]:
    # executescript would commit on its own; a step must stay inside its transaction.
    lines = [line for line in sql.splitlines() if not line.lstrip().startswith("--")]
    return [statement for part in "\n".join(lines).split(";") if (statement := part.strip())]
