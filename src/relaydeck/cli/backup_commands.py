"""`relaydeck backup …` and `relaydeck restore`.

The master key authenticates a backup, and can be part of it, sealed with a passphrase. A passphrase comes from a file
or the terminal: other users of the machine can see arguments and environment.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, BinaryIO

import click

from relaydeck.cli.database_commands import Copied
from relaydeck.cli.options import PATH, as_json, at_home
from relaydeck.cli.output import Shape, about, print_line, print_note, print_outcome, print_rows, progress_bar, show
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret
from relaydeck.settings.model import Settings, read_settings
from relaydeck.store.copying import copy
from relaydeck.store.copying.backup import (
    LEAST_CHARACTERS,
    BackupFile,
    open_master_key,
    refuse_existing,
    seal_master_key,
    write_backup,
)
from relaydeck.store.copying.copy import Compared, Secrets
from relaydeck.store.copying.mark import remove_mark, revoke_and_remove_mark
from relaydeck.store.open_store import open_for_filling, open_store
from relaydeck.store.sealing import Keyring
from relaydeck.store.vault import MasterKey, create_master_key, open_keyring, open_keys, read_master_keys

_EXPLAINED = (
    "--unauthenticated restores it nevertheless, and revokes every token, session and sign-in link in it. Other"
    " records may be forged too: restore it only if nobody else could write the file."
)
_PASSPHRASE = click.option(
    "--passphrase-file",
    type=PATH,
    help="File with the passphrase of the master key. Default: the command asks for it on the terminal.",
)
_UNAUTHENTICATED = click.option(
    "--unauthenticated",
    is_flag=True,
    help="Accept a backup that cannot be authenticated: one of an older version, or one whose master key is not at"
    " hand. 'restore' then revokes every token, session and sign-in link in it, and lists them.",
)
_REVOKED = {"token": "token {}", "session": "session of {}", "person": "session of {}", "link": "sign-in link of {}"}


class WrittenBackup(Shape, frozen=True):
    file: Annotated[str, about("The file that was written.")]
    tables: Annotated[int, about("How many tables it contains.")]
    rows: Annotated[int, about("How many rows it contains.")]
    master_key: Annotated[bool, about("Whether it contains the master key, sealed with a passphrase.")]


class DrilledTable(Shape, frozen=True):
    table: Annotated[str, about("Its name.")]
    rows: Annotated[int, about("How many rows were restored.")]
    digest: Annotated[str, about("The start of the digest of these rows, in hexadecimal.")]
    same: Annotated[bool, about("Whether they equal the rows in the backup.")]


class Drill(Shape, frozen=True):
    authentic: Annotated[bool, about("Whether its MAC shows that a service with the same master key wrote the backup.")]
    tables: Annotated[list[DrilledTable], about("Every table.")]
    opened: Annotated[int | None, about("How many sealed values were opened; null without the master key.")]
    problems: Annotated[list[str], about("What is wrong. One problem makes the command exit with 1.")]


class RevokedByRestore(Shape, frozen=True):
    kind: Annotated[str, about("What was revoked: `token`, `session` or `link` (a sign-in link).")]
    name: Annotated[str, about("The name of the token, or of the token that the session or link belongs to.")]


class Restored(Copied, frozen=True):
    authentic: Annotated[bool, about("Whether its MAC shows that a service with the same master key wrote the backup.")]
    revoked: Annotated[list[RevokedByRestore], about("What was revoked because the backup is not authentic.")]


class _Backup(click.Group):
    """`relaydeck backup FILE` is short for `relaydeck backup create FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["create", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Backup)
def backup() -> None:
    """Back up everything to one file, or test that a backup can be restored.

    'relaydeck backup FILE' is short for 'relaydeck backup create FILE'. 'relaydeck restore FILE' restores it.
    """


@backup.command("create", epilog="Example:  relaydeck backup /backups/relaydeck-$(date +%F)")
@click.argument("file", type=PATH)
@click.option("--with-master-key", is_flag=True, help="Include the master key, sealed with a passphrase.")
@_PASSPHRASE
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@as_json(WrittenBackup)
@at_home
def backup_create(file: Path, with_master_key: bool, passphrase_file: Path | None, force: bool, as_json: bool) -> None:
    """Write a consistent snapshot of the database to FILE. Safe while the service runs.

    Secrets stay sealed, as they are in the database. FILE does not contain the master key that opens them unless
    you pass --with-master-key: keep a copy of the master key file elsewhere. FILE can be restored into SQLite and
    PostgreSQL.
    """
    settings = read_settings()
    refuse_existing(file, force)
    if passphrase_file and not with_master_key:
        raise OperatorError("--passphrase-file requires --with-master-key", "Nothing was written.")
    tables, rows = _back_up(settings, file, force, with_master_key, passphrase_file)
    _record(settings.last_backup_path)
    written = WrittenBackup(str(file), tables, rows, with_master_key)
    print_outcome(written, as_json, f"backed up {tables} tables, {rows} rows to {file}")
    if with_master_key:
        print_note("The backup contains the master key, sealed with the passphrase: keep the passphrase elsewhere.")
    else:
        print_note(f"The backup does not contain the master key: keep a copy of {settings.master_key_path} elsewhere.")


def _record(path: Path) -> None:
    """For the metric, which the service reads from this file."""
    try:
        path.touch(0o600)
    except OSError as error:
        print_note(f"relaydeck_last_backup_timestamp_seconds stays as it is: {path}: {error.strerror}")


def _back_up(
    settings: Settings,
    path: Path,
    force: bool = False,
    with_master_key: bool = False,
    passphrase_file: Path | None = None,
) -> tuple[int, int]:
    """Back up the configured database; return how many tables and rows that are.

    Raises OperatorError unless the master key file has the keys of this database.
    """
    with copy.snapshot_of(settings.database) as reader:
        source = copy.complete_source(reader)
        wrapped = reader.read("SELECT id, wrapped FROM data_keys ORDER BY id")
        keys = open_keys(read_master_keys(settings.master_key_path), wrapped)
        if with_master_key and keys.older:
            raise OperatorError(
                "the master key is being replaced, and the backup would need both keys",
                "Run 'relaydeck key rotate --master' until it has ended, then this command again.",
            )
        sealed = seal_master_key(keys.master.reveal(), _new_passphrase(passphrase_file)) if with_master_key else None
        with progress_bar("backing up", source.count()) as advance:
            contents = write_backup(
                source,
                path,
                keys.master,
                now=int(time.time()),
                advance=advance,
                force=force,
                sealed_master_key=sealed,
            )
    return len(contents), sum(content.rows for content in contents.values())


@backup.command("drill", epilog="Example:  relaydeck backup drill /backups/relaydeck-2030-01-31")
@click.argument("file", type=PATH, required=False)
@_PASSPHRASE
@_UNAUTHENTICATED
@as_json(Drill)
@at_home
def backup_drill(file: Path | None, passphrase_file: Path | None, unauthenticated: bool, as_json: bool) -> None:
    """Restore FILE into a scratch database and check it. Default: a new backup.

    The drill authenticates FILE with the master key, compares every table, opens every sealed value and verifies the
    audit log. The scratch database is a file in the temporary folder (TMPDIR), even with PostgreSQL. It is removed
    afterwards. Exits 1 on any difference.
    """
    settings = read_settings()
    with (
        _given_or_new(file, settings) as path,
        _checked_backup(path, settings.master_key_path, passphrase_file, unauthenticated) as backup,
        copy.scratch_database() as database,
    ):
        compared = copy.restore_into_scratch(backup.file, database, progress_bar, backup.keyring)
        secrets = None if backup.keyring is None else copy.check_secrets(database, backup.keyring)
    problems = [*_problems(compared, secrets, settings.master_key_path)]
    tables = [
        DrilledTable(each.table, each.found.rows, each.found.digest.hex()[:16], same=each.found == each.expected)
        for each in compared
    ]
    show(Drill(backup.is_authentic, tables, secrets and secrets.opened, problems), as_json, _print_drill)
    if problems:
        raise OperatorError("the drill failed:\n" + "\n".join(f"  {problem}" for problem in problems))
    assert secrets is not None
    if not as_json:
        origin = "authentic" if backup.is_authentic else "NOT AUTHENTIC: a restore would revoke every credential in it"
        print_line(f"the backup is {origin}")
        print_line(f"opened {secrets.opened} sealed values; audit log: every link holds, head {secrets.audit}")


@contextmanager
def _given_or_new(path: Path | None, settings: Settings) -> Iterator[Path]:
    if path is not None:
        yield path
        return
    with TemporaryDirectory(prefix="relaydeck-drill-") as folder:
        new = Path(folder) / "backup"
        _back_up(settings, new)
        yield new


def _print_drill(report: Drill) -> None:
    rows = [(each.table, each.rows, each.digest, "same" if each.same else "DIFFERENT") for each in report.tables]
    print_rows(("table", "rows", "digest", "result"), [rows])


def _problems(compared: list[Compared], secrets: Secrets | None, key_path: Path) -> Iterator[str]:
    for each in compared:
        if each.found != each.expected:
            yield f"{each.table} differs: {each.expected.rows} rows in the backup, {each.found.rows} restored"
    if secrets is None:
        yield f"the sealed values could not be opened: the master key file {key_path} is missing"
    else:
        yield from secrets.problems()


@click.command()
@click.argument("file", type=PATH)
@_PASSPHRASE
@_UNAUTHENTICATED
@as_json(Restored)
@at_home
def restore(file: Path, passphrase_file: Path | None, unauthenticated: bool, as_json: bool) -> None:
    """Restore the backup FILE into the configured database, which must be new or empty.

    RELAYDECK_HOME names another home, RELAYDECK_DATABASE_URL another database.

    Put the master key file of the service that wrote FILE in its place first, unless FILE contains the key: it
    authenticates FILE. The command checks the whole file before it writes, and reads back what it wrote. It writes the
    master key file only if FILE contains the key and the file does not exist yet. If it is interrupted, run it again.

    If FILE cannot be authenticated, whoever could write it could have put a token into it. Such a file is restored
    only with --unauthenticated. Create a new token afterwards: 'relaydeck token create NAME
    --role owner'.
    """
    settings = read_settings()
    key_path = settings.master_key_path
    with (
        _checked_backup(file, key_path, passphrase_file, unauthenticated) as backup,
        open_for_filling(settings.home, settings.database) as target,
    ):
        loaded = copy.restore(backup.file, target, progress_bar)
        if backup.masters:
            create_master_key(key_path, backup.masters[0].reveal())  # leaves an existing file unchanged
        revoked = [] if backup.is_authentic else revoke_and_remove_mark(target, int(time.time()))
        if backup.is_authentic:
            remove_mark(target)
    if backup.masters and not backup.is_authentic:
        open_store(settings).close()  # records in the audit log what was revoked
    tables, rows = len(loaded.contents), loaded.rows
    listed = [RevokedByRestore(*each) for each in revoked]
    print_outcome(
        Restored(str(settings.database), tables, rows, loaded.kept, backup.is_authentic, listed),
        as_json,
        f"restored {tables} tables, {rows} rows to {settings.database}; all read back equal",
        *(f"revoked the {_REVOKED[each.kind].format(each.name)}" for each in revoked),
    )
    if not backup.masters:
        print_note(f"Copy the master key file to {key_path} before you start the service.")
    if not backup.is_authentic:
        print_note("No credential in the backup works any more. Create one with 'relaydeck token create NAME'.")


# -- the master key of a backup --------------------------------------------------------------------


@dataclass(frozen=True)
class CheckedBackup:
    """A backup whose every byte was checked, and the master keys that open it, if they are at hand."""

    file: BackupFile
    masters: list[MasterKey] = field(repr=False)
    keyring: Keyring | None
    is_authentic: bool


@contextmanager
def _checked_backup(
    path: Path, key_path: Path, passphrase_file: Path | None, unauthenticated: bool
) -> Iterator[CheckedBackup]:
    """Raises OperatorError unless it is authentic. `unauthenticated` accepts one that cannot be authenticated."""
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        with progress_bar("checking", size) as advance:
            backup = BackupFile(path, file, advance)
        masters = _masters_for(backup, key_path, passphrase_file)
        is_authentic = _is_authentic(backup, path, masters, key_path, unauthenticated)
        with progress_bar("reading", size) as advance:
            backup.check_contents(advance)
        keyring = open_keyring(masters, backup.data_keys()) if masters else None
        yield CheckedBackup(backup, masters, keyring, is_authentic)


def _is_authentic(
    backup: BackupFile, path: Path, masters: list[MasterKey], key_path: Path, unauthenticated: bool
) -> bool:
    if masters and backup.has_mac:
        if any(map(backup.is_authentic, masters)):
            return True
        raise OperatorError(
            f"the backup {path} is not authentic: another master key made it, or somebody changed it",
            f"Use the master key file of the service that wrote it ({key_path}), as it was then if the key was replaced"
            " since, or another copy of the backup. Nothing was changed.",
        )
    if unauthenticated:
        return False
    if backup.has_mac:
        raise OperatorError(
            f"the backup {path} cannot be authenticated: the master key file {key_path} is missing",
            f"Put your copy of it there first. {_EXPLAINED}",
        )
    raise OperatorError(
        f"the backup {path} cannot be authenticated: it has no MAC (an older Relaydeck, or a forger, wrote it)",
        f"Somebody could have added tokens to it. {_EXPLAINED}",
    )


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise OperatorError(
            f"the backup {path} cannot be read: {error.strerror}", "Name a file that 'relaydeck backup' wrote."
        ) from None


def _masters_for(backup: BackupFile, path: Path, passphrase_file: Path | None) -> list[MasterKey]:
    """The keys in the file at `path`, else the one in the backup, else none."""
    if path.exists():
        return read_master_keys(path)
    sealed = backup.header.sealed_master_key
    if sealed is None:
        return []
    passphrase = _passphrase(passphrase_file, "Passphrase of the master key in the backup")
    return [MasterKey(open_master_key(sealed, passphrase))]


def _new_passphrase(file: Path | None) -> Secret:
    passphrase = _passphrase(file, "Passphrase for the master key", twice=True)
    if len(passphrase.reveal()) < LEAST_CHARACTERS:
        raise OperatorError(f"the passphrase is shorter than {LEAST_CHARACTERS} characters", "Nothing was written.")
    return passphrase


def _passphrase(file: Path | None, question: str, *, twice: bool = False) -> Secret:
    if file is None:
        if not sys.stdin.isatty():
            raise OperatorError("there is no terminal to ask for the passphrase", "Pass it with --passphrase-file.")
        return Secret(click.prompt(question, hide_input=True, confirmation_prompt=twice, err=True))
    lines = file.read_text("utf-8").splitlines()
    if len(lines) != 1 or not lines[0]:
        raise OperatorError(f"{file} does not contain exactly one line with a passphrase")
    return Secret(lines[0])
