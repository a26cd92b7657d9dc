"""Paths that need no credential: health, metrics and documentation."""

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from relaydeck.api.description import Description
from relaydeck.errors import StoreError
from relaydeck.http import metrics as m
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import Figures, Metric
from relaydeck.http.pipeline import Call, Reply, Route
from relaydeck.networks.evm.node_figures import read_figures
from relaydeck.notifications.delivery_queries import DeliveryCounts, count_deliveries
from relaydeck.relayers.named_relayers import COUNT_LIMIT, RelayerCounts, count_relayers, read_named
from relaydeck.settings.model import Settings
from relaydeck.signers.check_results import CheckCounts, count_checks
from relaydeck.store.audit import count_records, created_in_a_day
from relaydeck.store.database import ReadRows
from relaydeck.store.open_store import Store
from relaydeck.worker.health_routes import READ_SECONDS, HealthRoutes, IsReady
from relaydeck.worker.reports import node_metrics

_EXPOSITION = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
_BRIEF = 0.005  # seconds: counting is not limited
_MOST_CREATORS = 50  # with a kind each
_LEAST_PAUSE = 20  # times what counting took: it takes at most a twentieth of the time
Gauges = tuple[CheckCounts, RelayerCounts, dict[Metric, dict[tuple[str, ...], int]]]


def home_metrics(settings: Settings) -> Figures:
    """Without those that cannot be read."""
    found: dict[Metric, int] = {}
    with suppress(OSError):
        found[m.DISK_FREE] = min(shutil.disk_usage(folder).free for folder in settings.data_folders or [settings.home])
        found[m.LAST_BACKUP] = 0
        found[m.LAST_BACKUP] = int(settings.last_backup_path.stat().st_mtime)
    return found


def open_routes(
    metrics: Metrics, readiness: IsReady, store: Store, settings: Settings, *, serves_operations: bool
) -> dict[str, dict[str, Route]]:
    """Routes that need no credential. `serves_operations`: whether those of the contract are on the same port."""
    stored = StoredMetrics(store, settings.metrics_relayers)
    health = HealthRoutes(metrics, readiness)

    async def show_metrics(call: Call) -> Reply:
        metrics.count(m.SCRAPES)
        readyz, counted = await asyncio.gather(health.readyz(call), stored.count())
        looked_up = {m.READY: int(readyz.status == 200), **home_metrics(settings), **counted}
        looked_up |= node_metrics(read_figures(settings.run_folder))
        return Reply(200, metrics.exposition(looked_up).encode(), _EXPOSITION)

    description = Description("api", serves_operations=serves_operations)
    answers = {"/metrics": show_metrics, "/openapi.json": description.openapi, "/docs": description.docs}
    return health.routes() | {path: {"GET": Route("operations", None, answer=each)} for path, each in answers.items()}


class StoredMetrics:
    """Counts in the database.

    Anyone may read the metrics, as often as they like. Therefore signers and relayers, of which there may be a million,
    are counted once for all requests that wait, and not again soon after a count that took long.
    """

    def __init__(
        self,
        store: Store,
        named: Sequence[str],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._store, self._named = store, named
        self._monotonic, self._timer = monotonic, timer
        self._counting: asyncio.Task[Gauges] | None = None
        self._valid_until = 0.0

    async def count(self) -> Figures:
        """What can be read in time: the scrape continues without the rest."""
        database, named = self._store.database, self._named
        found: dict[Metric, Any] = {}
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                if database.server_sql:  # first: a migration may lock the tables that the others count
                    found |= await database.run_in_reader(lambda: _server_metrics(database.read, database.server_sql))
                found |= _delivery_metrics(await database.run_in_reader(lambda: count_deliveries(database.read)))
                checks, relayers, growth = await asyncio.shield(self._gauges())
                found |= {**_check_metrics(checks), **growth, m.RELAYERS: relayers.by_state}
                found[m.LOWEST_RUNWAY] = _seconds_until(relayers.minimum_at)
                if named:
                    each = await database.run_in_reader(lambda: read_named(database.read, named))
                    found |= {m.RELAYER_BALANCE: each.balances, m.RELAYER_STATE: each.states}
                    found[m.RELAYER_RUNWAY] = _seconds_until(each.minimum_at)
        return found

    def _gauges(self) -> "asyncio.Task[Gauges]":
        """The count that is under way, or the last one, as long as it may be shown."""
        last = self._counting
        if last is None or (last.done() and (last.exception() or self._monotonic() >= self._valid_until)):
            last = self._counting = asyncio.ensure_future(self._count_gauges())
        return last

    async def _count_gauges(self) -> Gauges:
        found, taken = await self._store.database.run_in_reader(self._timed_gauges)
        self._valid_until = self._monotonic() + (_LEAST_PAUSE * taken if taken > _BRIEF else 0.0)
        return found

    def _timed_gauges(self) -> tuple[Gauges, float]:
        started, read = self._timer(), self._store.database.read
        found = count_checks(read), count_relayers(read), _count_growth(read)
        return found, self._timer() - started


def _count_growth(read: ReadRows) -> dict[Metric, dict[tuple[str, ...], int]]:
    kinds = count_records(read, COUNT_LIMIT)
    creators = created_in_a_day(read, time.time(), _MOST_CREATORS)
    return {
        m.RECORDS: {(kind,): row.records for kind, row in kinds.items()},
        m.RECORD_BYTES: {(kind,): row.stored for kind, row in kinds.items()},
        m.CREATED_RECORDS: {(row.actor, row.kind): row.records for row in creators},
        m.CREATED_BYTES: {(row.actor, row.kind): row.stored for row in creators},
    }


def _server_metrics(read: ReadRows, sql: str) -> Figures:
    asked_at = time.time()
    (server,) = read(sql, {})
    ahead = server.moment / 1000 - (asked_at + time.time()) / 2
    return {
        m.DATABASE_CONNECTIONS: server.used,
        m.DATABASE_CONNECTIONS_LIMIT: server.most,
        m.DATABASE_CLOCK_AHEAD: {(): f"{ahead:.3f}"},
        m.MIGRATING: int(server.migrating),
    }


def _seconds_until(moments: dict[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
    now = int(time.time())
    return {each: max(0, moment - now) for each, moment in moments.items()}


def _check_metrics(found: CheckCounts) -> dict[Metric, int]:
    waited = 0 if found.oldest is None else max(0, int(time.time()) - found.oldest)
    return {m.SIGNERS_CHECKED: found.checked, m.SIGNERS_FAILING: found.failing, m.OLDEST_SIGNER_CHECK: waited}


def _delivery_metrics(found: DeliveryCounts) -> dict[Metric, int]:
    waited = 0 if found.oldest_pending is None else max(0, int(time.time()) - found.oldest_pending)
    return {
        m.EVENTS: found.recorded,
        m.DELIVERIES_PENDING: found.pending,
        m.DELIVERIES_DEAD: found.dead,
        m.OLDEST_PENDING_DELIVERY: waited,
    }
