"""`relaydeck restore`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from relaydeck.cli.backup_key import master_key_for, write_master_key
from relaydeck.cli.json_shapes import Copied
from relaydeck.cli.output import print_note, print_outcome, progress_bar
from relaydeck.errors import OperatorError
from relaydeck.settings import read_settings
from relaydeck.store.copying import move
from relaydeck.store.copying.backup_reader import BackupFile
from relaydeck.store.open_store import open_for_filling


def restore(path: Path, passphrase_file: Path | None, as_json: bool) -> None:
    settings = read_settings()
    key_path = settings.master_key_path
    with checked_backup(path) as backup:
        key = master_key_for(backup, key_path, passphrase_file)
        with open_for_filling(settings.home, settings.database) as target:
            loaded = move.restore(backup, target, progress_bar, lambda: write_master_key(key, key_path))
    tables, rows = len(loaded.contents), loaded.rows
    print_outcome(
        Copied(str(settings.database), tables, rows, loaded.kept),
        as_json,
        f"restored {tables} tables, {rows} rows to {settings.database}; all read back equal",
    )
    if key is None:
        print_note(f"Copy the master key file to {key_path} before you start the service.")


@contextmanager
def checked_backup(path: Path) -> Iterator[BackupFile]:
    """A backup whose every byte has been checked."""
    with _open(path) as file:
        with progress_bar("checking", path.stat().st_size) as advance:
            backup = BackupFile(path, file, advance)
        yield backup


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise OperatorError(
            f"the backup {path} cannot be read: {error.strerror}", "Name a file that 'relaydeck backup' wrote."
        ) from None
