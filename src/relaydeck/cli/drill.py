"""`relaydeck backup drill`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from relaydeck.cli.backup import back_up
from relaydeck.cli.backup_key import checked_backup
from relaydeck.cli.json_shapes import Drill, DrilledTable
from relaydeck.cli.output import print_json, print_line, print_rows, progress_bar
from relaydeck.errors import OperatorError
from relaydeck.settings import Settings, read_settings
from relaydeck.store.copying.drill import Compared, restore_into_scratch
from relaydeck.store.copying.scratch import scratch_database
from relaydeck.store.copying.sealed_values import Secrets, check_secrets


def drill(path: Path | None, passphrase_file: Path | None, unauthenticated: bool, as_json: bool) -> None:
    settings = read_settings()
    with (
        _backup(path, settings) as file,
        checked_backup(file, settings.master_key_path, passphrase_file, unauthenticated) as backup,
        scratch_database(settings.database) as database,
    ):
        compared = restore_into_scratch(backup.file, database, progress_bar, backup.keyring)
        secrets = None if backup.keyring is None else check_secrets(database, backup.keyring)
    problems = [*_differences(compared), *_secret_problems(secrets, settings.master_key_path)]
    tables = [_table(each) for each in compared]
    _print(Drill(backup.is_authentic, tables, secrets and secrets.opened, problems), as_json)
    if problems:
        raise OperatorError("the drill failed:\n" + "\n".join(f"  {problem}" for problem in problems))
    assert secrets is not None
    if not as_json:
        origin = "authentic" if backup.is_authentic else "NOT AUTHENTIC: a restore would revoke every credential in it"
        print_line(f"the backup is {origin}")
        print_line(f"opened {secrets.opened} sealed values; audit log: every link holds, head {secrets.audit}")


@contextmanager
def _backup(path: Path | None, settings: Settings) -> Iterator[Path]:
    """The given backup, or a new one of the configured database."""
    if path is not None:
        yield path
        return
    with TemporaryDirectory(prefix="relaydeck-drill-") as folder:
        new = Path(folder) / "backup"
        back_up(settings, new)
        yield new


def _table(compared: Compared) -> DrilledTable:
    found = compared.found
    return DrilledTable(compared.table, found.rows, found.digest.hex()[:16], same=found == compared.expected)


def _print(report: Drill, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    rows = [(each.table, each.rows, each.digest, "same" if each.same else "DIFFERENT") for each in report.tables]
    print_rows(("table", "rows", "digest", "result"), [rows])


def _differences(compared: list[Compared]) -> Iterator[str]:
    for each in compared:
        if each.found != each.expected:
            yield f"{each.table} differs: {each.expected.rows} rows in the backup, {each.found.rows} restored"


def _secret_problems(secrets: Secrets | None, master_key_path: Path) -> Iterator[str]:
    if secrets is None:
        yield f"the sealed values could not be opened: the master key file {master_key_path} is missing"
        return
    yield from secrets.problems()
