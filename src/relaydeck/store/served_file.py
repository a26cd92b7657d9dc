"""The file of a SQLite database: which one was opened, and what happens when another one is put in its place.

A write-ahead log belongs to one file, but SQLite finds it by its name: it would write the log of the file before into
the file that it finds now. A process that opens the other file and closes it again even deletes the log, while a
service still writes to it.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from weakref import finalize

from relaydeck.errors import OperatorError

FileIdentity = tuple[int, int]  # device and inode

# The files that this service serves, by path, and their identities. Its workers inherit this when they are started, so
# it outlives each of them.
_served: dict[Path, FileIdentity] = {}


class OpenedFile:
    """The file that a process has opened, with its log. `problem` is empty while both are where they were."""

    def __init__(self, path: Path) -> None:
        self._path, self._log_path = path, log_of(path)
        # A path descriptor: closing an ordinary one would release the locks that SQLite holds on the file.
        self._held = os.open(path, os.O_PATH | os.O_CLOEXEC)
        finalize(self, os.close, self._held)
        found = os.fstat(self._held)
        self._file: FileIdentity = found.st_dev, found.st_ino
        self._log: FileIdentity | None = None

    def see_log(self) -> None:
        """After the first connection was opened. The log stays the same one until the last connection is closed."""
        self._log = file_at(self._log_path)

    def problem(self, *, connected: bool) -> str:
        if self._file != file_at(self._path):
            self._note_replaced()
            return replaced_file(self._path)
        if connected and self._log is not None and self._log != file_at(self._log_path):
            return f"the write-ahead log of the database file {self._path} was deleted or replaced: restart Relaydeck"
        return ""

    def _note_replaced(self) -> None:
        """Remember which file the log belongs to, for the next start."""
        if self._log is None or self._log != file_at(self._log_path):
            return
        # The inode of a file that was deleted may become that of another one.
        inode = self._file[1] if os.fstat(self._held).st_nlink else 0
        with suppress(OSError):  # of a full disk, for example
            _mark_of(self._path).write_text(f"{inode} {self._log[1]}\n", "ascii")


class _Mark(NamedTuple):
    """The inodes of a file that was replaced and of its log."""

    file: int
    log: int


def file_at(path: Path) -> FileIdentity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def replaced_file(path: Path) -> str:
    return f"the database file {path} was deleted or replaced: put it back and restart Relaydeck"


def keep_to_file(path: Path) -> None:
    if (found := file_at(path)) is not None:
        _served[path] = found


def refuse_replaced(path: Path, *, served: bool = False) -> None:
    """Raises OperatorError when the file is not the one that the write-ahead log beside it belongs to."""
    if served and file_at(path) != _served.get(path, file_at(path)):
        raise OperatorError(replaced_file(path), "Stop Relaydeck before you replace its database.")
    mark, found, log = _read_mark(path), file_at(path), log_of(path).name
    if mark is None or found is None or not _has_log(path):
        return
    if mark.log == log_of(path).stat().st_ino and mark.file != found[1]:
        raise OperatorError(
            f"the database file {path} was replaced while Relaydeck was running, and {log} contains the newest writes"
            " of the file before",
            f"Put that file back. If it is back already, as a copy, delete {_mark_of(path).name}. To continue with the"
            f" file that is there now, without those writes, move {log} away.",
        )


def forget_replaced(path: Path) -> None:
    """After `refuse_replaced`: a mark that did not prevent the opening is out of date."""
    _mark_of(path).unlink(missing_ok=True)


def refuse_new_file(path: Path, *, served: bool) -> None:
    """SQLite deletes the write-ahead log that it finds beside a new file, and with it acknowledged writes."""
    if _has_log(path):
        log = log_of(path).name
        raise OperatorError(
            f"the database file {path} is missing, and {log} contains its newest writes",
            f"Put the file back. If you want a new database instead, move {log} away.",
        )
    if served:
        raise OperatorError(f"the database file {path} is missing", "Put it back, and restart Relaydeck.")


def _has_log(path: Path) -> bool:
    log = log_of(path)
    return log.exists() and log.stat().st_size > 0


def _mark_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-replaced")


def _read_mark(path: Path) -> _Mark | None:
    """None also for one that a full disk has cut off."""
    try:
        file, log = _mark_of(path).read_text("ascii").split()
        return _Mark(int(file), int(log))
    except (OSError, ValueError):
        return None
