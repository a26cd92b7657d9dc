"""Keeps room for new clients: closes connections that hold files or memory and do nothing for it.

The HTTP server stops accepting when it has as many connections as it may hold, whoever they belong to. Strangers could
fill it with connections that send nothing, and everybody else would wait until these time out.
"""

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable, Container
from contextlib import suppress
from functools import partial

from relaydeck.file_limit import connections_within, open_file_limit, set_open_files
from relaydeck.http import own_sockets
from relaydeck.http.clients import Peer
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import CONNECTIONS_CLOSED
from relaydeck.http.own_sockets import Connection
from relaydeck.log import Log
from relaydeck.process_figures import open_files

_LOOK_SECONDS = 0.05
_CALM_SECONDS = 0.2  # with few connections: each look interrupts the event loop
_CLOSE_LOOK_SECONDS = 1.0
_MOST_UNREAD = 128  # connections with a response that waits for its client
_UNREAD_MS = 500
_RECOVERY_SECONDS = 1.0
_LOG_SECONDS = 60.0
_CROWDED = "too many connections: those that were silent longest are closed"
_UNREAD = "too many clients do not read their responses: their connections are closed"
_EXHAUSTED = "no file can be opened: the connections that were silent longest are closed"


class ConnectionGuard:
    """`busy`: clients with a credential that wait for a response. They keep their connections."""

    def __init__(self, busy: Container[Peer], log: Log, count: Callable[[int], None], write_seconds: float) -> None:
        self._busy, self._log, self._count = busy, log, count
        self._loop = asyncio.get_running_loop()
        self._write_seconds = write_seconds
        self._files = open_file_limit()
        self._limit = connections_within(self._files)
        self._listening: dict[int, int] = {}
        self._logged: dict[str, float] = {}
        self._seen: set[int] = set()
        self._accepted_at = time.monotonic()
        self._looked_closely_at = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connections", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()

    def unaccepted_seconds(self) -> float:
        """For how long clients have been waiting while the server accepted none of them."""
        return time.monotonic() - self._accepted_at

    def _run(self) -> None:
        calm = False
        while not self._stopped.wait(_CALM_SECONDS if calm else _LOOK_SECONDS):
            calm = False
            if not self._listening:
                self._find_listening()
            elif _exhausted(next(iter(self._listening))):
                self._recover()
            else:
                calm = self._look()

    def _find_listening(self) -> None:
        self._listening = own_sockets.listening_sockets()
        own_sockets.limit_unread(self._listening, self._write_seconds)
        if self._listening:
            self._accepted_at = time.monotonic()

    def _look(self) -> bool:
        """True: there are few connections, and none waits."""
        now, waiting = time.monotonic(), own_sockets.queue_length(self._listening)
        if not waiting:
            self._accepted_at = now
        files = _count_files()
        crowded = self._is_crowded(files)
        calm = not crowded and not waiting and files <= _MOST_UNREAD
        if crowded or (not calm and now - self._looked_closely_at >= _CLOSE_LOOK_SECONDS):
            self._looked_closely_at = now
            self._look_closely(crowded=crowded)
        return calm

    def _is_crowded(self, files: int) -> bool:
        return files > self._limit * 3 // 4

    def _look_closely(self, *, crowded: bool) -> None:
        found = own_sockets.connections(self._listening.values())
        self._note_accepted(found)
        unread = sorted((each for each in found if each.unread_ms > _UNREAD_MS), key=_unread_longest_first)
        self._end(unread[: max(0, len(unread) - _MOST_UNREAD)], _UNREAD)
        if crowded:
            self._make_room(found, self._limit // 2, _CROWDED)

    def _note_accepted(self, found: list[Connection]) -> None:
        inodes = {each.inode for each in found}
        if not inodes <= self._seen:
            self._accepted_at = time.monotonic()
        self._seen = inodes

    def _make_room(self, found: list[Connection], most: int, event: str) -> None:
        """Close those that were silent longest, so that at most so many are left."""
        idle = sorted((each for each in found if each.peer not in self._busy), key=_silent_longest_first)
        self._end(idle[: max(0, len(found) - most)], event)

    def _recover(self) -> None:
        """End connections and let the server notice.

        Over TLS it notices only between two rounds of accepting, and it cannot end a round without files. So it is
        lent the files that were kept back, and its queue does not grow meanwhile.
        """
        with own_sockets.no_new_connections(self._listening):
            set_open_files(self._files * 2)
            found = own_sockets.connections(self._listening.values())
            self._make_room(found, len(found) // 2, _EXHAUSTED)
            deadline = time.monotonic() + _RECOVERY_SECONDS
            while time.monotonic() < deadline and self._is_crowded(_count_files()):
                time.sleep(0.005)
        set_open_files(self._files)

    def _end(self, chosen: list[Connection], event: str) -> None:
        if not chosen:
            return
        for each in chosen:
            own_sockets.reset(each)
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(partial(self._report, len(chosen), event))

    def _report(self, closed: int, event: str) -> None:
        self._count(closed)
        now = time.monotonic()
        if now - self._logged.get(event, -_LOG_SECONDS) >= _LOG_SECONDS:
            self._logged[event] = now
            self._log.event("warning", event, closed=closed, limit=self._limit)


def start_guard(busy: Container[Peer], log: Log, metrics: Metrics, write_seconds: float) -> ConnectionGuard:
    guard = ConnectionGuard(busy, log, lambda closed: metrics.count(CONNECTIONS_CLOSED, by=closed), write_seconds)
    guard.start()
    return guard


def _count_files() -> int:
    try:
        return open_files()
    except OSError:  # an older kernel needs a file to count them, and there is none
        return open_file_limit()


def _silent_longest_first(connection: Connection) -> int:
    return -connection.silent_ms


def _unread_longest_first(connection: Connection) -> int:
    return -connection.unread_ms


def _exhausted(any_socket: int) -> bool:
    """Whether the process can open no further file."""
    try:
        os.close(os.dup(any_socket))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False
