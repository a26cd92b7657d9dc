"""Checks of the database: its schema, writes and tokens, and what needs the master key: sealed values and nodes."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import msgspec

from relaydeck.credentials import token_rows
from relaydeck.doctor import CLOCK_SLACK_SECONDS, Finding
from relaydeck.doctor.fleet import fleet_findings
from relaydeck.doctor.integrity import proof_findings, read_keyring, sealed_value_findings
from relaydeck.doctor.nodes import node_findings, preset_findings
from relaydeck.errors import OperatorError, StoreError, StoreUnreachable, operator_words
from relaydeck.http.metric_counts import Writes, read_writes
from relaydeck.notifications.model import EventKind
from relaydeck.quantities import counted, first_few
from relaydeck.settings.model import Settings
from relaydeck.store.copying.mark import REVOKED, unfinished_copy_of
from relaydeck.store.database import Reader, ShowProgress
from relaydeck.store.files import lost_file
from relaydeck.store.migrate import newest_version, schema_version
from relaydeck.store.open_store import open_reader_at
from relaydeck.store.writer import Failure
from relaydeck.timestamps import utc

_NOT_CHECKED = (
    "the sealed values, whether somebody forged a token, the audit log, and the nodes (their URLs are sealed): these"
    " checks need the master key"
)
_RESTORED = (
    "it was restored from a backup that is not authentic, and every token in it was revoked; run"
    " 'relaydeck token list', which records that in the audit log, then run this again"
)
_WRITE_REMEDIES = {
    "no_worker": 'see "workers"',
    "lock_held": "end it, if it does not end by itself",
    "unreachable": "check the database server",
    "file_replaced": "put it back and restart Relaydeck",
    "read_only": "correct the permissions of the database file, or set RELAYDECK_DATABASE_URL to the primary",
    "no_permission": "grant the database user the rights on all tables",
    "disk_full": "free some space",
    "disk_error": "look for errors of the disk in the log of its machine",
    "standby_away": "start the standby, or remove it from synchronous_standby_names",
}
_LOOKS = 20  # for the holder of a file's lock, in one second
_UNUSED_DAYS, _MOST_NAMED = 90, 20
_HISTORY_SECONDS = 7 * 86_400
_HISTORY = "SELECT data, created_at FROM events WHERE kind = :kind AND created_at > :since ORDER BY seq DESC LIMIT 1"


def sealed_findings(database: Reader, settings: Settings, progress: ShowProgress) -> Iterator[Finding]:
    try:
        keyring = read_keyring(database, settings)
    except OperatorError as error:
        yield Finding("FAIL", "master key", f"{error.problem}. {error.remedy}")
        yield Finding("warn", "not checked", _NOT_CHECKED)
        return
    keys: int = database.read("SELECT count(*) AS total FROM data_keys")[0].total
    yield Finding("ok", "master key", f"{settings.master_key_path} opens {counted(keys, 'data key')}")
    with progress("opening sealed values", 0):
        yield from sealed_value_findings(database, keyring)
    yield from proof_findings(database, keyring, progress)
    yield from preset_findings(database)
    with progress("calling every node", 0):
        yield from node_findings(database, keyring, settings)


def database_findings(settings: Settings, now: Callable[[], float], progress: ShowProgress) -> Iterator[Finding]:
    where = settings.database
    if isinstance(where, Path) and (lost := lost_file(where, settings.home)):
        yield Finding("FAIL", "database", f"{lost.problem}. {lost.remedy}")
        return
    if isinstance(where, Path) and not where.is_file():
        yield Finding("FAIL", "database", f"{where} does not exist; run 'relaydeck serve' to create it, or restore it")
        return
    remedy = "restore it from a backup" if isinstance(where, Path) else "check the database server"
    try:
        with closing(open_reader_at(where)) as database:
            for error in database.configuration_problems():
                yield Finding("FAIL", "database", f"{error.problem}; {error.remedy}")
            yield from _clock_of_server(database, now)
            with database.snapshot():
                yield from _inside(database, settings, now(), progress)
    except (StoreUnreachable, OperatorError) as error:
        yield Finding("FAIL", "database", "; ".join(operator_words(error)))
    except StoreError as error:
        yield Finding("FAIL", "database", f"{where} cannot be read ({error}); {remedy}")


def _clock_of_server(database: Reader, now: Callable[[], float]) -> Iterator[Finding]:
    if not database.clock_sql:
        return
    before, (row,), after = now(), database.read(f"SELECT {database.clock_sql} AS moment"), now()
    seconds = round((before + after) / 2 - row.moment / 1000)
    if abs(seconds) <= CLOCK_SLACK_SECONDS:
        yield Finding("ok", "clock", "it agrees with that of the database server")
        return
    differs = f"{abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} that of the database server"
    yield Finding("FAIL", "clock", f"it is {differs}; set the one that is wrong: tokens expire by this machine's")


def _clock_of_newest_entry(database: Reader, now: float) -> Iterator[Finding]:
    rows = database.read("SELECT moment FROM audit ORDER BY seq DESC LIMIT 1")
    if rows and rows[0].moment > now + CLOCK_SLACK_SECONDS:
        future = f"the newest audit entry is of {utc(rows[0].moment)}, {round(rows[0].moment - now)} s from now"
        remark = f"{future}; set the clock of this machine, or of the one that made the entry"
        yield Finding("warn", "clock", remark)


def _inside(database: Reader, settings: Settings, now: float, progress: ShowProgress) -> Iterator[Finding]:
    with progress("checking that the database is sound", 0):
        problems = database.damage()
    if problems:
        yield Finding("FAIL", "database", f"{'; '.join(problems)}; restore it from a backup")
    else:
        yield Finding("ok", "database", f"{settings.database} {database.soundness}")
    if origin := unfinished_copy_of(database):
        yield Finding("FAIL", "database", f"it is an unfinished copy of {origin}; run the command that began it again")
        return
    if database.has_table(REVOKED):
        yield Finding("warn", "database", _RESTORED)
        return
    schema = _schema(schema_version(database))
    yield schema
    if schema.result != "FAIL":
        yield from _write_findings(database, settings)
        yield _tokens(database, now)
    if schema.result == "ok":  # an older schema lacks what these read
        yield from _doubtful_tokens(database, now)
        yield from _clock_of_newest_entry(database, now)
        yield from _history_findings(database, now)
        yield from fleet_findings(database, settings, now)
        yield from sealed_findings(database, settings, progress)


def _write_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    """As the workers of a service with this home know it. Without one, a server is asked, and a file left alone."""
    writes, problem = read_writes(settings.run_folder.glob("metrics-*")), ""
    if writes.cause == "unknown":
        if isinstance(settings.database, Path):
            return
        writes = Writes("")
        try:
            database.try_write()
        except StoreError as error:
            writes, problem = Writes(error.cause), str(error)
    if not writes.cause:
        since = "a trial succeeded" if writes.seconds is None else f"the last one succeeded {writes.seconds} s ago"
        yield Finding("ok", "writes", since)
        return
    if isinstance(settings.database, Path) and writes.cause in {"lock_held", "timeout"} and not _is_held(database):
        remedy = "no process holds the lock now for longer than a moment: run this again"
        yield Finding("FAIL", "writes", f"{writes.text}; {remedy}")
        return
    cause, problem = Failure(writes.cause, problem).explained(database)
    remedy = _WRITE_REMEDIES.get(cause, 'look for "writes fail" in the log')
    yield Finding("FAIL", "writes", f"{writes._replace(cause=cause).text}{problem and f' ({problem})'}; {remedy}")


def _is_held(database: Reader) -> bool:
    """Whether one process has the file locked for a second. Each write of a healthy one locks it for a moment."""
    first = database.write_lock_holder()
    for _ in range(_LOOKS):
        time.sleep(1 / _LOOKS)
        if first is None or (found := database.write_lock_holder()) is None or found.pid != first.pid:
            return False
    return True


def _history_findings(database: Reader, now: float) -> Iterator[Finding]:
    since = int(now) - _HISTORY_SECONDS
    for row in database.read(_HISTORY, {"kind": EventKind.DATABASE_CHANGED, "since": since}):
        problem = msgspec.json.decode(row.data)["details"]["problem"]
        lost = "acknowledged writes may be missing: compare 'relaydeck audit head' and the records with your own"
        yield Finding("warn", "history", f"at {utc(row.created_at)} the service found that {problem}; {lost}")


def _schema(version: int) -> Finding:
    newest = newest_version()
    if version > newest:
        return Finding("FAIL", "schema", f"version {version}, but this program knows {newest}; run a newer Relaydeck")
    if version == 0:
        return Finding("FAIL", "schema", "the database is empty; run 'relaydeck serve' to prepare it")
    if version < newest:
        remedy = f"start the service, which updates it to {newest}, then run this again"
        return Finding("warn", "schema", f"version {version}; {remedy}")
    return Finding("ok", "schema", f"version {version}")


def _tokens(database: Reader, now: float) -> Finding:
    found = database.read(
        "SELECT count(*) AS live, count(*) - count(expires_at) AS endless FROM tokens"
        " WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)",
        {"now": now},
    )[0]
    if not found.live:
        remark = "there is no live token, so every request is refused; run 'relaydeck token create NAME'"
        return Finding("warn", "tokens", remark)
    return Finding("ok", "tokens", f"{found.live} live, {found.endless} without expiry")


def _doubtful_tokens(database: Reader, now: float) -> Iterator[Finding]:
    (since,) = database.read(
        "SELECT applied_at FROM schema_versions WHERE version = :version", {"version": token_rows.USES_SINCE}
    )
    recorded, old = datetime.fromisoformat(since.applied_at).timestamp(), now - _UNUSED_DAYS * 86_400
    live = [each for each in token_rows.all_tokens(database) if each.is_live(now)]
    used = token_rows.last_uses(database)
    owners = [each for each in live if "own" in each.grant.permissions]
    unused = [each for each in live if max(used.get(each.seq, (0, ""))[0], each.created_at, recorded) < old]
    called = [each for each in owners if used.get(each.seq, (0, ""))[1].startswith("api ")]
    for found, remark in (
        (unused, f"not used for {_UNUSED_DAYS} days: revoke it if nobody needs it"),
        (called, "an owner that an application uses: give the application a token with the role api"),
    ):
        if found:
            names = first_few([repr(each.name) for each in found], _MOST_NAMED)
            yield Finding("warn", "tokens", f"{names}: {remark}")
