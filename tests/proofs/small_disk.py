"""A file system of its own for a test, where this user may mount one."""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_REMOUNT, _DETACH = 32, 2  # MS_REMOUNT, MNT_DETACH


@contextmanager
def small_disk(folder: Path, size: str = "4m") -> Iterator[bool]:
    """Says whether it is one."""
    folder.mkdir()
    failed = _LIBC.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode())
    if failed and ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS, errno.EACCES):
        raise OSError(ctypes.get_errno(), "mount")
    try:
        yield not failed
    finally:
        if not failed:
            _LIBC.umount2(os.fsencode(folder), _DETACH)  # lazily: the service may still be ending


def resize(folder: Path, size: str) -> None:
    """Of a disk that was mounted: it keeps its files."""
    if _LIBC.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", _REMOUNT, f"size={size}".encode()):
        raise OSError(ctypes.get_errno(), "remount")
