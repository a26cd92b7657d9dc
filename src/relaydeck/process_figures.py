"""What this process holds, as Linux shows it under /proc."""

import os
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessFigures(NamedTuple):
    resident_bytes: int
    open_files: int


def own_process(folder: Path = Path("/proc/self")) -> ProcessFigures:
    """Zeros on a system without /proc."""
    try:
        pages = int((folder / "statm").read_text().split()[1])
        return ProcessFigures(pages * _PAGE, sum(1 for _ in (folder / "fd").iterdir()))
    except OSError:
        return ProcessFigures(0, 0)
