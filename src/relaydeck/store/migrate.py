"""Brings the schema up to date at the start, under a lock.

Refuses a database that is newer than the program, and one that was built by other steps than the program has: each
applied step is stored with a checksum of its statements.
"""

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from relaydeck.errors import OperatorError
from relaydeck.store.database import Database, Execute, Reader
from relaydeck.store.row_proofs import PROOFS_SINCE, prove_stored_rows
from relaydeck.store.sealed_columns import URLS_SINCE, VERSIONS_SINCE, add_versions, seal_webhook_urls
from relaydeck.store.sealing import Keyring
from relaydeck.store.sql_script import statements
from relaydeck.timestamps import utc

_CHECKSUMS_SINCE = 6  # the step that adds the column
_PLACEHOLDER = re.compile(r"\$(serial|bytes)\b")


class Step(NamedTuple):
    """One migration. Its statements must never change once it is released; its comments may."""

    version: int
    script: str

    @property
    def checksum(self) -> str:
        # Of the script as it is written, so that a step has the same checksum on every engine.
        return _checksum(self.script)

    def statements(self, types: Mapping[str, str]) -> tuple[str, ...]:
        """Its statements, with the engine's types in place of the placeholders."""
        return _split(_PLACEHOLDER.sub(lambda match: types[match[1]], self.script))


@cache
def _split(script: str) -> tuple[str, ...]:
    """A process that opens many databases, as the tests do, splits each script once."""
    return tuple(statements(script))


@cache
def _checksum(script: str) -> str:
    return hashlib.sha256("\n".join(_split(script)).encode()).hexdigest()


@cache
def steps() -> tuple[Step, ...]:
    """Every migration, oldest first."""
    folder = files("relaydeck.store").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(Step(int(name[:4]), folder.joinpath(name).read_text("utf-8")) for name in names)


def newest_version() -> int:
    return steps()[-1].version


def schema_version(database: Reader) -> int:
    """The version a database is at; 0 when it is empty."""
    if not database.has_table("schema_versions"):
        return 0
    version: int = database.read("SELECT max(version) AS newest FROM schema_versions")[0].newest
    return version


def migrate(
    database: Database,
    now: Callable[[], float] = time.time,
    *,
    to: int | None = None,
    keyring: Keyring | None = None,
) -> int:
    """Apply the missing steps in one transaction, and return the version the database was at before.

    With `to`, no further than that version: for a copy of a database of that version. `keyring` proves and seals again
    the rows that earlier versions wrote; a database without data keys has none. Raises OperatorError.
    """
    if (found := schema_version(database)) == newest_version() and not _check(database, found):
        return found
    with database.migration() as execute:
        found = schema_version(database)  # again, now that no other process can migrate
        refuse_newer(found)
        _check(database, found)
        if keyring is not None and found < URLS_SINCE and database.is_served():
            _refuse_beside_old_services(found)
        for step in steps():
            if found < step.version <= (to or step.version):
                _apply(execute, step, database.schema_types, now())
        reached = max(found, to or newest_version())
        if reached >= _CHECKSUMS_SINCE:
            _record_checksums(execute)
        if keyring is not None:
            _upgrade_rows(execute, keyring, found, reached)
    database.erasing = database.erasing or (keyring is not None and not database.remote)
    return found


def _upgrade_rows(execute: Execute, keyring: Keyring, found: int, reached: int) -> None:
    if found < PROOFS_SINCE <= reached:
        prove_stored_rows(execute, keyring.proofs)
    if found < VERSIONS_SINCE <= reached:
        add_versions(execute, keyring)
    if found < URLS_SINCE <= reached:
        seal_webhook_urls(execute, keyring.seal)


def _refuse_beside_old_services(found: int) -> None:
    """The migration seals URLs of webhooks. A service of an earlier version would send events to what is left of them,
    and count these events as delivered."""
    raise OperatorError(
        f"an older Relaydeck serves this database (schema version {found}); after the migration it would send events"
        " to wrong addresses",
        "Stop every service of the older version, then start this one. Nothing has been changed.",
    )


def refuse_newer(found: int) -> None:
    if found > newest_version():
        raise OperatorError(
            f"the database has schema version {found}, this program knows {newest_version()}",
            "Run the newer Relaydeck that wrote it, or restore a backup made before the upgrade.",
        )


def _check(database: Reader, found: int) -> list[int]:
    """The applied steps without a checksum yet. Raises OperatorError when another step was applied than ours."""
    if found < _CHECKSUMS_SINCE:
        return []
    ours = {step.version: step.checksum for step in steps()}
    applied = database.read("SELECT version, checksum FROM schema_versions ORDER BY version")
    for row in applied:
        if row.checksum is not None and row.checksum != ours[row.version]:
            raise OperatorError(
                f"migration step {row.version} of this program differs from the one that built the database",
                "Install an unmodified Relaydeck of the version that the database was last used with.",
            )
    return [row.version for row in applied if row.checksum is None]


def _apply(execute: Execute, step: Step, types: Mapping[str, str], now: float) -> None:
    execute("CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)")
    for statement in step.statements(types):
        execute(statement)
    execute(
        "INSERT INTO schema_versions (version, applied_at) VALUES (:version, :moment)",
        {"version": step.version, "moment": utc(now)},
    )


def _record_checksums(execute: Execute) -> None:
    """Of the steps just applied, and of those applied before checksums were stored."""
    for step in steps():
        execute(
            "UPDATE schema_versions SET checksum = :checksum WHERE version = :version AND checksum IS NULL",
            {"version": step.version, "checksum": step.checksum},
        )
