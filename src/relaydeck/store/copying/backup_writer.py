"""Writes a backup file. It appears under its name when it is complete, and only its owner can read it."""

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from relaydeck import __version__
from relaydeck.errors import OperatorError
from relaydeck.store.catalogue import Table
from relaydeck.store.copying.contents import ROWS_AT_ONCE, Advance, Content, Tally, Values
from relaydeck.store.copying.copy import Source
from relaydeck.store.copying.format import MAGIC, Block, Footer, Frame, Header, encode_frame
from relaydeck.store.home_folder import sync_folder
from relaydeck.store.master_key import MasterKey


class _Hashing:
    """Hashes what it writes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)

    def frame(self, frame: Frame) -> None:
        self.write(encode_frame(frame))

    def end(self, master: MasterKey) -> None:
        digest = self._digest.digest()
        self._file.write(digest + master.backup_mac(digest))


def write_backup(
    source: Source,
    path: Path,
    master: MasterKey,
    *,
    now: int,
    advance: Advance,
    force: bool = False,
    sealed_master_key: bytes | None = None,
) -> dict[str, Content]:
    """Returns the contents of the backup, by table. `master` authenticates it. Raises OperatorError when it exists."""
    refuse_existing(path, force)
    with _private_file(path, force) as file:
        hashing = _Hashing(file)
        hashing.write(MAGIC)
        hashing.frame(Header(__version__, source.version, now, source.tables, sealed_master_key))
        contents = {table.name: _write_table(hashing, source, table, advance) for table in source.tables}
        hashing.frame(Footer(contents))
        hashing.end(master)
    return contents


def _write_table(hashing: _Hashing, source: Source, table: Table, advance: Advance) -> Content:
    tally = Tally(table, advance)
    for rows in _in_blocks(tally.over(source.rows(table))):
        hashing.frame(Block(table.name, rows))
    return tally.content(source.counter(table))


def _in_blocks(rows: Iterable[Values]) -> Iterator[list[Values]]:
    remaining = iter(rows)
    while block := list(islice(remaining, ROWS_AT_ONCE)):
        yield block


def refuse_existing(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise OperatorError(f"{path} exists", "Choose another file name, or replace the file with --force.")


@contextmanager
def _private_file(path: Path, force: bool) -> Iterator[BinaryIO]:
    path = path.resolve()  # replace the file that a link points to, not the link
    if not path.parent.is_dir():
        raise OperatorError(f"there is no folder {path.parent}", "Create it, or choose a file elsewhere.")
    if path.exists() and not path.is_file():
        raise OperatorError(f"{path} is not a regular file", "Choose a file that does not exist yet.")
    _remove_old_drafts(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _publish(draft, path, force)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def _remove_old_drafts(path: Path) -> None:
    """Remove the drafts of killed processes that wrote a backup of the same name."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*"):
        process = draft.name.rpartition(".")[2]
        if process.isdigit() and len(process) < 8 and not _is_alive(int(process)):
            draft.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _publish(draft: Path, path: Path, force: bool) -> None:
    if force:
        draft.replace(path)
        return
    try:
        os.link(draft, path)  # unlike a rename, this never replaces a file that another process created
    except FileExistsError:
        refuse_existing(path, force)
