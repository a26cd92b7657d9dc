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
    RELAYER_BALANCE,
    RELAYER_RUNWAY,
    RELAYER_STATE,
    RELAYERS,
    SIGNERS_CHECKED,
    SIGNERS_FAILING,
    LookedUp,
    Metric,
)
from relaydeck.notifications.deliveries import DeliveryCounts, count_deliveries
from relaydeck.relayers.named_relayers import NamedRelayers, read_named
from relaydeck.relayers.relayer_counts import RelayerCounts, count_relayers
from relaydeck.signers.check_counts import CheckCounts, count_checks
from relaydeck.store.open_store import Store
from relaydeck.worker.readiness import READ_SECONDS

_BRIEF = 0.005  # seconds of the event loop's thread: counting is not limited
_LEAST_PAUSE = 20  # times what counting took: it uses at most a twentieth of the event loop's time


class StoredMetrics:
    """Counts in the database, but not soon after a count that took long: anyone may read the metrics at any rate."""

    def __init__(
        self,
        store: Store,
        named: Sequence[str],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._store, self._named = store, named
        self._monotonic, self._thread_time = monotonic, thread_time
        self._counted: LookedUp = {}
        self._valid_until = 0.0

    async def count(self) -> LookedUp:
        if self._monotonic() >= self._valid_until:
            before = self._thread_time()
            self._counted = await _counted(self._store, self._named)
            taken = self._thread_time() - before
            self._valid_until = self._monotonic() + (_LEAST_PAUSE * taken if taken > _BRIEF else 0.0)
        return self._counted


async def _counted(store: Store, named: Sequence[str]) -> LookedUp:
    """Empty while the store cannot be read: the scrape continues without them."""
    read = store.database.read
    try:
        async with asyncio.timeout(READ_SECONDS):
            deliveries = await store.database.run_in_reader(lambda: count_deliveries(read))
            checks = await store.database.run_in_reader(lambda: count_checks(read))
            relayers = await store.database.run_in_reader(lambda: count_relayers(read))
            single = await store.database.run_in_reader(lambda: read_named(read, named))
    except (StoreError, TimeoutError):
        return {}
    fleet = {**_delivery_metrics(deliveries), **_check_metrics(checks), **_relayer_metrics(relayers)}
    return {**fleet, **_named_metrics(single)} if named else fleet


def _relayer_metrics(found: RelayerCounts) -> LookedUp:
    return {RELAYERS: found.by_state, LOWEST_RUNWAY: _seconds_until(found.minimum_at)}


def _named_metrics(found: NamedRelayers) -> LookedUp:
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
