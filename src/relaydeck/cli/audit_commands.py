"""`relaydeck audit …`."""

import math
import time
from pathlib import Path
from typing import Annotated

import click

from relaydeck.api.operations import LIST_AUDIT, VERIFY_AUDIT
from relaydeck.cli.home import actor, existing_store
from relaydeck.cli.operation_commands import list_command, operation_group
from relaydeck.cli.options import PATH, anywhere, as_json, at_home
from relaydeck.cli.output import Shape, about, columns, print_json, print_line, print_outcome
from relaydeck.cli.target import require_home, target
from relaydeck.doctor import AuditVerification
from relaydeck.doctor.integrity import verify_audit
from relaydeck.errors import OperatorError
from relaydeck.quantities import counted
from relaydeck.settings.model import read_settings
from relaydeck.store.audit import BrokenLink, read_head
from relaydeck.store.audit_archive import Archived, archive, verify_file
from relaydeck.timestamps import parse_utc, utc

_SHORTEST_DAYS = 7  # plans that were made before are still complete, and no session is older


class ArchivedEntries(Shape, frozen=True):
    file: Annotated[str, about("The file with the entries; empty if there was nothing to archive.")]
    entries: Annotated[int, about("How many it contains.")]
    stayed: Annotated[int, about("How many of them are in the database too, because checks need them.")]
    head: Annotated[str, about("The number of the last archived entry and its hash.")]


audit = operation_group("audit")
audit.add_command(
    list_command(
        LIST_AUDIT,
        "list",
        "List the latest changes, newest first.",
        columns("sequence", "at", "actor", "action", "record"),
        most=20,
        newest=True,
    )
)


@audit.command("verify", epilog='Example:  relaydeck audit verify --head "$(cat kept-elsewhere)"')
@click.option(
    "--head", "kept", default="", help="A head printed earlier: also detects that later entries were removed."
)
@click.option("--file", type=PATH, help="A file that 'audit archive' wrote on this home: verify that instead.")
@as_json(AuditVerification, other=ArchivedEntries, remark=" with `--file`")
@anywhere
def audit_verify(kept: str, file: Path | None, as_json: bool) -> None:
    """Verify every link of the audit log. The first broken one is reported."""
    if file is not None:
        require_home()
        _verify_archive(file, kept, as_json)
        return
    found = target().call(VERIFY_AUDIT, query={"head": kept} if kept else {}).data
    if as_json:
        print_json(found)
    if found["problem"] is not None and found["broken_at"] is None:
        raise OperatorError(found["problem"], "Find out who changed the database, and revoke what you did not issue.")
    if found["problem"] is not None:
        raise OperatorError(
            f"the audit log is broken: entry {found['broken_at']} {found['problem']}",
            "The entries before it are unchanged. Compare the rest with a backup.",
        )
    if not as_json:
        print_line(f"{_entries(found['entries'])}, every link holds; head {found['head']}")
    if found["archived"] and not as_json:
        archived = _entries(found["archived"])
        print_line(f"{archived} archived until {found['archived_until']}: verify the files with --file")


def _verify_archive(file: Path, kept: str, as_json: bool) -> None:
    saved = read_head(kept) if kept else None
    if kept and saved is None:
        raise OperatorError("--head must be a number, a colon and 64 hexadecimal digits")
    with existing_store() as store:
        found = verify_file(file, store, saved)
    if isinstance(found, BrokenLink):
        raise OperatorError(
            f"{file} was not written by this home, or was changed: entry {found.seq} {found.why}",
            "Verify it on the home that wrote it, or compare it with a copy.",
        )
    _print(found, str(file), as_json, f"{_entries(found.entries)}, every link holds; head {found.head}")


@audit.command(
    "archive",
    short_help="Move old entries of the audit log to a file that can be verified.",
    epilog="Example:  relaydeck audit archive --before 2026-01-31 /archive/audit-2026-01",
)
@click.argument("file", type=PATH)
@click.option(
    "--before",
    metavar="DATE",
    required=True,
    help="Move the entries that were made before this date (UTC), which is at least seven days ago.",
)
@as_json(ArchivedEntries)
@at_home
def audit_archive(file: Path, before: str, as_json: bool) -> None:
    """Move old entries of the audit log to FILE, which 'audit verify --file' verifies. Never overwrites a file.

    The log stays verifiable: it continues from the head of the archived entries, which is stored sealed. The newest
    entries about each record stay in the database too, because other checks need them.

    FILE is on disk before the first entry is removed. If the command is interrupted, keep FILE, and run it again with
    another one. Keep the files: the database does not have these entries any more. Run it when every replica has this
    version: 'audit verify' of an older one would report that entries are missing.
    """
    now = int(time.time())
    moment = _archived_before(before, now)
    with existing_store() as store:
        with store.database.snapshot():
            found = verify_audit(store.database, store.vault)
        if found.problem is not None:
            raise OperatorError("the audit log does not hold", "Run 'relaydeck audit verify'. Nothing was changed.")
        moved = archive(store, moment, file, actor=actor(), now=now)
    if not moved.entries:
        _print(moved, "", as_json, f"nothing to archive: every entry before {before} is archived already")
        return
    removed = f"removed {moved.entries - moved.stayed} of them from the database and kept {moved.stayed} there too"
    wrote = f"wrote {_entries(moved.entries)} to {file}; {removed}, for checks such as 'doctor'"
    _print(moved, str(file), as_json, f"{wrote}; head {moved.head}")


def _archived_before(before: str, now: int) -> int:
    moment = parse_utc(before if "T" in before else f"{before}T00:00:00Z")
    days = max(_SHORTEST_DAYS, math.ceil(read_settings().console_session_seconds / 86_400))
    latest = now - days * 86_400
    if moment is None:
        raise OperatorError(f"--before: {before!r} is not a date", f"Write it as {utc(latest)[:10]} or {utc(latest)}.")
    if moment > latest:
        raise OperatorError(
            f"--before: {before} is too recent: entries of the last {days} days stay",
            f"Name {utc(latest)[:10]} or an earlier date.",
        )
    return moment


def _print(found: Archived, file: str, as_json: bool, line: str) -> None:
    print_outcome(ArchivedEntries(file, found.entries, found.stayed, str(found.head)), as_json, line)


def _entries(number: int) -> str:
    return counted(number, "entry", "entries")
