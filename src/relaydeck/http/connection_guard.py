"""Keeps room for new clients: closes connections that hold files or memory and do nothing for it.

The HTTP server, granian, bounds the connections that it holds and the time of a client to send its headers. It has no
bound for a client that does not read, or reads a little at a time: with enough such connections, strangers would keep
everybody else out for as long as they like. So a thread looks at the sockets of this process, which it finds by their
numbers and never owns:

- when the connections take most of the room, the oldest are closed, except those with a request in progress that has a
  credential;
- of the connections whose client leaves a response unread for a second, only some are kept;
- the kernel closes a connection with a response of which its client reads nothing for the time of a write.

Granian does not count a connection before its TLS handshake is done. Many of them at once can take every file; then it
accepts on and on and ends none. Such a worker kills itself and is replaced. TLS that strangers can reach belongs behind
a proxy (SECURITY.md).
"""

import errno
import fcntl
import os
import signal
import socket
import struct
import termios
import threading
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import CONNECTIONS_CLOSED
from relaydeck.http.request import Peer
from relaydeck.log import Log
from relaydeck.process.figures import connections_within, open_file_limit, open_files

_LOOK_SECONDS = 0.1
_UNREAD_SECONDS = 1.0
_MOST_UNREAD = 128  # connections with a response that waits for its client
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_CROWDED = "too many connections: the oldest idle ones are closed"
_EXHAUSTED_SECONDS, _LOG_SECONDS = 5.0, 1.0
_EXHAUSTED = "no file can be opened: this worker ends and is replaced"
_UNREAD = "too many clients do not read their responses: their connections are closed"


class Connection(NamedTuple):
    descriptor: int
    inode: int
    peer: tuple[str, int]
    unread: int  # bytes that it was sent and its client has not received


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


def _own_sockets() -> Iterator[tuple[int, socket.socket]]:
    """The sockets of the Internet among the open files of this process, each with its number."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (twice as fast)
        with suppress(OSError), _borrow(int(name)) as each:
            if each.family in _INTERNET:
                yield int(name), each


def limit_unread(seconds: float) -> set[int]:
    """Let the kernel close each connection whose client reads nothing of a response for so long.

    Connections inherit the option of the listening socket. Returns the ports that this process listens on.
    """
    ports = set()
    for _, each in _own_sockets():
        if each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))
            ports.add(int(each.getsockname()[1]))
    return ports


def connections(ports: Container[int]) -> list[Connection]:
    """Those that clients opened to these ports."""
    found = []
    for descriptor, each in _own_sockets():
        with suppress(OSError):  # getpeername fails for a listening socket
            if each.getsockname()[1] in ports:
                (host, port, *_), inode = each.getpeername(), os.fstat(descriptor).st_ino
                found.append(Connection(descriptor, inode, (host, port), _unsent_bytes(descriptor)))
    return found


def _unsent_bytes(descriptor: int) -> int:
    """That the client has not received. See tcp(7): for a socket, TIOCOUTQ is SIOCOUTQ."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), "little")


def reset(connection: Connection) -> None:
    """End a connection. Its owner notices and closes it; what was not sent is dropped."""
    with suppress(OSError), _borrow(connection.descriptor) as each:
        if each.getpeername()[:2] == connection.peer:  # the number may belong to another connection by now
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.shutdown(socket.SHUT_RDWR)


class ConnectionGuard:
    """`busy`: clients with a credential that wait for a response, as the server names them, with the port as text."""

    def __init__(self, busy: Container[Peer], log: Log, metrics: Metrics, write_seconds: float) -> None:
        self._busy, self._log, self._metrics, self._write_seconds = busy, log, metrics, write_seconds
        self._limit = connections_within(open_file_limit())
        self._ports: set[int] = set()
        self._known: dict[int, None] = {}  # inodes of the connections, oldest first
        self._unread: dict[int, tuple[float, int]] = {}  # by inode: since when nothing was read, and how much waited
        self._looked_at = 0.0
        self._exhausted_since: float | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connections", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            now = time.monotonic()
            try:
                os.close(os.open(os.devnull, os.O_RDONLY))  # as accepting a connection does, it takes a file
                if self._ports:
                    self._look(open_files(), now)
                else:
                    self._ports = limit_unread(self._write_seconds)
                self._exhausted_since = None
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    self._log.event("error", f"connections cannot be guarded: {error.strerror}")
                    continue
                self._exhausted_since = self._exhausted_since or now
                if now - self._exhausted_since >= _EXHAUSTED_SECONDS:
                    self._log.event("error", _EXHAUSTED)
                    time.sleep(_LOG_SECONDS)
                    os.kill(os.getpid(), signal.SIGKILL)  # the server does not stop in this state

    def _look(self, files: int, now: float) -> None:
        crowded = files > self._limit * 3 // 4
        if crowded or (files > _MOST_UNREAD and now - self._looked_at >= _UNREAD_SECONDS):
            self._looked_at = now
            found = self._oldest_first(connections(self._ports))
            self._end_unread(found, now)
            if crowded:
                idle = [each for each in found if (each.peer[0], str(each.peer[1])) not in self._busy]
                self._end(idle[: max(0, len(found) - self._limit // 2)], _CROWDED)

    def _oldest_first(self, found: list[Connection]) -> list[Connection]:
        by_inode = {each.inode: each for each in found}
        self._known = {inode: None for inode in self._known if inode in by_inode} | dict.fromkeys(by_inode)
        return [by_inode[inode] for inode in self._known]

    def _end_unread(self, found: list[Connection], now: float) -> None:
        """A client that reads is never the first to go: the longest without any progress is."""
        waiting = {each.inode: each for each in found if each.unread}
        self._unread = {inode: self._waiting_since(each, now) for inode, each in waiting.items()}
        late = sorted((since, inode) for inode, (since, _) in self._unread.items() if now - since >= _UNREAD_SECONDS)
        self._end([waiting[inode] for _, inode in late[: max(0, len(late) - _MOST_UNREAD)]], _UNREAD)

    def _waiting_since(self, connection: Connection, now: float) -> tuple[float, int]:
        since, before = self._unread.get(connection.inode, (now, connection.unread))
        return (now, connection.unread) if connection.unread < before else (since, connection.unread)

    def _end(self, chosen: list[Connection], event: str) -> None:
        if not chosen:
            return
        for each in chosen:
            reset(each)
        self._metrics.count(CONNECTIONS_CLOSED, by=len(chosen))  # no other thread counts these
        self._log.event("warning", event, closed=len(chosen), limit=self._limit)
