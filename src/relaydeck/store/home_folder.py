"""The home folder: created on first use, and opened by one process at a time."""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    while not _took(descriptor):
        if time.monotonic() > end:
            raise OperatorError(
                f"waited {_LONGEST_WAIT:g} seconds for another process that opens this home",
                f"Wait until it is ready, or end it: it is the process that has locked {lock}.",
            )
        time.sleep(_RETRY_SECONDS)


def _took(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(
            f"the folder {folder} cannot be created: {error.strerror}", "Choose another one with RELAYDECK_HOME."
        ) from None


def is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
