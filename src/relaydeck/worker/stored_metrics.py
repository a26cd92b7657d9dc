"""The metrics that are counted in the database when they are read."""

import asyncio
import time
from collections.abc import Sequence

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


async def stored_metrics(store: Store, named: Sequence[str]) -> LookedUp:
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
