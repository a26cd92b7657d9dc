"""The sockets that the HTTP server has opened in this process: found by their numbers, never owned.

The HTTP server, granian, has no limits of its own on clients that do not read. The kernel applies them instead.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from relaydeck.file_limit import open_file_limit

# Places in the kernel's struct tcp_info. Of a listening socket, `unacked` is the length of its queue.
_UNACKED, _LAST_DATA_SENT, _LAST_DATA_RECEIVED, _NOT_SENT = 24, 44, 52, 144
_TCP_INFO_BYTES = 192
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_DROP_EVERYTHING = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF: return 0
_INTERNET = (socket.AF_INET, socket.AF_INET6)


class Connection(NamedTuple):
    descriptor: int
    inode: int
    peer: tuple[str, int]
    silent_ms: int  # since the client sent something last
    unread_ms: int  # since something was sent last, while a response waits to be sent; else 0


@contextmanager
def _borrow(descriptor: int) -> Iterator[socket.socket]:
    """The socket with this number, which stays open. Raises OSError if it is something else.

    It is not duplicated: a duplicate needs another file, and closing one of a database file ends the locks of SQLite.
    """
    borrowed = socket.socket(fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()


def descriptors() -> Iterable[int]:
    """Of all open files; where no file can be opened to list them, every number that one can have."""
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 (twice as fast)
    except OSError:
        return range(open_file_limit())


def listening_sockets() -> dict[int, int]:
    """The listening TCP sockets of this process, each with its port."""
    found = {}
    for descriptor in descriptors():
        with suppress(OSError), _borrow(descriptor) as each:
            if each.family in _INTERNET and each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found[descriptor] = int(each.getsockname()[1])
    return found


def limit_unread(listening: Iterable[int], seconds: float) -> None:
    """Let the kernel end each connection with a response that its client leaves unread for so long.

    Connections inherit the option of the listening socket.
    """
    for descriptor in listening:
        with _borrow(descriptor) as each:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))


def queue_length(listening: Iterable[int]) -> int:
    """How many connections wait to be accepted."""
    total = 0
    for descriptor in listening:
        with suppress(OSError), _borrow(descriptor) as each:
            total += _number(_tcp_info(each), _UNACKED)
    return total


def connections(ports: Iterable[int]) -> list[Connection]:
    """Those that clients opened to these ports."""
    wanted, found = set(ports), []
    for descriptor in descriptors():
        with suppress(OSError), _borrow(descriptor) as each:
            if each.family in _INTERNET and each.getsockname()[1] in wanted:
                found.append(_connection(descriptor, each))  # getpeername fails for a listening socket
    return found


def _connection(descriptor: int, each: socket.socket) -> Connection:
    peer, info, inode = each.getpeername(), _tcp_info(each), os.fstat(descriptor).st_ino
    unread = _number(info, _LAST_DATA_SENT) if _number(info, _NOT_SENT) else 0
    return Connection(descriptor, inode, (peer[0], peer[1]), _number(info, _LAST_DATA_RECEIVED), unread)


def _tcp_info(each: socket.socket) -> bytes:
    return each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES).ljust(_TCP_INFO_BYTES, b"\0")


def _number(info: bytes, place: int) -> int:
    return int.from_bytes(info[place : place + 4], "little")


def reset(connection: Connection) -> None:
    """End a connection. Its owner notices and closes it; what was not sent is dropped."""
    with suppress(OSError), _borrow(connection.descriptor) as each:
        if each.getpeername()[:2] == connection.peer:  # the number may belong to another connection by now
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def no_new_connections(listening: Iterable[int]) -> Iterator[None]:
    """Drop what arrives for the listening sockets. Clients repeat it, so that none is refused."""
    chosen = list(listening)
    program = struct.pack("HP", 1, ctypes.addressof(_DROP_EVERYTHING))
    _set_option(chosen, _SO_ATTACH_FILTER, program)
    try:
        yield
    finally:
        _set_option(chosen, _SO_DETACH_FILTER, struct.pack("i", 0))


def _set_option(listening: Iterable[int], option: int, value: bytes) -> None:
    for descriptor in listening:
        with suppress(OSError), _borrow(descriptor) as each:
            each.setsockopt(socket.SOL_SOCKET, option, value)
