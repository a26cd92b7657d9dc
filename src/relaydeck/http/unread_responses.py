"""Drops clients that send requests and do not read the responses."""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path


def limit_unread(seconds: float) -> int:
    """Let the kernel end each connection whose client leaves a response unread for so long.

    The HTTP server has no such limit. Connections inherit the option from the listening sockets of this process,
    which the server opens itself. Returns the number of these sockets.
    """
    return sum(_limit(int(path.name), round(seconds * 1000)) for path in Path("/proc/self/fd").iterdir())


def _limit(descriptor: int, milliseconds: int) -> bool:
    with suppress(OSError):
        # Only sockets: a duplicate of a file would keep its flock if it stayed, and its closing would end the locks
        # that SQLite holds on the database file.
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            with socket.socket(fileno=os.dup(descriptor)) as found:
                return _limit_listening(found, milliseconds)
    return False


def _limit_listening(found: socket.socket, milliseconds: int) -> bool:
    if found.family == socket.AF_UNIX or not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return False
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return True
