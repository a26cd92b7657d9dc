"""The log on standard error: a line for each request and for each event that an operator should know about.

Lines are collected and written by a thread, so that a slow reader of the log delays neither a response nor the process
that replaces workers. When the reader falls too far behind, or the disk is full, lines are dropped and counted instead
of filling the memory, and the next line that is written says how many. A field is a name, a number or a reason in our
own words: no body, header, token, URL or secret is ever logged.
"""

import asyncio
import json
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from relaydeck.printable import printable
from relaydeck.timestamps import utc_with_milliseconds

LEVELS = ("debug", "info", "warning", "error")
_BATCH_SECONDS = 0.05
_MAX_QUEUED_BYTES = 8 * 1024 * 1024
_CLOSE_SECONDS = 1

Field = str | int | float | bool | None


class Log:
    def __init__(self, *, as_json: bool, level: str = "info", descriptor: int = 2) -> None:
        self.as_json = as_json
        self._lowest = LEVELS.index(level)
        self._descriptor = descriptor
        self._lines: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._forget_queue()
        self._millisecond = 0
        self._stamped = ""
        self.dropped: Callable[[int], None] = lambda lines: None

    def _forget_queue(self) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._queued = 0
        self._overflowed = 0  # lines that found the queue full
        self._failed = 0  # lines that could not be written; only the thread changes it
        self._counted = self._noted = 0  # of both: told to `dropped`, and to the reader of the log

    def write_in_thread(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Write in a thread from now on, and collect the lines of each moment if there is a loop.

        Threads do not survive a fork: a new process calls this again. What its parent has queued, its parent writes.
        """
        self._forget_queue()
        self._loop = loop
        self._thread = threading.Thread(target=self._write_queued, name="log", daemon=True)
        # Every signal is for the thread that waits for it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close(self) -> None:
        """Write the remaining lines, then write line by line again, unless the reader of the log is stuck."""
        self._flush()
        self._loop = None
        if self._thread is not None and self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(timeout=_CLOSE_SECONDS)

    def logs(self, level: str) -> bool:
        return LEVELS.index(level) >= self._lowest

    def event(self, level: str, event: str, **fields: Field) -> None:
        if self.logs(level):
            self.add(self._line(self.stamp(time.time()), level, event, fields))

    def _line(self, stamp: str, level: str, event: str, fields: dict[str, Field]) -> str:
        if self.as_json:
            return json.dumps({"time": stamp, "level": level, "event": event, **fields}) + "\n"
        shown = "".join(f" {name}={value}" for name, value in fields.items())
        return printable(f"{stamp} {level} {event}{shown}") + "\n"

    def stamp(self, moment: float) -> str:
        millisecond = int(moment * 1000)
        if millisecond != self._millisecond:
            self._millisecond = millisecond
            self._stamped = utc_with_milliseconds(millisecond)
        return self._stamped

    def add(self, text: str) -> None:
        """Log whole lines that are already formatted."""
        if self._loop is None:
            self._add_at_once(text)
            return
        if not self._lines:
            self._loop.call_later(_BATCH_SECONDS, self._flush)
        self._lines.append(text)

    def _add_at_once(self, text: str) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._enqueue([text])
        else:
            self._write(text.encode())

    def _flush(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            self._enqueue(lines)

    def _enqueue(self, lines: list[str]) -> None:
        if self._queued > _MAX_QUEUED_BYTES:
            self._overflowed += len(lines)
        else:
            data = "".join(lines).encode()
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
            stamp = utc_with_milliseconds(int(time.time() * 1000))
            line = self._line(stamp, "warning", "log lines were dropped", {"lines": lost - self._noted})
            if not self._write(line.encode()):
                self._noted = lost

    def _write(self, data: bytes) -> bytes:
        """Gives what could not be written: a log that cannot be written must not stop the service."""
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]
        return data
