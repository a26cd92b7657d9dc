"""Numbers shared by the processes of one machine: a file mapped into memory as 64-bit cells."""

import mmap
import os
from pathlib import Path


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
