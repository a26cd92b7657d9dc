"""Brings the schema up to date at the start, under a lock; refuses a database newer than the program."""

import time
from collections.abc import Callable
from importlib.resources import files
from string import Template

from relaydeck.errors import OperatorError
from relaydeck.store.database import Database, Execute, Reader


def steps() -> list[tuple[int, str]]:
    """Every migration as (version, SQL), oldest first. A released step is never edited."""
    folder = files("relaydeck.store").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), folder.joinpath(name).read_text("utf-8")) for name in names]


def newest_version() -> int:
    return steps()[-1][0]


def schema_version(database: Reader) -> int:
    """The version a database is at; 0 when it is empty."""
    if not database.has_table("schema_versions"):
        return 0
    version: int = database.read("SELECT max(version) AS newest FROM schema_versions")[0].newest
    return version


def migrate(database: Database, now: Callable[[], float] = time.time, *, to: int | None = None) -> int:
    """Apply what is missing, in one transaction; gives the version the database was at before.

    With `to` no further than that version: for who fills it with what was written then.
    """
    if (found := schema_version(database)) == newest_version():
        return found
    with database.migration() as execute:
        found = schema_version(database)  # again, now that nobody else can migrate
        refuse_newer(found)
        for version, sql in steps():
            if found < version <= (to or version):
                _apply(execute, version, Template(sql).substitute(database.words), now())
    return found


def refuse_newer(found: int) -> None:
    if found > newest_version():
        raise OperatorError(
            f"the database has schema version {found}, this program knows {newest_version()}",
            "Run the newer Relaydeck that wrote it, or restore a backup made before the upgrade.",
        )


def _apply(execute: Execute, version: int, sql: str, now: float) -> None:
    execute("CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)")
    for statement in _statements(sql):
        execute(statement)
    execute(
        "INSERT INTO schema_versions (version, applied_at) VALUES (:version, :moment)",
        {"version": version, "moment": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now))},
    )


def _statements(sql: str) -> list[str]:
    # executescript would commit on its own; a step must stay inside its transaction.
    lines = [line for line in sql.splitlines() if not line.lstrip().startswith("--")]
    return [statement for part in "\n".join(lines).split(";") if (statement := part.strip())]
