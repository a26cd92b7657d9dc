"""What can be typed about backups, restoring them, and moving to another database."""

from pathlib import Path
from typing import Any

import click

from relaydeck.cli.options import PATH, at_home

_PASSPHRASE = click.option(
    "--passphrase-file",
    type=PATH,
    help="Where the passphrase of the master key is read from. Default: it is asked for at the terminal.",
)


class _Backup(click.Group):
    """`relaydeck backup FILE` is `relaydeck backup create FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["create", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Backup, short_help="Back up everything to one file; prove that a backup can be restored.")
def backup() -> None:
    """Back up everything to one file, or prove that a backup can be restored.

    'relaydeck backup FILE' is short for 'relaydeck backup create FILE'. Bring it back with 'relaydeck restore FILE'.
    """


@backup.command("create", epilog="Example:  relaydeck backup /backups/relaydeck-$(date +%F)")
@click.argument("file", type=PATH)
@click.option("--with-master-key", is_flag=True, help="Put the master key in too, sealed under a passphrase.")
@_PASSPHRASE
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@at_home
def backup_create(file: Path, **options: Any) -> None:
    """Write everything in the database, at one moment, to FILE. Safe while the service runs.

    Secrets in it are sealed as in the database. The master key that opens them is not inside unless you ask for
    it: keep a copy of the master key file elsewhere. FILE restores into SQLite and PostgreSQL alike.
    """
    from relaydeck.cli.backup import create

    create(file, **options)


@backup.command("drill", epilog="Example:  relaydeck backup drill /backups/relaydeck-2030-01-31")
@click.argument("file", type=PATH, required=False)
@_PASSPHRASE
@at_home
def backup_drill(file: Path | None, passphrase_file: Path | None) -> None:
    """Restore FILE (default: a backup made now) into a scratch database and prove it whole; then remove that.

    Every table is compared, every sealed value opened with the master key, and the audit log verified. The scratch
    is a file in the temporary folder (TMPDIR); with PostgreSQL a database of the same server, if this user may
    create one. Exits 1 on any difference.
    """
    from relaydeck.cli.drill import drill

    drill(file, passphrase_file)


@click.command(short_help="Bring a backup back into a new database.")
@click.argument("file", type=PATH)
@_PASSPHRASE
@at_home
def restore(file: Path, passphrase_file: Path | None) -> None:
    """Bring the backup FILE back into the configured database, which must be new or empty.

    FILE is checked whole before anything is written, and what was written is read back. The master key file is
    only written when FILE holds the key and there is no such file yet. Stopped in the middle, run it again.
    """
    from relaydeck.cli.backup import restore

    restore(file, passphrase_file)


@click.group()
def db() -> None:
    """Look after the database."""


@db.command("move", epilog="Example:  relaydeck db move --to postgresql://relaydeck@db.example.com/relaydeck")
@click.option(
    "--to",
    "url",
    required=True,
    help="Where to: a URL as in RELAYDECK_DATABASE_URL, or - to read it from standard input. Others can see a"
    " command line: leave the password to ~/.pgpass or PGPASSWORD, or use -.",
)
@at_home
def db_move(url: str) -> None:
    """Copy everything from the configured database to an empty one, and prove every table the same.

    Stop the service first. If anybody writes to the source meanwhile, the move does not finish and says so: stop
    the service and run it again. The same if it was killed: it goes on where it stopped, and until it has finished
    nobody can open the target. The source is only read.

    Sealed secrets are moved as they are: the same master key file opens them.
    """
    from relaydeck.cli.moving import move

    move(url)


COPYING: tuple[click.Command, ...] = (backup, restore, db)
