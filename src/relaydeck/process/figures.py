"""What a process holds and may hold, as Linux shows it under /proc and /sys."""

import os
import re
import resource
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from relaydeck.log import Log

_PAGE = os.sysconf("SC_PAGE_SIZE")
_UNLIMITED = 1 << 60  # bytes: the first version of cgroups states a number where there is no limit
_MOST_CONNECTIONS = 16_384  # of a worker: idle ones must not lock out others
_FEWEST_CONNECTIONS, _FEW_CONNECTIONS = 64, 1024
_OTHER_FILES = 256  # databases, nodes, receivers, logs
_MOST_FILES = 20_800  # also for connections that wait in the kernel, and some to spare


class ProcessFigures(NamedTuple):
    resident_bytes: int
    open_files: int


def own_process(folder: Path = Path("/proc/self")) -> ProcessFigures:
    """Zeros on a system without /proc."""
    try:
        pages = int((folder / "statm").read_text().split()[1])
        return ProcessFigures(pages * _PAGE, open_files(folder / "fd"))
    except OSError:
        return ProcessFigures(0, 0)


def open_files(folder: Path = Path("/proc/self/fd")) -> int:
    """How many files this process has open. Raises OSError.

    Linux 6.2 and later state the number as the size of the folder. Listing the folder instead releases the interpreter
    lock and takes it again for every entry, in competition with the event loop.
    """
    return folder.stat().st_size or sum(1 for _ in folder.iterdir()) - 1  # without the one that lists them


def apply_file_limit(log: Log) -> int:
    """Set the limit on open files for this process and its workers. Returns how many connections a worker may hold.

    Without this a worker accepts until the system refuses it a file, and then it is busy with nothing but refusals.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    with suppress(ValueError, OSError):  # a filter of system calls may forbid it
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    connections = connections_within(files)
    if connections < _FEW_CONNECTIONS:
        event = "the limit on open files bounds the connections of a worker"
        log.event("warning", event, files=files, connections=connections)
    return connections


def connections_within(files: int) -> int:
    """How many connections a process holds that may open so many files."""
    return max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, files - _OTHER_FILES))


def open_file_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class MemoryLimit(NamedTuple):
    """Of a cgroup and those above it. `kills`: how many of its processes the kernel has killed for lack of memory."""

    limit: int | None = None  # bytes
    kills: int = 0


def own_memory_limit(process: str = "self", root: Path = Path("/")) -> MemoryLimit:
    """Of the cgroup of a process. Nothing where there are no cgroups, or where they cannot be read."""
    try:
        lines = (root / "proc" / process / "cgroup").read_text().splitlines()
    except OSError:
        return MemoryLimit()
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    mount, limits, events = root / "sys/fs/cgroup", "memory.max", "memory.events"
    if "memory" in paths:  # the first version of cgroups
        mount, limits, events = mount / "memory", "memory.limit_in_bytes", "memory.oom_control"
    own = mount / paths.get("memory", paths.get("", "/")).lstrip("/")
    # A container sees its own cgroup as the topmost one, perhaps under a path that only exists outside.
    folders = [each for each in (own, *own.parents) if each.is_relative_to(mount) and each.is_dir()]
    found = [int(text) for text in (_text(each / limits) for each in folders) if text.isdigit()]
    kills = re.search(r"^oom_kill (\d+)$", _text(folders[0] / events) if folders else "", re.MULTILINE)
    least = min(found, default=_UNLIMITED)
    return MemoryLimit(None if least >= _UNLIMITED else least, int(kills[1]) if kills else 0)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
