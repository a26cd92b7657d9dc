"""The metrics that are counted in the database when they are read."""

import asyncio
import time

from relaydeck.errors import StoreError
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
)
from relaydeck.notifications.deliveries import DeliveryCounts, count_deliveries
from relaydeck.relayers.relayer_counts import RelayerCounts, count_relayers
from relaydeck.signers.check_counts import CheckCounts, count_checks
from relaydeck.store.open_store import Store
from relaydeck.worker.readiness import READ_SECONDS


async def stored_metrics(store: Store) -> LookedUp:
    """Empty while the store cannot be read: the scrape continues without them."""
    read = store.database.read
    try:
        async with asyncio.timeout(READ_SECONDS):
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
