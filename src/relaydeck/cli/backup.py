"""`relaydeck backup create`."""

import time
from pathlib import Path

from relaydeck.cli.backup_key import master_key_of, sealed_master_key
from relaydeck.cli.json_shapes import WrittenBackup
from relaydeck.cli.output import print_note, print_outcome, progress_bar
from relaydeck.errors import OperatorError
from relaydeck.settings import Settings, read_settings
from relaydeck.store.copying.backup_writer import refuse_existing, write_backup
from relaydeck.store.copying.copy import DatabaseSource
from relaydeck.store.copying.move import complete_source
from relaydeck.store.copying.snapshot import snapshot_of
from relaydeck.store.master_key import MasterKey


def create(path: Path, *, with_master_key: bool, passphrase_file: Path | None, force: bool, as_json: bool) -> None:
    settings = read_settings()
    refuse_existing(path, force)
    if passphrase_file and not with_master_key:
        raise OperatorError("--passphrase-file requires --with-master-key", "Nothing was written.")
    key_path = settings.master_key_path
    with snapshot_of(settings.database) as reader:
        source = complete_source(reader)
        key = master_key_of(reader, key_path)
        sealed = sealed_master_key(key, passphrase_file) if with_master_key else None
        tables, rows = _write(source, path, key, force=force, sealed=sealed)
    written = WrittenBackup(str(path), tables, rows, with_master_key)
    print_outcome(written, as_json, f"backed up {tables} tables, {rows} rows to {path}")
    if with_master_key:
        print_note("The backup contains the master key, sealed with the passphrase: keep the passphrase elsewhere.")
    else:
        print_note(f"The backup does not contain the master key: keep a copy of {key_path} elsewhere.")


def back_up(settings: Settings, path: Path) -> None:
    """Back up the configured database, without its master key."""
    with snapshot_of(settings.database) as reader:
        _write(complete_source(reader), path, master_key_of(reader, settings.master_key_path))


def _write(
    source: DatabaseSource, path: Path, key: bytes, *, force: bool = False, sealed: bytes | None = None
) -> tuple[int, int]:
    """Write a backup; return how many tables and rows it contains. `sealed`: the sealed master key, to include it."""
    master, now = MasterKey(key), int(time.time())
    with progress_bar("backing up", source.count()) as advance:
        contents = write_backup(source, path, master, now=now, advance=advance, force=force, sealed_master_key=sealed)
    return len(contents), sum(content.rows for content in contents.values())
