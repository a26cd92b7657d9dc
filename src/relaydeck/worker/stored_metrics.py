"""The metrics that are counted in the database when they are read."""

import asyncio
import time
from collections.abc import Callable, Sequence

from relaydeck.errors import StoreError
from relaydeck.http.metrics import (
    DELIVERIES_DEAD,
    DELIVERIES_PENDING,
    EVENTS,
    LOWEST_RUNWAY,
    OLDEST_PENDING_DELIVERY,
    OLDEST_SIGNER_CHECK,
    RECORDS,
    RELAYER_BALANCE,
    RELAYER_RUNWAY,
    RELAYER_STATE,
    RELAYERS,
    SIGNERS_CHECKED,
    SIGNERS_FAILING,
    Figures,
    Metric,
)
from relaydeck.notifications.deliveries import DeliveryCounts, count_deliveries
from relaydeck.relayers.named_relayers import NamedRelayers, read_named
from relaydeck.relayers.relayer_counts import COUNT_LIMIT, RelayerCounts, count_relayers
from relaydeck.signers.check_counts import CheckCounts, count_checks
from relaydeck.store.database import ReadRows
from relaydeck.store.open_store import Store
from relaydeck.worker.readiness import READ_SECONDS

_BRIEF = 0.005  # seconds: counting is not limited
_LEAST_PAUSE = 20  # times what counting took: it takes at most a twentieth of the time

Gauges = tuple[CheckCounts, RelayerCounts, dict[tuple[str, ...], int]]


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
        """Empty while the store cannot be read: the scrape continues without them."""
        database, named = self._store.database, self._named
        try:
            async with asyncio.timeout(READ_SECONDS):
                deliveries = await database.run_in_reader(lambda: count_deliveries(database.read))
                checks, relayers, records = await asyncio.shield(self._gauges())
                single = await database.run_in_reader(lambda: read_named(database.read, named))
        except (StoreError, TimeoutError):
            return {}
        fleet = {**_delivery_metrics(deliveries), **_check_metrics(checks), **_relayer_metrics(relayers)}
        fleet[RECORDS] = records
        return {**fleet, **_named_metrics(single)} if named else fleet

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
        found = count_checks(read), count_relayers(read), _count_records(read)
        return found, self._timer() - started


def _count_records(read: ReadRows) -> dict[tuple[str, ...], int]:
    (kinds,) = RECORDS.labels.values()
    counted = (f"SELECT count(*) AS n FROM (SELECT 1 FROM {kind} LIMIT {COUNT_LIMIT}) AS counted" for kind in kinds)
    return {(kind,): read(sql, {})[0].n for kind, sql in zip(kinds, counted, strict=True)}


def _relayer_metrics(found: RelayerCounts) -> Figures:
    return {RELAYERS: found.by_state, LOWEST_RUNWAY: _seconds_until(found.minimum_at)}


def _named_metrics(found: NamedRelayers) -> Figures:
    runways = _seconds_until(found.minimum_at)
    return {RELAYER_BALANCE: found.balances, RELAYER_RUNWAY: runways, RELAYER_STATE: found.states}


def _seconds_until(moments: dict[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
    now = int(time.time())
    return {each: max(0, moment - now) for each, moment in moments.items()}


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
