"""`relaydeck backup drill`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from relaydeck.cli.backup import checked, master_key_for, source_of, write
from relaydeck.cli.progress import watched
from relaydeck.cli.showing import print_table
from relaydeck.errors import OperatorError
from relaydeck.settings import Settings, read_settings
from relaydeck.store.audit import BrokenLink
from relaydeck.store.copying.backup_file import BackupFile
from relaydeck.store.copying.drill import Compared, Secrets, examined, restored, scratch
from relaydeck.store.sealing import MasterKey, open_keyring


def drill(path: Path | None, passphrase_file: Path | None) -> None:
    settings = read_settings()
    with _backup(path, settings) as backup, scratch(settings.database) as database:
        key = master_key_for(backup, settings.master_key_path, passphrase_file)
        compared = restored(backup, database, watched)
        keyring = None if key is None else open_keyring(MasterKey(key), backup.data_keys())
        found = None if keyring is None else examined(database, keyring)
    _show(compared)
    problems = [*_differences(compared), *_troubles(found, settings.master_key_path)]
    if problems:
        raise OperatorError("the drill failed:\n" + "\n".join(f"  {problem}" for problem in problems))
    assert found is not None
    sys.stdout.write(f"{found.opened} sealed values open; audit log: every link holds, head {found.audit}\n")


@contextmanager
def _backup(path: Path | None, settings: Settings) -> Iterator[BackupFile]:
    """The one that is named; else one that is made now, of the database as it is."""
    if path is not None:
        with checked(path) as backup:
            yield backup
        return
    with TemporaryDirectory(prefix="relaydeck-drill-") as folder:
        made = Path(folder) / "backup"
        with source_of(settings.database) as (_, source):
            write(source, made)
        with checked(made) as backup:
            yield backup


def _show(compared: list[Compared]) -> None:
    rows = [
        {
            "table": each.table,
            "rows": each.found.rows,
            "digest": each.found.digest.hex()[:16],
            "verdict": "same" if each.found == each.expected else "DIFFERENT",
        }
        for each in compared
    ]
    print_table(rows, {name: lambda row, name=name: row[name] for name in rows[0]})  # type: ignore[misc]


def _differences(compared: list[Compared]) -> Iterator[str]:
    for each in compared:
        if each.found != each.expected:
            yield f"{each.table}: {each.expected.rows} rows in the backup, {each.found.rows} restored, not the same"


def _troubles(found: Secrets | None, master_key_path: Path) -> Iterator[str]:
    if found is None:
        yield f"the sealed values were not opened: the master key file {master_key_path} is missing"
        return
    yield from (str(damage) for damage in found.damaged)
    if isinstance(found.audit, BrokenLink):
        yield f"the audit log is broken: entry {found.audit.seq} {found.audit.why}"
