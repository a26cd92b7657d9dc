"""Every call that leaves the process passes here: it is counted, and one of them can be made to fail.

The wrappers are installed from outside, before Relaydeck is imported, so nothing in the service knows of them. They do
nothing until a process arms them.
"""

import builtins
import errno
import io
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

import psycopg

Result = TypeVar("Result")

KINDS = ("error", "crash", "hang", "silence", "lost", "clock")
CRASHED = 86  # the exit code of a process that a fault ended
_HANG_SECONDS = 0.02
_LONGER_THAN_ANY_BOUND = 60.0
_CLOCK_STEP = -7200.0
_FILE_CALLS = ("fsync", "link", "open", "unlink", "replace", "rename", "mkdir")
_STANDARD = (0, 1, 2)
_SOCKET_CALLS = ("connect", "send", "sendall", "sendmsg", "recv", "recv_into")


class Report(Protocol):
    """Tells the explorer of a step, and returns when it has looked at the database."""

    def __call__(self, step: str, **content: Any) -> None: ...


def _ignore(step: str, **content: Any) -> None:
    pass


class Fault(NamedTuple):
    """Call number `number` (from 1) fails in the way `kind`.

    error: the call does nothing and raises. lost: it takes effect and raises. crash: the process ends before it.
    hang: it returns late. silence: the peer never answers; a call without a peer, such as a sync, returns late.
    clock: the wall clock goes back two hours before it.
    """

    number: int
    kind: str


class _Boundary:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fault: Fault | None = None
        self._report: Report = _ignore
        self._armed = False
        self.calls: list[str] = []
        self.met = ""  # the call that failed
        self.offset = 0.0  # of the wall clock

    def arm(self, fault: Fault | None, report: "Report") -> None:
        self._fault, self._report, self._armed = fault, report, True

    def disarm(self) -> None:
        self._armed = False

    def pass_through(
        self,
        name: str,
        perform: Callable[[], Result],
        fail: Callable[[], BaseException],
        silence: Callable[["Report"], Result] | None = None,
    ) -> Result:
        """`silence` performs the call with a peer that never answers."""
        if not self._armed:
            return perform()
        with self._lock:
            self.calls.append(name)
            meets = self._fault is not None and not self.met and len(self.calls) == self._fault.number
            if meets:
                self.met = name
        return self._break(name, perform, fail, silence) if meets else perform()

    def _break(
        self,
        name: str,
        perform: Callable[[], Result],
        fail: Callable[[], BaseException],
        silence: Callable[["Report"], Result] | None,
    ) -> Result:
        assert self._fault is not None
        match self._fault.kind:
            case "crash":
                os._exit(CRASHED)
            case "clock":
                self.offset += _CLOCK_STEP
            case "silence" if silence is not None:
                return silence(self._report)
            case "hang" | "silence":
                self._report("hang", call=name)
                time.sleep(_HANG_SECONDS)
            case "lost":
                perform()
                raise fail()
            case _:
                raise fail()
        return perform()


boundary = _Boundary()


def install() -> None:
    """In a process of its own, before Relaydeck is imported."""
    _watch_clock()
    _watch_sqlite()
    _watch_psycopg()
    _watch_written_files()
    for name in _FILE_CALLS:
        setattr(os, name, _watched_file_call(name, getattr(os, name)))
    for name in _SOCKET_CALLS:
        setattr(socket.socket, name, _watched_socket_call(name, getattr(socket.socket, name)))
    resolve = socket.getaddrinfo

    def getaddrinfo(*given: Any, **named: Any) -> Any:
        return boundary.pass_through("dns", lambda: resolve(*given, **named), _unresolved, _never_resolved)

    socket.getaddrinfo = getaddrinfo


def _watch_clock() -> None:
    read = time.time
    time.time = lambda: read() + boundary.offset


class _WatchedConnection(sqlite3.Connection):
    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return boundary.pass_through(
            f"sql {_verb(sql)}", lambda: super(_WatchedConnection, self).execute(sql, *values), _disk_error
        )

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return boundary.pass_through(
            f"sql {_verb(sql)}", lambda: super(_WatchedConnection, self).executemany(sql, *values), _disk_error
        )


def _watch_sqlite() -> None:
    connect = sqlite3.connect

    def watched(*given: Any, **named: Any) -> sqlite3.Connection:
        return boundary.pass_through(
            "sql connect", lambda: connect(*given, factory=_WatchedConnection, **named), _disk_error
        )

    sqlite3.connect = watched  # type: ignore[assignment]


def _watch_psycopg() -> None:
    connect: Callable[..., Any] = psycopg.Connection.connect.__func__  # type: ignore[attr-defined]

    def watched_connect(cls: Any, *given: Any, **named: Any) -> Any:
        def silence(_report: Report) -> Any:
            return connect(cls, *given, **named, port=_silent_listener().getsockname()[1])

        return boundary.pass_through("sql connect", lambda: connect(cls, *given, **named), _server_gone, silence)

    psycopg.Connection.connect = classmethod(watched_connect)  # type: ignore[assignment]
    psycopg.connect = psycopg.Connection.connect
    _watch_statements()
    _watch_copies()
    _watch_streams()


def _pass_to_server(connection: Any, name: str, perform: Callable[[], Result]) -> Result:
    def broken() -> BaseException:
        connection.close()  # as the driver does when the server closes the connection
        return _server_gone()

    def silence(report: Report) -> Result:
        report("stop_backend", pid=connection.info.backend_pid)
        return perform()

    return boundary.pass_through(f"sql {name}", perform, broken, silence)


def _watch_statements() -> None:
    execute: Callable[..., Any] = psycopg.Connection.execute
    execute_many: Callable[..., Any] = psycopg.Cursor.executemany

    def watched_execute(self: Any, query: Any, *given: Any, **named: Any) -> Any:
        return _pass_to_server(self, _verb(query), lambda: execute(self, query, *given, **named))

    def watched_execute_many(self: Any, query: Any, *given: Any, **named: Any) -> Any:
        return _pass_to_server(self.connection, _verb(query), lambda: execute_many(self, query, *given, **named))

    psycopg.Connection.execute = watched_execute  # type: ignore[method-assign]
    psycopg.Cursor.executemany = watched_execute_many  # type: ignore[method-assign]


def _watch_copies() -> None:
    """A copy is two calls: the server accepts the statement, and later confirms the rows."""
    copy: Callable[..., Any] = psycopg.Cursor.copy
    finish: Callable[..., Any] = psycopg.Copy.finish

    @contextmanager
    def watched_copy(self: Any, *given: Any, **named: Any) -> Iterator[Any]:
        with ExitStack() as opened:
            yield _pass_to_server(self.connection, "copy", lambda: opened.enter_context(copy(self, *given, **named)))

    def watched_finish(self: Any, error: BaseException | None) -> Any:
        if error is not None:
            return finish(self, error)
        return _pass_to_server(self.connection, "end of copy", lambda: finish(self, error))

    psycopg.Cursor.copy = watched_copy  # type: ignore[method-assign]
    psycopg.Copy.finish = watched_finish  # type: ignore[assignment, method-assign]


def _watch_streams() -> None:
    """The cursor of a stream is declared, fetched from page by page, and closed."""
    declare: Callable[..., Any] = psycopg.ServerCursor.execute
    fetch: Callable[..., Any] = psycopg.ServerCursor.__next__
    close: Callable[..., Any] = psycopg.ServerCursor.close

    def watched_declare(self: Any, *given: Any, **named: Any) -> Any:
        return _pass_to_server(self.connection, "declare", lambda: declare(self, *given, **named))

    def watched_fetch(self: Any) -> Any:
        page = self._iter_rows
        if page is not None and not self._page_pos >= len(page) >= self.itersize:
            return fetch(self)  # the row is here
        return _pass_to_server(self.connection, "fetch", lambda: fetch(self))

    def watched_close(self: Any) -> None:
        if self.closed or self.connection.closed:
            close(self)
        else:
            _pass_to_server(self.connection, "close", lambda: close(self))

    psycopg.ServerCursor.execute = watched_declare  # type: ignore[method-assign]
    psycopg.ServerCursor.__next__ = watched_fetch  # type: ignore[method-assign]
    psycopg.ServerCursor.close = watched_close  # type: ignore[method-assign]


class _WatchedFile(io.FileIO):
    def write(self, data: Any) -> int:
        return boundary.pass_through("file write", lambda: super(_WatchedFile, self).write(data), _file_error)


def _watch_written_files() -> None:
    """The files that Python opens for writing; standard output and error are not among them."""
    plain_open: Callable[..., Any] = io.open

    def watched_open(
        file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, *given: Any, **named: Any
    ) -> Any:
        if not set(mode) & set("wax+") or file in _STANDARD:
            return plain_open(file, mode, buffering, encoding, *given, **named)
        return _open_watched(file, mode, encoding, *given, **named)

    io.open = builtins.open = watched_open


def _open_watched(
    file: Any,
    mode: str,
    encoding: str | None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    raw_mode = mode.replace("t", "").replace("b", "")
    if isinstance(file, int):  # a call opened it already
        raw = _WatchedFile(file, raw_mode, closefd, opener)
    else:
        raw = boundary.pass_through("file open", lambda: _WatchedFile(file, raw_mode, closefd, opener), _file_error)
    buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
    return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


def _watched_file_call(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def watched(*given: Any, **named: Any) -> Any:
        return boundary.pass_through(f"file {name}", lambda: call(*given, **named), _file_error)

    return watched


def _watched_socket_call(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def watched(self: socket.socket, *given: Any) -> Any:
        if self.family == socket.AF_UNIX:  # the event loop wakes itself by a pair of them
            return call(self, *given)

        def silence(_report: Report) -> Any:
            if name == "connect":
                return call(self, _silent_listener().getsockname())
            _disconnect(self)
            return call(self, *given)

        return boundary.pass_through(f"socket {name}", lambda: call(self, *given), ConnectionResetError, silence)

    return watched


@cache
def _silent_listener() -> socket.socket:
    """The kernel accepts connections to it; nobody reads them."""
    return socket.create_server(("127.0.0.1", 0))


_kept: list[socket.socket] = []  # open until the process ends


def _disconnect(connected: socket.socket) -> None:
    """Put another connection behind this one, the far end of which nobody reads or writes."""
    ours, theirs = socket.socketpair()
    ours.setblocking(connected.gettimeout() is None)
    os.dup2(ours.fileno(), connected.fileno())
    _kept.extend((ours, theirs))


def _verb(query: object) -> str:
    """`UPDATE clock …; COMMIT` is a commit: what counts is how a message ends."""
    sql = query.decode() if isinstance(query, bytes) else str(query)
    last = sql.rpartition("; ")[2].split()
    return last[0].lower() if last else "nothing"


def _disk_error() -> BaseException:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return error


def _server_gone() -> BaseException:
    return psycopg.OperationalError("server closed the connection unexpectedly")


def _file_error() -> BaseException:
    return OSError(errno.EIO, os.strerror(errno.EIO))


def _unresolved() -> BaseException:
    return socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def _never_resolved(_report: Report) -> Any:
    time.sleep(_LONGER_THAN_ANY_BOUND)
    raise _unresolved()
