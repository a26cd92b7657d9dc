"""The commands about the whole database: backups, restoring them, moving to another database, rotating its key."""

from pathlib import Path
from typing import Any

import click

from relaydeck.cli.options import PATH, as_json, at_home

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


class _Backup(click.Group):
    """`relaydeck backup FILE` is short for `relaydeck backup create FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["create", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Backup, short_help="Back up everything to one file; test that a backup can be restored.")
def backup() -> None:
    """Back up everything to one file, or test that a backup can be restored.

    'relaydeck backup FILE' is short for 'relaydeck backup create FILE'. 'relaydeck restore FILE' restores it.
    """


@backup.command("create", epilog="Example:  relaydeck backup /backups/relaydeck-$(date +%F)")
@click.argument("file", type=PATH)
@click.option("--with-master-key", is_flag=True, help="Include the master key, sealed with a passphrase.")
@_PASSPHRASE
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@as_json("WrittenBackup")
@at_home
def backup_create(file: Path, **options: Any) -> None:
    """Write a consistent snapshot of the database to FILE. Safe while the service runs.

    Secrets stay sealed, as they are in the database. FILE does not contain the master key that opens them unless
    you pass --with-master-key: keep a copy of the master key file elsewhere. FILE can be restored into SQLite and
    PostgreSQL.
    """
    from relaydeck.cli.backup import create

    create(file, **options)


@backup.command("drill", epilog="Example:  relaydeck backup drill /backups/relaydeck-2030-01-31")
@click.argument("file", type=PATH, required=False)
@_PASSPHRASE
@_UNAUTHENTICATED
@as_json("Drill")
@at_home
def backup_drill(file: Path | None, **options: Any) -> None:
    """Restore FILE into a scratch database and check it. Default: a new backup.

    The drill authenticates FILE with the master key, compares every table, opens every sealed value and verifies the
    audit log. The scratch database is a file in the temporary folder (TMPDIR). With PostgreSQL it is a database on the
    same server, if this user may create one. It is removed afterwards. Exits 1 on any difference.
    """
    from relaydeck.cli.drill import drill

    drill(file, **options)


@click.command(short_help="Restore a backup into a new database.")
@click.argument("file", type=PATH)
@_PASSPHRASE
@_UNAUTHENTICATED
@as_json("Restored")
@at_home
def restore(file: Path, **options: Any) -> None:
    """Restore the backup FILE into the configured database, which must be new or empty.

    Put the master key file of the service that wrote FILE in its place first, unless FILE contains the key: it
    authenticates FILE. The command checks the whole file before it writes, and reads back what it wrote. It writes the
    master key file only if FILE contains the key and the file does not exist yet. If it is interrupted, run it again.

    If FILE cannot be authenticated, whoever could write it could have put a token into it. Such a file is restored
    only with --unauthenticated. Create a new token afterwards: 'relaydeck token create NAME'.
    """
    from relaydeck.cli.restore import restore

    restore(file, **options)


@click.group()
def db() -> None:
    """Move the database."""


@db.command("move", epilog="Example:  relaydeck db move --to postgresql://relaydeck@db.example.com/relaydeck")
@click.option(
    "--to",
    "url",
    required=True,
    help="The target, in the form of RELAYDECK_DATABASE_URL; - reads it from standard input. Other users of this"
    " machine can see a command line: put the password in ~/.pgpass or PGPASSWORD, or use -.",
)
@as_json("Copied")
@at_home
def db_move(url: str, as_json: bool) -> None:
    """Copy the configured database to an empty one. Every table is compared.

    Stop the service first. If a process writes to the source during the copy, the move stops with an error: stop
    the service and run the command again. An interrupted move continues where it stopped when you run it again;
    until it has finished, the target cannot be opened. The move only reads the source.

    Secrets stay sealed: the same master key file opens them.
    """
    from relaydeck.cli.move import move

    move(url, as_json)


@click.group()
def key() -> None:
    """Manage the keys that seal secrets at rest."""


@key.command("rotate", epilog="Safe while the service runs. If it is interrupted, run it again.")
@as_json("Rotated")
@at_home
def key_rotate(as_json: bool) -> None:
    """Create a new data key and seal every secret with it."""
    from relaydeck.cli.keys import rotate

    rotate(as_json)


DATABASE_COMMANDS: tuple[click.Command, ...] = (key, backup, restore, db)
