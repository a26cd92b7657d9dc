"""The limit on open files of a process, and how many connections it leaves room for."""

import resource
from contextlib import suppress
from typing import NamedTuple

_MOST_CONNECTIONS = 16_384  # of a worker: idle ones must not lock out others
_FEWEST_CONNECTIONS = 64
_OTHER_FILES = 256  # databases, nodes, receivers, logs
_MOST_QUEUED = 4096
_SPARE = 64


class FileLimit(NamedTuple):
    files: int  # that the process may open
    connections: int  # that a worker may hold
    queued: int  # connections that wait in the kernel to be accepted
    kept_back: int  # files that the process may open only while it recovers


def choose_file_limit(hard: int, *, tls: bool) -> FileLimit:
    """How to divide the `hard` limit.

    The HTTP server does not count the connections that have not finished their TLS handshake, so they can take every
    file. It then accepts on and on without ending any of them. `ConnectionGuard` recovers from that, and needs a file
    for each connection in the queue to do it.
    """
    most = _MOST_CONNECTIONS + _OTHER_FILES + _MOST_QUEUED + _SPARE
    files = most if hard == resource.RLIM_INFINITY else min(hard, most)
    queued = min(_MOST_QUEUED, max(_SPARE, files // 4)) if tls else _MOST_QUEUED
    kept_back = queued + _SPARE if tls else 0
    return FileLimit(files - kept_back, connections_within(files - kept_back), queued, kept_back)


def connections_within(files: int) -> int:
    """How many connections a process holds that may open so many files."""
    return max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, files - _OTHER_FILES))


def set_open_files(files: int) -> None:
    """As far as the hard limit and a filter of system calls permit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    chosen = files if hard == resource.RLIM_INFINITY else min(files, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (chosen, hard))


def open_file_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
