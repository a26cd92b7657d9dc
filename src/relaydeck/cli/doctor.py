"""`relaydeck doctor`: one line for each check, and what to do where something is wrong. It mends nothing."""

import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from relaydeck.cli.doctor_audit import examine_audit
from relaydeck.cli.doctor_limits import examine_limits
from relaydeck.cli.doctor_nodes import Node, examine_nodes
from relaydeck.errors import OperatorError, StoreError, StoreUnreachable, operator_words
from relaydeck.networks import network_rows
from relaydeck.networks.model import RpcUrl
from relaydeck.relayers import relayer_rows
from relaydeck.settings import Settings, read_settings, unknown_names
from relaydeck.store.audit import BrokenLink
from relaydeck.store.copying.mark import marked
from relaydeck.store.database import Reader
from relaydeck.store.migrate import newest_version, schema_version
from relaydeck.store.open_store import open_reader_at
from relaydeck.store.rotation import SEALED_COLUMNS
from relaydeck.store.sealing import Damaged, Keyring, open_keyring, read_master_key
from relaydeck.timestamps import utc

_EARLIEST = 1_735_689_600  # 2025: no clock that is right shows less
_LATEST = 4_102_444_800  # 2100
_CLOCK_SLACK_SECONDS = 120
_FEW_BYTES, _TOO_FEW_BYTES = 1_000_000_000, 50_000_000
_URLS = {
    "network": "SELECT name, chain_id, sealed_rpc_urls FROM networks WHERE sealed_rpc_urls IS NOT NULL ORDER BY seq",
    "relayer": "SELECT relayers.id, chain_id, relayers.sealed_rpc_urls FROM relayers"
    " JOIN networks ON networks.name = relayers.network"
    " WHERE relayers.sealed_rpc_urls IS NOT NULL ORDER BY relayers.seq",
}
_PLACES = {"network": network_rows.place, "relayer": relayer_rows.place}
_COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "bold red"}


class Finding(NamedTuple):
    verdict: Literal["ok", "warn", "FAIL"]
    subject: str
    remark: str


class Surroundings(NamedTuple):
    """What the checks learn from the machine."""

    now: Callable[[], float] = time.time
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free


def examine() -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    failed = False
    for finding in findings(read_settings(), Surroundings()):
        mark = Text(f"{finding.verdict:<4}  ", _COLOURS[finding.verdict])
        console.print(mark + Text(f"{finding.subject}: {finding.remark}"))
        failed = failed or finding.verdict == "FAIL"
    if failed:
        sys.exit(1)


def findings(settings: Settings, surroundings: Surroundings) -> Iterator[Finding]:
    for warning in unknown_names():
        yield Finding("warn", "settings", warning)
    home = _home(settings.home)
    yield home
    if home.verdict == "FAIL":
        return
    yield from _permissions(settings)
    yield _disk(settings, surroundings)
    yield _clock(settings, surroundings.now())
    yield from _limits(settings)
    yield from _database(settings, surroundings)


def _home(home: Path) -> Finding:
    if not home.exists():
        return Finding("FAIL", "home", f"{home} does not exist; run 'relaydeck serve' to make it")
    if not home.is_dir():
        return Finding("FAIL", "home", f"{home} is not a folder; choose another with RELAYDECK_HOME")
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        return Finding("FAIL", "home", f"{home} cannot be used by this user; correct its owner")
    return Finding("ok", "home", str(home))


def _permissions(settings: Settings) -> Iterator[Finding]:
    expected = [(settings.home, 0o700), (settings.master_key_path, 0o600)]
    if isinstance(settings.database, Path):
        expected.append((settings.database, 0o600))
    loose = [(path, mode) for path, mode in expected if path.exists() and _is_open_to_others(path)]
    for path, mode in loose:
        yield Finding("warn", "permissions", f"others can reach {path}; run: chmod {mode:o} {path}")
    for path, _ in expected:
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            yield Finding("FAIL", "permissions", f"{path} cannot be read and written by this user; correct its owner")
    if not loose:
        held = "home, master key and database" if len(expected) == 3 else "home and master key"
        yield Finding("ok", "permissions", f"{held} are this user's alone")


def _is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _disk(settings: Settings, surroundings: Surroundings) -> Finding:
    beside = settings.database.parent if isinstance(settings.database, Path) else settings.home
    folders = [each for each in (settings.home, beside) if each.is_dir()]
    free = min(surroundings.free_bytes(folder) for folder in folders)
    shown = f"{free / 1_000_000_000:.1f} GB free"
    if free < _TOO_FEW_BYTES:
        return Finding("FAIL", "disk", f"{shown}; writes will fail: free some space")
    if free < _FEW_BYTES:
        return Finding("warn", "disk", f"{shown}; free some space before it runs out")
    return Finding("ok", "disk", shown)


def _clock(settings: Settings, now: float) -> Finding:
    shown = utc(now)
    if not _EARLIEST < now < _LATEST:
        return Finding("FAIL", "clock", f"it shows {shown}; set it: tokens expire by it")
    written = max((path.stat().st_mtime for path in settings.home.iterdir()), default=0.0)
    if written > now + _CLOCK_SLACK_SECONDS:
        behind = round(written - now)
        return Finding("warn", "clock", f"it shows {shown}, {behind} s before a file in home was written; set it")
    return Finding("ok", "clock", shown)


def _limits(settings: Settings) -> Iterator[Finding]:
    report = examine_limits(settings)
    if report is None:
        return
    subject = f"shared limits {report.shown}"
    if report.problem:
        yield Finding("FAIL", subject, f"{report.problem}; until it answers each machine limits by itself")
    elif report.seconds > settings.limits_timeout_seconds:
        slow = f"it answers in {report.seconds:.3f} s; the service waits {settings.limits_timeout_seconds:g} s"
        yield Finding("warn", subject, f"{slow} (RELAYDECK_LIMITS_TIMEOUT_SECONDS)")
    else:
        yield Finding("ok", subject, "it answers")


def _database(settings: Settings, surroundings: Surroundings) -> Iterator[Finding]:
    where = settings.database
    if isinstance(where, Path) and not where.is_file():
        yield Finding("FAIL", "database", f"{where} does not exist; run 'relaydeck serve' to make it, or restore it")
        return
    mend = "restore it from a backup" if isinstance(where, Path) else "see to its server"
    try:
        with closing(open_reader_at(where)) as database, database.snapshot():
            yield from _inside(database, settings, surroundings)
    except StoreUnreachable as error:
        yield Finding("FAIL", "database", "; ".join(operator_words(error)))
    except StoreError as error:
        yield Finding("FAIL", "database", f"{where} cannot be read ({error}); {mend}")


def _inside(database: Reader, settings: Settings, surroundings: Surroundings) -> Iterator[Finding]:
    if problems := database.damage():
        yield Finding("FAIL", "database", f"{'; '.join(problems)}; restore it from a backup")
    else:
        yield Finding("ok", "database", f"{settings.database} {database.soundness}")
    if origin := marked(database):
        yield Finding("FAIL", "database", f"it is an unfinished copy of {origin}; run the command that began it again")
        return
    schema = _schema(schema_version(database))
    yield schema
    if schema.verdict == "FAIL":
        return
    yield _tokens(database, surroundings.now())
    keyring, finding = _keyring(database, settings)
    yield finding
    if keyring is not None:
        yield from _sealed_values(database, keyring)
        yield _audit(database, keyring)
        yield from _nodes(database, keyring, settings)


def _schema(version: int) -> Finding:
    newest = newest_version()
    if version > newest:
        return Finding("FAIL", "schema", f"version {version}, this program knows {newest}; run the newer Relaydeck")
    if version == 0:
        return Finding("FAIL", "schema", "the database is empty; run 'relaydeck serve' to prepare it")
    if version < newest:
        return Finding("warn", "schema", f"version {version}; the next 'relaydeck serve' brings it to {newest}")
    return Finding("ok", "schema", f"version {version}")


def _keyring(database: Reader, settings: Settings) -> tuple[Keyring | None, Finding]:
    rows = database.read("SELECT id, wrapped FROM data_keys ORDER BY id")
    try:
        keyring = open_keyring(read_master_key(settings.master_key_path), [(row[0], row[1]) for row in rows])
    except OperatorError as error:
        return None, Finding("FAIL", "master key", f"{error.problem}. {error.remedy}")
    return keyring, Finding("ok", "master key", f"{settings.master_key_path} opens {_counted(len(rows), 'data key')}")


def _sealed_values(database: Reader, keyring: Keyring) -> Iterator[Finding]:
    opened = damaged = 0
    for column in SEALED_COLUMNS:
        sql = f"SELECT {column.identity}, {column.column} FROM {column.table} WHERE {column.column} IS NOT NULL"
        for record, sealed in database.stream(sql):
            try:
                keyring.open(sealed, column.place(record))
                opened += 1
            except Damaged as damage:
                damaged += 1
                yield Finding("FAIL", "sealed values", f"{damage}; restore the record, or set it again")
    if not damaged:
        yield Finding("ok", "sealed values", f"all {opened} open")


def _audit(database: Reader, keyring: Keyring) -> Finding:
    found = examine_audit(database.stream, keyring)
    if isinstance(found, BrokenLink):
        return Finding(
            "FAIL",
            "audit log",
            f"entry {found.seq} {found.why}; those before it are as they were written: compare the rest with a backup",
        )
    return Finding("ok", "audit log", f"{_counted(found.seq, 'entry', 'entries')}, every link holds")


def _tokens(database: Reader, now: float) -> Finding:
    live = database.read(
        "SELECT count(*) FROM tokens WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)",
        {"now": now},
    )[0][0]
    if not live:
        return Finding("warn", "tokens", "no live token: nobody can log in; run 'relaydeck token create NAME'")
    return Finding("ok", "tokens", f"{live} live")


def _nodes(database: Reader, keyring: Keyring, settings: Settings) -> Iterator[Finding]:
    users: dict[Node, str] = {}
    for node, user in _configured_nodes(database, keyring):
        users.setdefault(node, user)  # asked once, however many relayers share it
    problems = examine_nodes(list(users), settings.rpc_allowed)
    for (node, user), problem in zip(users.items(), problems, strict=True):
        subject = f"node {node.shown} of the {user}"
        yield (Finding("FAIL", subject, problem) if problem else Finding("ok", subject, f"chain id {node.chain_id}"))


def _configured_nodes(database: Reader, keyring: Keyring) -> Iterator[tuple[Node, str]]:
    """Every URL with who calls it. Damaged ones are reported where sealed values are checked."""
    for kind, sql in _URLS.items():
        for record, chain_id, sealed in database.stream(sql):
            try:
                urls = msgspec.json.decode(keyring.open(sealed, _PLACES[kind](record)), type=tuple[RpcUrl, ...])
            except Damaged:
                continue
            yield from ((Node(url.url, chain_id), f"{kind} {record!r}") for url in urls)


def _counted(count: int, noun: str, nouns: str = "") -> str:
    return f"1 {noun}" if count == 1 else f"{count} {nouns or f'{noun}s'}"
