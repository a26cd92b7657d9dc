"""Checks of the database: that it is sound, its schema, its tokens and what is sealed in it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from relaydeck.doctor.finding import Finding, Progress
from relaydeck.doctor.fleet import fleet_findings
from relaydeck.doctor.sealed import sealed_findings
from relaydeck.errors import OperatorError, StoreError, StoreUnreachable, operator_words
from relaydeck.settings import Settings
from relaydeck.store.copying.mark import REVOKED, unfinished_copy_of
from relaydeck.store.database import Reader
from relaydeck.store.engines import open_reader_at
from relaydeck.store.migrate import newest_version, schema_version

_RESTORED = (
    "it was restored from a backup that is not authentic, and every token in it was revoked; run"
    " 'relaydeck token list', which records that in the audit log, then run this again"
)


def database_findings(settings: Settings, now: float, progress: Progress) -> Iterator[Finding]:
    where = settings.database
    if isinstance(where, Path) and not where.is_file():
        yield Finding("FAIL", "database", f"{where} does not exist; run 'relaydeck serve' to create it, or restore it")
        return
    remedy = "restore it from a backup" if isinstance(where, Path) else "check the database server"
    try:
        with closing(open_reader_at(where)) as database, database.snapshot():
            yield from _inside(database, settings, now, progress)
    except (StoreUnreachable, OperatorError) as error:
        yield Finding("FAIL", "database", "; ".join(operator_words(error)))
    except StoreError as error:
        yield Finding("FAIL", "database", f"{where} cannot be read ({error}); {remedy}")


def _inside(database: Reader, settings: Settings, now: float, progress: Progress) -> Iterator[Finding]:
    with progress("checking that the database is sound", 0):
        problems = database.damage()
    if problems:
        yield Finding("FAIL", "database", f"{'; '.join(problems)}; restore it from a backup")
    else:
        yield Finding("ok", "database", f"{settings.database} {database.soundness}")
    if problem := database.write_problem():
        remedy = "writes fail; set RELAYDECK_DATABASE_URL to the primary server, or promote this one"
        yield Finding("FAIL", "database", f"{problem}: {remedy}")
    if origin := unfinished_copy_of(database):
        yield Finding("FAIL", "database", f"it is an unfinished copy of {origin}; run the command that began it again")
        return
    if database.has_table(REVOKED):
        yield Finding("warn", "database", _RESTORED)
        return
    schema = _schema(schema_version(database))
    yield schema
    if schema.result != "FAIL":
        yield _tokens(database, now)
    if schema.result == "ok":  # an older schema lacks what these read
        yield from fleet_findings(database, settings, now)
        yield from sealed_findings(database, settings, progress)


def _schema(version: int) -> Finding:
    newest = newest_version()
    if version > newest:
        return Finding("FAIL", "schema", f"version {version}, but this program knows {newest}; run a newer Relaydeck")
    if version == 0:
        return Finding("FAIL", "schema", "the database is empty; run 'relaydeck serve' to prepare it")
    if version < newest:
        return Finding(
            "warn", "schema", f"version {version}; start the service, which updates it to {newest}, then run this again"
        )
    return Finding("ok", "schema", f"version {version}")


def _tokens(database: Reader, now: float) -> Finding:
    live = database.read(
        "SELECT count(*) AS live FROM tokens WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)",
        {"now": now},
    )[0].live
    if not live:
        return Finding(
            "warn", "tokens", "there is no live token, so every request is refused; run 'relaydeck token create NAME'"
        )
    return Finding("ok", "tokens", f"{live} live")
