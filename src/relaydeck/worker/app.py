"""The ASGI application of a worker process, and the start and stop of the worker in it."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from relaydeck.errors import operator_words
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import LOG_LINES_DROPPED
from relaydeck.http.request import Handle, Receive, Scope, Send
from relaydeck.log import Log
from relaydeck.settings.model import Settings
from relaydeck.worker.housekeeping import calm_garbage_collection, return_freed_memory

_UNMASK_TURNS = 10


class ReplacedWorker(NamedTuple):
    """A worker that ended unexpectedly, and when, by the machine's clock."""

    name: str
    ended_at: float


class StartedWorker(Protocol):
    @property
    def pipeline(self) -> Handle: ...

    async def stop(self) -> None: ...


MakeWorker = Callable[[Settings, Log, Metrics], StartedWorker]


def worker_class(settings: Settings) -> MakeWorker:
    """Of the core alone, or of the whole service. The core loads nothing of the rest."""
    if settings.core == "on":
        from relaydeck.worker.core_worker import CoreWorker

        return CoreWorker
    from relaydeck.worker.worker import Worker

    return Worker


class Application:
    """The ASGI application. It makes its worker when the server's event loop has started."""

    def __init__(
        self,
        settings: Settings,
        metrics_path: Path,
        log: Log,
        make_worker: MakeWorker,
        replaced: ReplacedWorker | None = None,
    ) -> None:
        """`replaced`: the worker that this one replaces."""
        self._make_worker = make_worker
        self._settings = settings
        self._metrics_path = metrics_path
        self._log = log
        self._replaced = replaced

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http":
            return self._pipeline(scope, receive, send)
        return self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            worker = self._start()
        except Exception as error:
            # Logged in our own words. An unexpected error is logged by its type: its text may quote a setting.
            problem, remedy = operator_words(error)
            self._log.event("error", "cannot start", problem=problem, remedy=remedy)
            self._log.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            await send({"type": "lifespan.startup.failed", "message": "the worker cannot start"})
            return
        await send({"type": "lifespan.startup.complete"})
        # The server now stops its event loop and runs it again, and a signal in between would be lost. SIGTERM stays
        # blocked for more turns than the first run had left, so that the second run receives it.
        for _ in range(_UNMASK_TURNS):
            await asyncio.sleep(0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        self._report_replacement()
        await receive()
        await worker.stop()
        self._log.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _report_replacement(self) -> None:
        if self._replaced is not None:
            seconds = round(time.monotonic() - self._replaced.ended_at, 3)
            self._log.event(
                "info", "a worker was replaced and serves again", worker=self._replaced.name, seconds=seconds
            )

    def _start(self) -> StartedWorker:
        self._log.write_in_thread(asyncio.get_running_loop())
        metrics = Metrics(self._metrics_path)
        metrics.claim_row()
        self._log.dropped = lambda lines: metrics.count(LOG_LINES_DROPPED, by=lines)
        worker = self._make_worker(self._settings, self._log, metrics)
        calm_garbage_collection()
        return_freed_memory()
        self._pipeline = worker.pipeline
        return worker
