"""The log on standard error: a line for each request and for each event that an operator should know about.

Lines are written by a thread, so that a slow reader of the log delays neither a response nor the process
that replaces workers. When the reader falls too far behind, or the disk is full, lines are dropped and counted instead
of filling the memory, and the next line that is written says how many. A field is a name, a number or a reason in our
own words: no body, header, token, URL or secret is ever logged.

While something that a worker needs is down, each attempt would log the same warning or error. A worker logs one line a
minute for each cause, with how often it occurred since the line before.
"""

import asyncio
import json
import os
import queue
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from relaydeck.timestamps import utc_with_milliseconds

LEVELS = ("debug", "info", "warning", "error")
_MAX_QUEUED_BYTES = 8 * 1024 * 1024
_CLOSE_SECONDS = 1
_REPEAT_SECONDS = 60
_MOST_CAUSES = 1000
_LIMITED = ("warning", "error")
_OCCURRENCES = ("request_id", "event_id")  # fields that name one
_REASONS = ("problem", "reason")  # a number in them may differ each time
_PROGRESS_SECONDS = 10

Field = str | int | float | bool | None
_Repeats = tuple[int, str, str, str, dict[str, Field]]  # how many since the last line; the latest, and its time


class Log:
    def __init__(self, *, as_json: bool, level: str = "info", descriptor: int = 2) -> None:
        self.as_json = as_json
        self._lowest = LEVELS.index(level)
        self._descriptor = descriptor
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._repeats: dict[str, _Repeats] = {}  # by cause, of those that had a line within a minute
        self._thread: threading.Thread | None = None
        self._forget_queue()
        self.dropped: Callable[[int], None] = lambda lines: None

    def _forget_queue(self) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._queued = 0
        self._overflowed = 0  # lines that found the queue full
        self._failed = 0  # lines that could not be written; only the thread changes it
        self._counted = self._noted = 0  # of both: told to `dropped`, and to the reader of the log

    def write_in_thread(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Write in a thread from now on. `loop`: of a worker, which repeats no warning within a minute.

        Threads do not survive a fork: a new process calls this again. What its parent has queued, its parent writes.
        """
        self._forget_queue()
        self._loop, self._loop_thread, self._repeats = loop, threading.get_ident(), {}
        self._thread = threading.Thread(target=self._write_queued, name="log", daemon=True)
        # Every signal is for the thread that waits for it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close(self) -> None:
        """Write the remaining lines, then write line by line again, unless the reader of the log is stuck."""
        for cause in list(self._repeats):
            self._tell_repeats(cause)
        self._loop = None
        if self._thread is not None and self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(timeout=_CLOSE_SECONDS)

    def logs(self, level: str) -> bool:
        return LEVELS.index(level) >= self._lowest

    def event(self, level: str, event: str, *, cause: str = "", **fields: Field) -> None:
        """`cause`: what tells repetitions of a warning from other ones; without it, the texts of the fields do."""
        if not self.logs(level):
            return
        if self._loop is not None and threading.get_ident() != self._loop_thread:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(partial(self.event, level, event, cause=cause, **fields))
        elif self._loop is not None and level in _LIMITED:
            self._write_once(f"{event} {cause or _cause(fields)}", level, event, fields)
        else:
            self.add(self._line(_now(), level, event, fields))

    def _write_once(self, cause: str, level: str, event: str, fields: dict[str, Field]) -> None:
        """Unless a line about this cause was written within a minute: then it is counted."""
        stamp, before = _now(), self._repeats.get(cause)
        if before is None and len(self._repeats) >= _MOST_CAUSES:
            self.add(self._line(stamp, level, event, fields))
            return
        if before is None and self._loop is not None:
            self._loop.call_later(_REPEAT_SECONDS, self._tell_repeats, cause)
            self.add(self._line(stamp, level, event, fields))
        self._repeats[cause] = (0 if before is None else before[0] + 1, stamp, level, event, fields)

    def _tell_repeats(self, cause: str) -> None:
        repeated, last, level, event, fields = self._repeats.pop(cause, (0, "", "", "", {}))
        if repeated:
            self._write_once(cause, level, event, {**fields, "repeated": repeated, "last": last})

    def _line(self, stamp: str, level: str, event: str, fields: dict[str, Field]) -> str:
        if self.as_json:
            return json.dumps({"time": stamp, "level": level, "event": event, **fields}) + "\n"
        shown = "".join(f" {name}={value}" for name, value in fields.items() if value not in (None, ""))
        return printable(f"{stamp} {level} {event}{shown}") + "\n"

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Log the beginning and the end of work that may take long, and how far it is every ten seconds."""
        began = logged = time.monotonic()
        done = 0
        self.event("info", f"{title}: begins", rows=total)

        def advance(rows: int) -> None:
            nonlocal done, logged
            done += rows
            if time.monotonic() > logged + _PROGRESS_SECONDS:
                logged = time.monotonic()
                self.event("info", f"{title}: goes on", rows=total, done=done)

        yield advance
        self.event("info", f"{title}: done", rows=total, seconds=round(time.monotonic() - began, 3))

    def add(self, text: str) -> None:
        """Log whole lines that are already formatted."""
        data = text.encode()
        if self._thread is None or not self._thread.is_alive():
            self._write(data)
            return
        if self._queued > _MAX_QUEUED_BYTES:
            self._overflowed += data.count(b"\n")
        else:
            self._queued += len(data)
            self._queue.put(data)
        lost = self._overflowed + self._failed
        if lost > self._counted:
            self.dropped(lost - self._counted)
            self._counted = lost

    def _write_queued(self) -> None:
        while (data := self._queue.get()) is not None:
            self._note_dropped()
            self._failed += self._write(data).count(b"\n")
            self._queued -= len(data)

    def _note_dropped(self) -> None:
        lost = self._overflowed + self._failed
        if lost > self._noted:
            line = self._line(_now(), "warning", "log lines were dropped", {"lines": lost - self._noted})
            if not self._write(line.encode()):
                self._noted = lost

    def _write(self, data: bytes) -> bytes:
        """Gives what could not be written: a log that cannot be written must not stop the service."""
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]
        return data


def _now() -> str:
    return utc_with_milliseconds(int(time.time() * 1000))


def _cause(fields: dict[str, Field]) -> str:
    """The same for each occurrence: without identifiers, and without the numbers in a reason."""
    texts = {name: value for name, value in fields.items() if isinstance(value, str) and name not in _OCCURRENCES}
    return " ".join(re.sub(r"\d+", "#", text) if name in _REASONS else text for name, text in texts.items())


def printable(text: str) -> str:
    """`text` with every control, format and surrogate character written as a Python escape such as \\x1b."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
