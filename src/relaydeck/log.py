"""The log on standard error: a line for each request and for each event that an operator should know about.

Lines are collected and written by a thread, so that a slow reader of the log never delays a response. When the reader
falls too far behind, lines are dropped and counted instead of filling the memory. A field is a name, a number or a
reason in our own words: no body, header, token, URL or secret is ever logged.
"""

import asyncio
import json
import os
import queue
import threading
import time
from collections.abc import Callable

from relaydeck.printable import printable
from relaydeck.timestamps import utc_with_milliseconds

LEVELS = ("debug", "info", "warning", "error")
_BATCH_SECONDS = 0.05
_MAX_QUEUED_BYTES = 8 * 1024 * 1024

Field = str | int | float | bool | None


class Log:
    def __init__(self, *, as_json: bool, level: str = "info", descriptor: int = 2) -> None:
        self.as_json = as_json
        self._lowest = LEVELS.index(level)
        self._descriptor = descriptor
        self._lines: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queued = 0
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._millisecond = 0
        self._stamped = ""
        self.dropped: Callable[[int], None] = lambda lines: None

    def write_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        """Collect lines on this loop from now on, and write them in a thread."""
        self._loop = loop
        self._thread = threading.Thread(target=self._write_queued, name="log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the remaining lines, then write line by line again."""
        self._flush()
        self._loop = None
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout=2)
            self._thread = None

    def logs(self, level: str) -> bool:
        return LEVELS.index(level) >= self._lowest

    def event(self, level: str, event: str, **fields: Field) -> None:
        if not self.logs(level):
            return
        if self.as_json:
            line = json.dumps({"time": self.stamp(time.time()), "level": level, "event": event, **fields})
        else:
            shown = "".join(f" {name}={value}" for name, value in fields.items())
            line = printable(f"{self.stamp(time.time())} {level} {event}{shown}")
        self.add(line + "\n")

    def stamp(self, moment: float) -> str:
        millisecond = int(moment * 1000)
        if millisecond != self._millisecond:
            self._millisecond = millisecond
            self._stamped = utc_with_milliseconds(millisecond)
        return self._stamped

    def add(self, text: str) -> None:
        """Log whole lines that are already formatted."""
        if self._loop is None:
            self._write(text.encode())
            return
        if not self._lines:
            self._loop.call_later(_BATCH_SECONDS, self._flush)
        self._lines.append(text)

    def _flush(self) -> None:
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        if self._queued > _MAX_QUEUED_BYTES:
            self.dropped(len(lines))
            return
        data = "".join(lines).encode()
        self._queued += len(data)
        self._queue.put(data)

    def _write_queued(self) -> None:
        while (data := self._queue.get()) is not None:
            self._write(data)
            self._queued -= len(data)

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return  # a log that cannot be written must not stop the service
