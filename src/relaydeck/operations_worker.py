"""Paths that need no credential: served by the workers, or by a process of their own on another port."""

import asyncio
import os
import signal
import time
from functools import partial

from relaydeck.contract.description import DescriptionRoutes
from relaydeck.contract.routes import Router
from relaydeck.errors import StoreError, Unauthorized
from relaydeck.http.access_log import AccessLog
from relaydeck.http.body import BodyReader
from relaydeck.http.clients import ClientAddress
from relaydeck.http.credential import Credential
from relaydeck.http.metrics import (
    DELIVERIES_DEAD,
    DELIVERIES_PENDING,
    EVENTS,
    LOWEST_RUNWAY,
    OLDEST_PENDING_DELIVERY,
    OLDEST_SIGNER_CHECK,
    RELAYERS,
    SIGNERS_CHECKED,
    SIGNERS_FAILING,
    LookedUp,
    Metric,
    Metrics,
)
from relaydeck.http.operations import IsReady, OperationsRoutes, Readiness
from relaydeck.http.pipeline import Pipeline, Route
from relaydeck.log import Log
from relaydeck.notifications.deliveries import DeliveryCounts, count_deliveries
from relaydeck.relayers.relayer_counts import RelayerCounts, count_relayers
from relaydeck.settings import Settings
from relaydeck.signers.check_counts import CheckCounts, count_checks
from relaydeck.store.open_store import Store, open_store

_CHECK_SECONDS = 1.0
_UNREADABLE = "the store cannot be read"
_READ_SECONDS = 2.0  # for a database that hangs: probes and scrapes have timeouts of their own


class OperationsWorker:
    """The process behind RELAYDECK_OPERATIONS_ADDRESS. It serves nothing that needs a credential."""

    def __init__(self, service_pid: int, settings: Settings, log: Log, metrics: Metrics) -> None:
        self._service = service_pid
        self._store = open_store(settings)
        self._access_log = open_access_log(settings, log, metrics)
        self._stale_seconds = settings.stale_seconds
        self._away_since: float | None = None
        router = Router(open_routes(metrics, self._readiness, self._store, serves_operations=False))
        self.pipeline = Pipeline(
            exact_routes=router.exact,
            find_route=router.find,
            catch_up=lambda: None,
            catch_up_with_tokens=lambda: None,
            reach=_at_once,
            find_credential=_accept_none,
            limiter=None,
            limit_policy=(b"", b""),
            bodies=BodyReader(settings.max_body_bytes, settings.body_timeout_seconds),
            access_log=self._access_log,
            log=log,
        )

        self._watchdog = asyncio.create_task(self._end_with_the_service())

    async def _readiness(self) -> Readiness:
        """The readiness of the workers: they lost the database when this process did, and serve from memory."""
        found = await store_readiness(self._store)
        if found.text != _UNREADABLE or not self._store.database.remote:
            self._away_since = None
            return found
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
        self._access_log.flush()
        self._store.close()


def _accept_none(_authorization: bytes | None, _now: float) -> Credential:
    raise Unauthorized("no path of this port takes a credential")


async def _at_once(_revision: int) -> None:
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # the process id belongs to another user's process by now
    return True


def open_routes(
    metrics: Metrics, readiness: IsReady, store: Store, *, serves_operations: bool
) -> dict[str, dict[str, Route]]:
    """Routes that need no credential. `serves_operations`: whether those of the contract are on the same port."""
    operations = OperationsRoutes(metrics, readiness, partial(stored_metrics, store))
    return operations.routes() | DescriptionRoutes(serves_operations=serves_operations).routes()


async def stored_metrics(store: Store) -> LookedUp:
    """Empty while the store cannot be read: the scrape continues without them."""
    read = store.database.read
    try:
        async with asyncio.timeout(_READ_SECONDS):
            deliveries = await store.database.run_in_reader(lambda: count_deliveries(read))
            checks = await store.database.run_in_reader(lambda: count_checks(read))
            relayers = await store.database.run_in_reader(lambda: count_relayers(read))
    except (StoreError, TimeoutError):
        return {}
    return {**_delivery_metrics(deliveries), **_check_metrics(checks), **_relayer_metrics(relayers)}


def _relayer_metrics(found: RelayerCounts) -> LookedUp:
    now = int(time.time())
    runways = {network: max(0, moment - now) for network, moment in found.minimum_at.items()}
    return {RELAYERS: found.by_state, LOWEST_RUNWAY: runways}


def _check_metrics(found: CheckCounts) -> dict[Metric, int]:
    waited = 0 if found.oldest is None else max(0, int(time.time()) - found.oldest)
    return {SIGNERS_CHECKED: found.checked, SIGNERS_FAILING: found.failing, OLDEST_SIGNER_CHECK: waited}


def _delivery_metrics(found: DeliveryCounts) -> dict[Metric, int]:
    waited = 0 if found.oldest_pending is None else max(0, int(time.time()) - found.oldest_pending)
    return {
        EVENTS: found.recorded,
        DELIVERIES_PENDING: found.pending,
        DELIVERIES_DEAD: found.dead,
        OLDEST_PENDING_DELIVERY: waited,
    }


async def store_readiness(store: Store) -> Readiness:
    try:
        async with asyncio.timeout(_READ_SECONDS):
            await store.database.run_in_reader(lambda: store.database.read("SELECT revision FROM clock", {}))
            problem = await store.database.run_in_reader(store.database.write_problem)
    except (StoreError, TimeoutError):
        return Readiness(False, _UNREADABLE)
    return Readiness(not problem, problem or "ready")


def readiness_from_memory(away_seconds: float, stale_seconds: float) -> Readiness:
    away = f"the database has been away for {away_seconds:.0f} seconds"
    if away_seconds > stale_seconds:
        return Readiness(False, away)
    return Readiness(True, f"ready, from memory: {away}")


def open_access_log(settings: Settings, log: Log, metrics: Metrics) -> AccessLog:
    return AccessLog(log, metrics, ClientAddress(settings.trusted_proxies), asyncio.get_running_loop())
