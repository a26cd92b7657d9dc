"""Drops clients that send requests and do not read the responses."""

import os
import socket
from contextlib import suppress
from pathlib import Path


def limit_unread(seconds: float) -> int:
    """Let the kernel end each connection whose client leaves a response unread for so long.

    The HTTP server has no such limit. Connections inherit the option from the listening sockets of this process,
    which the server opens itself. Returns the number of these sockets.
    """
    return sum(_limit(int(path.name), round(seconds * 1000)) for path in Path("/proc/self/fd").iterdir())


def _limit(descriptor: int, milliseconds: int) -> bool:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as found:
        if found.family != socket.AF_UNIX and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
            return True
    return False
