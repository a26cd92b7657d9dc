"""The home folder: created on first use, and opened by one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relaydeck.errors import OperatorError


@contextmanager
def opening_lock(home: Path) -> Iterator[Path]:
    """One process of this machine at a time opens the home; yields the folder of run-time files.

    SQLite switches to its write-ahead log without waiting for a lock: two first starts at once would fail.
    """
    run_folder = home / "run"
    for folder in (home, run_folder):
        _create_folder(folder)
    descriptor = os.open(run_folder / "opening", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield run_folder
    finally:
        os.close(descriptor)


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(
            f"the folder {folder} cannot be created: {error.strerror}", "Choose another one with RELAYDECK_HOME."
        ) from None
