"""`relaydeck backup FILE` and `relaydeck restore FILE`."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from relaydeck.cli.passphrase import known_passphrase, new_passphrase
from relaydeck.cli.progress import watched
from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.settings import Settings, read_settings
from relaydeck.store.copying import move
from relaydeck.store.copying.backup import refuse_existing, write_backup
from relaydeck.store.copying.backup_file import BackupFile
from relaydeck.store.copying.contents import Content
from relaydeck.store.copying.copy import DatabaseSource
from relaydeck.store.copying.passphrase import open_master_key, seal_master_key
from relaydeck.store.database import Reader
from relaydeck.store.open_store import open_for_filling, open_reader_at
from relaydeck.store.sealing import MasterKey, create_master_key, master_key_bytes, open_keyring


def create(path: Path, *, with_master_key: bool, passphrase_file: Path | None, force: bool) -> None:
    settings = read_settings()
    refuse_existing(path, force)
    if passphrase_file and not with_master_key:
        raise OperatorError("--passphrase-file goes with --with-master-key", "Nothing was written.")
    with source_of(settings.database) as (reader, source):
        sealed = _sealed_master_key(reader, settings, passphrase_file) if with_master_key else None
        contents = write(source, path, force=force, sealed_master_key=sealed)
    _report(path, contents, with_master_key, settings)


def write(
    source: DatabaseSource, path: Path, *, force: bool = False, sealed_master_key: bytes | None = None
) -> dict[str, Content]:
    with watched("backing up", source.count()) as advance:
        return write_backup(
            source, path, now=int(time.time()), advance=advance, force=force, sealed_master_key=sealed_master_key
        )


@contextmanager
def source_of(where: Path | DatabaseUrl) -> Iterator[tuple[Reader, DatabaseSource]]:
    """The database at one moment, whoever writes to it meanwhile."""
    require_there(where)
    with closing(open_reader_at(where)) as reader, reader.snapshot():
        yield reader, move.readable(reader)


def require_there(where: Path | DatabaseUrl) -> None:
    if isinstance(where, Path) and not where.is_file():
        raise OperatorError(
            f"there is no database {where}", "Choose one with RELAYDECK_HOME or RELAYDECK_DATABASE_URL."
        )


def _sealed_master_key(reader: Reader, settings: Settings, passphrase_file: Path | None) -> bytes:
    key = master_key_bytes(settings.master_key_path)
    rows = reader.read("SELECT id, wrapped FROM data_keys ORDER BY id")
    open_keyring(MasterKey(key), [(row[0], row[1]) for row in rows])  # it is this database's
    return seal_master_key(key, new_passphrase(passphrase_file))


def _report(path: Path, contents: dict[str, Content], with_master_key: bool, settings: Settings) -> None:
    rows = sum(content.rows for content in contents.values())
    sys.stdout.write(f"backed up {len(contents)} tables, {rows} rows to {path}\n")
    if with_master_key:
        sys.stderr.write("The master key is inside, under the passphrase: keep that elsewhere.\n")
    else:
        sys.stderr.write(f"The master key is not inside: keep a copy of {settings.master_key_path} elsewhere.\n")


def restore(path: Path, passphrase_file: Path | None) -> None:
    settings = read_settings()
    with checked(path) as backup:
        key = master_key_for(backup, settings.master_key_path, passphrase_file)
        with open_for_filling(settings.home, settings.database) as target:
            loaded = move.restore(backup, target, watched, lambda: _put(key, settings.master_key_path))
    sys.stdout.write(f"restored {len(loaded.contents)} tables, {loaded.rows} rows to {settings.database}; read back\n")
    if key is None:
        sys.stderr.write(f"Put the master key file to {settings.master_key_path} before you start the service.\n")


@contextmanager
def checked(path: Path) -> Iterator[BackupFile]:
    with _opened(path) as file:
        with watched("checking", path.stat().st_size) as advance:
            backup = BackupFile(path, file, advance)
        yield backup


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise OperatorError(
            f"the backup {path} cannot be read: {error.strerror}", "Name a file that 'relaydeck backup' wrote."
        ) from None


def master_key_for(backup: BackupFile, path: Path, passphrase_file: Path | None) -> bytes | None:
    """The key at hand, else the one in the backup, else none. Raises OperatorError when it does not fit."""
    sealed = backup.header.sealed_master_key
    if path.exists():
        key = master_key_bytes(path)
    elif sealed is not None:
        key = open_master_key(sealed, known_passphrase(passphrase_file))
    else:
        return None
    open_keyring(MasterKey(key), backup.data_keys())
    return key


def _put(key: bytes | None, path: Path) -> None:
    if key is not None:
        create_master_key(path, lambda _count: key)  # one that is there is left as it is
