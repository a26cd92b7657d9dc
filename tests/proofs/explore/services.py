"""Runs of the services that work beside requests: the delivery of events, and a round of the monitor."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from tests.proofs.explore.boundary import boundary

_PENDING = "SELECT count(*) AS pending FROM deliveries WHERE state = 'pending'"
_STEPS = 7  # of a round, the last one for those that chance delays

Arm = Callable[[], AbstractContextManager[None]]


def _open_parts() -> tuple[Any, Any, Any, Any]:
    from relaydeck.log import Log
    from relaydeck.settings.model import read_settings
    from relaydeck.store.open_store import open_store
    from relaydeck.store.writer import Writer

    settings = read_settings()
    store = open_store(settings)
    return settings, store, Writer(store.database), Log(as_json=True)


async def run_delivery(arm: Arm, longest_wait: float) -> bool:
    """Attempt what is due, then let the next process take over. True when every event is delivered."""
    from relaydeck.notifications.dispatcher import Dispatcher

    settings, store, writer, log = _open_parts()
    pending = store.database.read(_PENDING)[0].pending  # less after a restart
    outcomes, ended = Counter[str](), asyncio.Event()

    def count_try(outcome: str) -> None:
        outcomes[outcome] += 1
        if outcomes["failed"] or outcomes["delivered"] == pending:
            ended.set()

    with arm():
        delivery = Dispatcher(store, writer, log, settings, clock_sql=store.database.clock_sql, count_try=count_try)
        running = asyncio.create_task(delivery.run())
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_wait):
                await ended.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await delivery.close()
    return bool(outcomes["delivered"] == pending)


async def run_monitor(arm: Arm, longest_wait: float) -> bool:
    """Check each relayer in a round that may meet a fault and in one that meets none; then leave."""
    from relaydeck.fees.estimator import Estimator
    from relaydeck.fees.model import fee_options
    from relaydeck.relayers.monitor import Monitor, MonitorGauges, monitor_options
    from relaydeck.store.audit import AuditLog

    settings, store, writer, log = _open_parts()
    results, estimator = Counter[str](), Estimator(fee_options(settings))

    def count_check(result: str) -> None:
        results[result] += 1

    parts = store, writer, AuditLog(store.vault), log, estimator.pool
    monitor = Monitor(*parts, monitor_options(settings), MonitorGauges(count_check, lambda _report: None))
    monitor.update_schedule(monitor.fetch_changes(store.database.read, 0, removed=False))
    with arm():
        await _run_round(monitor, settings.monitor_interval_seconds, longest_wait)
    await _run_round(monitor, settings.monitor_interval_seconds, longest_wait)
    with arm():
        await monitor.close()
    return results["ok"] > 0


async def _run_round(monitor: Any, interval: float, longest_wait: float) -> None:
    await _claim_all(monitor, longest_wait)
    for _ in range(_STEPS):
        boundary.offset += interval / _STEPS
        await _turn(monitor._loop)
        await monitor.checks.join()
    await monitor.recorder.write()


async def _claim_all(monitor: Any, longest_wait: float) -> None:
    """Until the leases of a process that died have expired."""
    with suppress(TimeoutError):
        async with asyncio.timeout(longest_wait):
            while len(monitor._leases.fences) < monitor.shards:
                await _turn(monitor._loop)
                await asyncio.sleep(0.05)


async def _turn(loop: Any) -> None:
    """As the loop runs it, without its pauses."""
    try:
        await loop._turn()
    except Exception as error:
        loop._log.event("error", loop._failure, problem=f"{type(error).__name__}: {error}")
        loop._reset()
