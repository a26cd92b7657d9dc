"""`relaydeck db …` and `relaydeck key …`: the commands about the whole database."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated

import click
import msgspec

from relaydeck.cli.apply_commands import CHANGES
from relaydeck.cli.home import actor, existing_store, has_data, open_or_create, require_data, service_log
from relaydeck.cli.options import as_json, at_home
from relaydeck.cli.output import Shape, about, print_line, print_note, print_outcome, print_rows, progress_bar, show
from relaydeck.errors import OperatorError
from relaydeck.quantities import counted
from relaydeck.settings.model import read_settings
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.copying import copy
from relaydeck.store.migrate import newest_version, plan, runs_beside_services, schema_version
from relaydeck.store.open_store import Store, open_for_filling, open_for_plan, open_reader_at
from relaydeck.store.rotation import Rotation, RotationReport
from relaydeck.store.vault import (
    MasterKey,
    Vault,
    new_master_key,
    read_master_keys,
    replacing_master_key,
    write_master_keys,
)

_MIN_PAUSE_SECONDS = 0.002


class Migrated(Shape, frozen=True):
    before: Annotated[int, about("The version of the schema before; 0 for a new database.")]
    after: Annotated[int, about("The version of the schema now.")]
    seconds: Annotated[float, about("How long it took.")]


class MigrationWork(Shape, frozen=True):
    step: Annotated[int, about("The version of the schema after the step that this is a part of.")]
    work: Annotated[str, about("What it does.")]
    rows: Annotated[int, about("How many rows it reads or writes.")]
    seconds: Annotated[float, about("How long it takes, estimated from a sample of the rows.")]
    lock: Annotated[str, about("What it locks, and for how long.")]


class MigrationPlan(Shape, frozen=True):
    before: Annotated[int, about("The version of the schema.")]
    after: Annotated[int, about("The version of the schema after the migration.")]
    seconds: Annotated[float, about("How long the migration takes, estimated from a sample of the rows.")]
    beside_services: Annotated[bool, about("Whether services of the version before may serve and write meanwhile.")]
    work: Annotated[list[MigrationWork], about("The parts of the steps.")]


class Copied(Shape, frozen=True):
    database: Annotated[str, about("The database that was filled, without its password.")]
    tables: Annotated[int, about("How many tables it contains.")]
    rows: Annotated[int, about("How many rows it contains.")]
    kept: Annotated[int, about("How many tables an interrupted earlier run had already copied.")]


class Rotated(Shape, frozen=True):
    resealed: Annotated[int, about("How many values were sealed with the new data key.")]
    retired: Annotated[int, about("How many old data keys were removed.")]
    damaged: Annotated[list[str], about("Values that could not be opened. One makes the command exit with 1.")]
    proven: Annotated[int, about("How many tokens, sessions and links were proven anew under a new master key.")] = 0
    master_keys: Annotated[int, about("How many keys the master key file has: 2 while the master key is replaced.")] = 1


db, key = click.Group("db"), click.Group("key")


@db.command("migrate", epilog="Example:  relaydeck db migrate --plan")
@click.option(
    "--plan",
    "planned",
    is_flag=True,
    help="Show what would be done, how long it takes and what it locks. Change nothing.",
)
@click.option(
    "--detailed-exitcode", is_flag=True, help="With --plan: exit 0 if nothing is to be done, 2 otherwise, 1 on errors."
)
@as_json(Migrated, other=MigrationPlan, remark=" with `--plan`")
@at_home
def db_migrate(planned: bool, detailed_exitcode: bool, as_json: bool) -> None:
    """Bring the database to the schema of this version. Run it before 'relaydeck serve', which does the same.

    On PostgreSQL, services of the version that migrated the database last keep serving and writing. Services before
    schema version 19 must be stopped first. An interrupted migration continues when you run it again.

    --plan tries each step on a sample of the rows, in temporary tables, and estimates the time from that.
    """
    if detailed_exitcode and not planned:
        raise click.UsageError("--detailed-exitcode needs --plan")
    if not planned:
        _migrate(as_json)
        return
    found = _migration_plan()
    show(found, as_json, _print_plan)
    if found.work and detailed_exitcode:
        sys.exit(CHANGES)


def _migrate(as_json: bool) -> None:
    settings = read_settings()
    before, began = 0, time.monotonic()
    if has_data(settings):
        with closing(open_reader_at(settings.database)) as reader:
            before = schema_version(reader)
    open_or_create(settings, progress_bar if sys.stderr.isatty() else service_log(settings).progress).close()
    outcome = Migrated(before, newest_version(), round(time.monotonic() - began, 1))
    changed = f"migrated from schema version {before} to {outcome.after} in {outcome.seconds} s"
    print_outcome(outcome, as_json, f"the schema has version {before}" if before == outcome.after else changed)


def _migration_plan() -> MigrationPlan:
    settings = read_settings()
    require_data(settings)
    with open_for_plan(settings) as (database, keyring):
        before = schema_version(database)
        work = [MigrationWork(*each._replace(seconds=round(each.seconds, 2))) for each in plan(database, keyring)]
        beside = runs_beside_services(database, before)
    return MigrationPlan(before, newest_version(), round(sum(each.seconds for each in work), 1), beside, work)


def _print_plan(found: MigrationPlan) -> None:
    if not found.work:
        print_line(f"nothing to do: the schema has version {found.before}")
        return
    print_rows(MigrationWork.__struct_fields__, [[msgspec.structs.astuple(each) for each in found.work]])
    services = "may keep serving" if found.beside_services else "must be stopped first"
    versions = f"schema version {found.before} to {found.after}"
    print_line(f"{versions} in about {found.seconds} s; older services {services}")


@db.command("move", epilog="Example:  relaydeck db move --to postgresql://relaydeck@db.example.com/relaydeck")
@click.option(
    "--to",
    required=True,
    help="The target, in the form of RELAYDECK_DATABASE_URL; - reads it from standard input. Other users of this"
    " machine can see a command line: put the password in ~/.pgpass or PGPASSWORD, or use -.",
)
@as_json(Copied)
@at_home
def db_move(to: str, as_json: bool) -> None:
    """Copy the configured database to an empty one. Every table is compared.

    Stop the service first. If a process writes to the source during the copy, the move stops with an error: stop
    the service and run the command again. An interrupted move continues where it stopped when you run it again;
    until it has finished, the target cannot be opened. The move only reads the source.

    Secrets stay sealed: the same master key file opens them.
    """
    settings = read_settings()
    copy.require_database(settings.database)
    url = _parse(sys.stdin.readline().strip() if to == "-" else to)
    with open_for_filling(settings.home, url.sqlite_path or url) as target:
        loaded = copy.move(settings.database, target, progress_bar)
    kept = f" ({loaded.kept} tables had been moved before)" if loaded.kept else ""
    print_outcome(
        Copied(str(url), len(loaded.contents), loaded.rows, loaded.kept),
        as_json,
        f"moved {len(loaded.contents)} tables, {loaded.rows} rows to {url}{kept}; all read back equal",
    )
    print_note(
        "Set RELAYDECK_DATABASE_URL to the new database and start the service. It uses the same master key file,"
        f" {settings.master_key_path}. The old database, {settings.database}, is unchanged: archive or delete it."
    )


def _parse(text: str) -> DatabaseUrl:
    try:
        return DatabaseUrl(text)
    except ValueError as error:
        # The text itself is not quoted: it may contain a password.
        raise OperatorError(f"--to must be {error}", "Nothing was changed.") from None


@key.command("rotate", epilog="Safe while the service runs. If it is interrupted, run it again.")
@click.option("--master", is_flag=True, help="Replace the master key as well.")
@click.option("--prepare", is_flag=True, help="With --master: only write the new key into the master key file.")
@click.option(
    "--plain",
    is_flag=True,
    help="With --master: no key system wraps the new key, whatever RELAYDECK_MASTER_KEY_FROM says.",
)
@as_json(Rotated)
@at_home
def key_rotate(master: bool, prepare: bool, plain: bool, as_json: bool) -> None:
    """Create a new data key and seal every secret with it.

    --master also replaces the master key, with which everything in the database is sealed and proven. Do it when a
    copy of the key may have leaked. The command writes a new key into the first line of the master key file,
    above the old one, wrapped by the key system that RELAYDECK_MASTER_KEY_FROM names if it names one, moves the
    database to the new key, and removes the old line. Running services read the file again by themselves; tokens and
    sessions stay valid. Plans made before have to be made again.

    Backups made before can be restored with the old key only: keep a copy of it as long as you keep them, apart from
    them, and make a new backup afterwards.

    With PostgreSQL, run it with --prepare first, and give the master key file, which then has both keys, to every
    machine. Then run it without --prepare on one machine. Finally, run it on the others, or give them the file.
    """
    if (prepare or plain) and not master:
        raise click.UsageError(f"{'--prepare' if prepare else '--plain'} needs --master")
    path = read_settings().master_key_path
    with existing_store() as store, replacing_master_key(path) if master else nullcontext():
        may_create = prepare or not store.database.remote
        new = _prepared_master_key(path, store, may_create=may_create, plain=plain) if master else None
        if prepare:
            prepared = f"{path} has a new master key in its first line; run this without --prepare to use it"
            print_outcome(Rotated(0, 0, [], master_keys=2), as_json, prepared)
            return
        report = _rotate(store, new)
        has_old = master and not _removed_old_master_key(path, store.vault)
    sealed, keys = counted(report.resealed, "value"), counted(report.retired, "old data key")
    damaged = [str(each) for each in report.damaged]
    outcome = Rotated(report.resealed, report.retired, damaged, report.proven, 1 + has_old)
    proofs = counted(report.proven, "token, session or link", "tokens, sessions and links")
    was_replaced = master and not (report.resealed or report.retired or report.proven)
    replaced = [f"the master key is replaced; proved {proofs} anew"] if master else []
    done = [f"sealed {sealed} with a new data key; removed {keys}", *replaced]
    print_outcome(outcome, as_json, *(["the database has the new master key already"] if was_replaced else done))
    if has_old:
        print_note(f"{path} cannot be changed: remove all lines but the first from it. They open nothing any more.")
    if master and store.database.remote and not was_replaced:
        print_note(f"On every other machine, remove all lines but the first from the master key file, {path}.")
    if damaged:
        listed = "\n".join(f"  {each}" for each in damaged)
        raise OperatorError(
            f"{counted(len(damaged), 'value')} could not be opened:\n{listed}",
            "They are unchanged, and the data keys they refer to were kept. Set them again, or delete the records.",
        )


def _prepared_master_key(path: Path, store: Store, *, may_create: bool, plain: bool) -> MasterKey:
    """The key in the first line of the file, above the present one. It is on disk before the database uses it."""
    masters = read_master_keys(path)
    if len(masters) > 1:
        return masters[0]
    if not may_create:
        raise OperatorError(
            f"{path} has one key, and services on other machines would not have a new one",
            "Run 'relaydeck key rotate --master --prepare', give the file to every machine, then run this again.",
        )
    new = new_master_key(plain=plain)
    write_master_keys(path, [new, store.vault.master])
    return new


def _rotate(store: Store, master: MasterKey | None) -> RotationReport:
    from relaydeck.credentials.people import EVERY_PROOF  # other commands start without it

    rotation = Rotation(store, EVERY_PROOF)
    total = rotation.begin(int(time.time()), actor(), master)
    with progress_bar("sealing with the new key", total) as advance:
        for values in _paced(rotation.batches()):
            advance(values)
    return rotation.finish()


def _removed_old_master_key(path: Path, vault: Vault) -> bool:
    """Whether the file has the key of the database alone."""
    found = [each.reveal() for each in read_master_keys(path)]
    if vault.master.reveal() not in found or vault.proofs.has_older:
        return False
    try:
        if len(found) > 1:
            write_master_keys(path, [vault.master])
    except OperatorError:
        return False
    return True


def _paced(batches: Iterator[int]) -> Iterator[int]:
    """Pause after each batch for as long as it took, so that a running service gets its turn to write."""
    while True:
        began = time.monotonic()
        values = next(batches, None)
        if values is None:
            return
        time.sleep(max(_MIN_PAUSE_SECONDS, time.monotonic() - began))
        yield values
