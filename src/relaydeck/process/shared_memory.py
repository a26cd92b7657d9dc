"""Numbers shared by the processes of one machine: a file mapped into memory as 64-bit cells."""

import fcntl
import mmap
import os
import struct
from pathlib import Path

LOCK = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux


def map_cells(path: Path, count: int) -> "memoryview[int]":
    """At least `count` unsigned 64-bit cells, all of the file `path`; new ones are zero."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = max(count * 8, os.fstat(descriptor).st_size)
        # Allocate the space: writing into a hole of a file on a full disk would end the process with SIGBUS.
        os.posix_fallocate(descriptor, 0, size)
        return memoryview(mmap.mmap(descriptor, size)).cast("Q")
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock on a part of the file."""
    return lock_holder(path) is not None


def lock_holder(path: Path) -> int | None:
    """The process that holds a lock on a part of the file; None: nobody does. Below 1: it is not known which one."""
    try:
        with path.open("rb") as file:
            asked = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = LOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked))
    except OSError:
        return None
    return None if found[0] == fcntl.F_UNLCK else int(found[4])
