"""The log: one line for each request and each thing an operator should know, on standard error.

Lines are gathered and written by a thread, so that a slow reader of the log never slows an answer; when
it falls too far behind, lines are dropped and counted rather than memory filled. A field is always one
of ours (a name, a number, a reason in our words): no body, header, token, URL or secret is ever passed in.
"""

import asyncio
import json
import os
import queue
import threading
import time
from collections.abc import Callable

LEVELS = ("debug", "info", "warning", "error")
_GATHER_SECONDS = 0.05
_MOST_BEHIND_BYTES = 8 * 1024 * 1024

Field = str | int | float | bool | None


class Log:
    def __init__(self, *, as_json: bool, level: str = "info", descriptor: int = 2) -> None:
        self._as_json = as_json
        self._least = LEVELS.index(level)
        self._descriptor = descriptor
        self._lines: list[str] = []
        self._gathering: asyncio.AbstractEventLoop | None = None
        self._behind = 0
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._second = 0
        self._second_text = ""
        self.dropped: Callable[[int], None] = lambda lines: None

    def gather(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on lines are gathered on this loop and written by a thread."""
        self._gathering = loop
        self._thread = threading.Thread(target=self._write_queued, name="log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is left and go back to writing line by line."""
        self._flush()
        self._gathering = None
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout=2)
            self._thread = None

    @property
    def logs_requests(self) -> bool:
        return self._least <= 1

    def request(
        self, route: str, status: int, nanoseconds: int, request_id: str, token: str, client: str, reason: str
    ) -> None:
        """The one line of a request. `token` comes as a JSON string; the rest needs no escaping."""
        if self._as_json:
            told = f',"reason":"{reason}"' if reason else ""
            line = (
                f'{{"time":"{self._now()}","level":"info","event":"request","request_id":"{request_id}",'
                f'"route":"{route}","status":{status},"duration_us":{nanoseconds // 1000},"token":{token},'
                f'"client":"{client}"{told}}}\n'
            )
        else:
            told = f" reason={reason!r}" if reason else ""
            line = (
                f"{self._now()} info request {route} {status} {nanoseconds // 1000}us"
                f" token={token} client={client} id={request_id}{told}\n"
            )
        self._add(line)

    def event(self, level: str, event: str, **fields: Field) -> None:
        if LEVELS.index(level) < self._least:
            return
        if self._as_json:
            line = json.dumps({"time": self._now(), "level": level, "event": event, **fields})
        else:
            line = " ".join([self._now(), level, event, *(f"{name}={value}" for name, value in fields.items())])
        self._add(line + "\n")

    def _now(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{int((now - second) * 1000):03d}Z"

    def _add(self, line: str) -> None:
        if self._gathering is None:
            self._write(line.encode())
            return
        if not self._lines:
            self._gathering.call_later(_GATHER_SECONDS, self._flush)
        self._lines.append(line)

    def _flush(self) -> None:
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        if self._behind > _MOST_BEHIND_BYTES:
            self.dropped(len(lines))
            return
        data = "".join(lines).encode()
        self._behind += len(data)
        self._queue.put(data)

    def _write_queued(self) -> None:
        while (data := self._queue.get()) is not None:
            self._write(data)
            self._behind -= len(data)

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return  # a log that cannot be written must not stop the service
