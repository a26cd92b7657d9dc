"""The home folder, and the file of a SQLite database: which one was opened, and whether another one is in its place.

A write-ahead log belongs to one file, but SQLite finds it by its name: it would write the log of the file before into
the file that it finds now. A process that opens the other file and closes it again even deletes the log, while a
service still writes to it.
"""

import fcntl
import glob
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple
from weakref import finalize

from relaydeck.errors import OperatorError

_LONGEST_WAIT = 3600.0  # another process may be migrating
_RETRY_SECONDS = 0.02


@contextmanager
def opening_lock(home: Path) -> Iterator[Path]:
    """One process of this machine at a time opens the home; yields the folder of run-time files.

    SQLite switches to its write-ahead log without waiting for a lock: two first starts at once would fail.
    """
    run_folder = home / "run"
    for folder in (home, run_folder):
        _create_folder(folder)
    lock = run_folder / "opening"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _wait_for(descriptor, lock)
        yield run_folder
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, lock: Path) -> None:
    """The system frees the lock of a process that has ended, so a holder is alive: busy, or stopped."""
    end = time.monotonic() + _LONGEST_WAIT
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > end:
            raise OperatorError(
                f"waited {_LONGEST_WAIT:g} seconds for another process that opens this home",
                f"Wait until it is ready, or end it: it is the process that has locked {lock}.",
            )
        time.sleep(_RETRY_SECONDS)


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(
            f"the folder {folder} cannot be created: {error.strerror}", "Choose another one with RELAYDECK_HOME."
        ) from None


def is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


@contextmanager
def private_file(path: Path, *, replace: bool = False) -> Iterator[BinaryIO]:
    """A file that only its owner can read. It appears under its name when it is complete and on disk.

    Raises FileExistsError if there is one that must not be replaced, and OSError if it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)  # unlike a rename, this never replaces a file that another process created
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_old_drafts(path: Path) -> None:
    """Remove the drafts of killed processes that wrote a file of the same name."""
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
    """From now on, the processes of this service open no other file in the place of this one."""
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
    if orphan := _orphaned_log(path):
        raise orphan
    if served:
        raise OperatorError(f"the database file {path} is missing", "Put it back, and restart Relaydeck.")


def lost_file(path: Path, home: Path) -> OperatorError | None:
    """The problem with a missing file, if the home shows that it had a database. Otherwise a start creates one.

    A master key that an operator provides for a first start is outside of the home: RELAYDECK_MASTER_KEY_FILE.
    """
    if path.exists():
        return None
    traces = [each for each in (home / "master.key", home / "run/write-signal") if _used(each)]
    if _has_log(path) or not traces:
        return _orphaned_log(path)
    named = " and ".join(map(str, traces))
    return OperatorError(
        f"the database file {path} is missing, but this home had a database: see {named}",
        "Put it back, restore a backup, or correct RELAYDECK_DATABASE_URL. If you want a new, empty database, create it"
        " with 'relaydeck token create NAME'.",
    )


def _orphaned_log(path: Path) -> OperatorError | None:
    log = log_of(path).name
    if not _has_log(path):
        return None
    return OperatorError(
        f"the database file {path} is missing, and {log} contains its newest writes",
        f"Put the file back. If you want a new database instead, move {log} away.",
    )


def _used(path: Path) -> bool:
    """Whether something was written. Before the first write the signal consists of zeros."""
    return path.is_file() and any(path.read_bytes())


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
