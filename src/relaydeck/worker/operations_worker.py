"""The process that serves what needs no credential on a port of its own: health, metrics and documentation."""

import asyncio
import os
import signal
import time

from relaydeck.credential import Credential
from relaydeck.errors import Unauthorized
from relaydeck.http.access_log import open_access_log
from relaydeck.http.body import BodyReader
from relaydeck.http.connection_guard import ConnectionGuard
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.pipeline import Pipeline, Route, Router
from relaydeck.log import Log
from relaydeck.settings.model import Settings
from relaydeck.store.open_store import open_served_store
from relaydeck.worker.health_routes import (
    UNREADABLE,
    HealthRoutes,
    Readiness,
    readiness_from_memory,
    store_readiness,
)

_CHECK_SECONDS = 1.0


class OperationsWorker:
    """The process behind RELAYDECK_OPERATIONS_ADDRESS. It serves nothing that needs a credential."""

    def __init__(self, service_pid: int, settings: Settings, log: Log, metrics: Metrics) -> None:
        self._service = service_pid
        self._metrics = metrics
        self._store = open_served_store(settings)
        self._access_log = open_access_log(settings, log, metrics)
        self._stale_seconds = settings.stale_seconds
        self._away_since: float | None = None
        router = Router(self._routes(settings))
        self.pipeline = Pipeline(
            exact_routes=router.exact,
            find_route=router.find,
            find_credential=_accept_none,
            bodies=BodyReader(settings.max_body_bytes, settings.body_timeout_seconds),
            access_log=self._access_log,
            log=log,
        )

        self._guard = ConnectionGuard(self.pipeline.busy, log, metrics, settings.write_timeout_seconds)
        self._watchdog = asyncio.create_task(self._end_with_the_service())

    def _routes(self, settings: Settings) -> dict[str, dict[str, Route]]:
        if settings.core == "on":
            return HealthRoutes(self._metrics, self._readiness).routes()
        from relaydeck.worker.open_routes import open_routes

        return open_routes(self._metrics, self._readiness, self._store, settings, serves_operations=False)

    async def _readiness(self) -> Readiness:
        """The readiness of the workers: they lost the database when this process did, and serve from memory."""
        if not self._metrics.a_worker_has_started:
            return Readiness(False, "starting: no worker serves requests yet")
        database = self._store.database
        found = await store_readiness(database)
        if found.text != UNREADABLE or not database.remote:
            self._away_since = None
            return found
        database.suspend()  # the next probe connects again: only this connection may have fallen silent
        database.resume()
        self._away_since = self._away_since or time.monotonic()
        return readiness_from_memory(time.monotonic() - self._away_since, self._stale_seconds)

    async def _end_with_the_service(self) -> None:
        """The parent of this worker is its own server, and the parent of that server is the service."""
        server = os.getppid()
        # No event announces the end of another process, so it is polled.
        while os.getppid() == server and _is_alive(self._service):  # noqa: ASYNC110
            await asyncio.sleep(_CHECK_SECONDS)
        # Stop the server while it is still the parent. Later its process id may belong to another process.
        os.kill(server if os.getppid() == server else os.getpid(), signal.SIGTERM)

    async def stop(self) -> None:
        self._watchdog.cancel()
        self._guard.close()
        self._access_log.flush()
        self._store.close()


def _accept_none(_authorization: bytes | None, _now: float) -> Credential:
    raise Unauthorized("no path of this port takes a credential")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:  # there is none, or its id belongs to another user's process by now
        return False
    return True
