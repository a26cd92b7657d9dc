"""Numbers shared by the processes of one machine: a file mapped into memory, seen as 64-bit cells."""

import mmap
import os
from pathlib import Path


def map_cells(path: Path, count: int) -> "memoryview[int]":
    """`count` unsigned 64-bit cells, zero at first, kept in `path` as long as it exists."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = max(count * 8, os.fstat(descriptor).st_size)
        # Allocated for real: touching a hole of a file on a full disk would end the process with SIGBUS.
        os.posix_fallocate(descriptor, 0, size)
        return memoryview(mmap.mmap(descriptor, size)).cast("Q")
    finally:
        os.close(descriptor)
