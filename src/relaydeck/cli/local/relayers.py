"""The state of relayers and fee estimates, on the home."""

import asyncio
import time

from relaydeck.admin.views import json_values
from relaydeck.cli.backend import Json
from relaydeck.cli.local.store import existing_store, local_change
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.report import report_estimate
from relaydeck.quantities import parse_span
from relaydeck.relayers import why
from relaydeck.relayers.balance_history import choose_range, read_history
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.relayers.explanation import Explanation
from relaydeck.relayers.relayer_changes import set_paused
from relaydeck.relayers.runway_report import read_first, read_runway
from relaydeck.settings import Settings, read_settings
from relaydeck.signers.signer_state import read_signer_state, with_signer
from relaydeck.worker.fee_settings import fee_options


class LocalRelayers:
    def set_paused(self, relayer_id: str, *, paused: bool) -> bool:
        with local_change() as change:
            return set_paused(change, relayer_id, paused=paused)

    def explain(self, relayer_id: str) -> Json:
        settings = read_settings()
        with existing_store() as store:
            stored = why.read(store.database.read, store.vault, relayer_id)
            signer = read_signer_state(store.database.read, relayer_id)
        return json_values(with_signer(asyncio.run(_explanation(stored, settings)), signer))

    def estimate(self, relayer_id: str, transaction: str, token: str) -> Json:
        return asyncio.run(_estimate(relayer_id, transaction, token))

    def runway(self, relayer_id: str) -> Json:
        hours = read_settings().runway_warn_hours
        with existing_store() as store:
            return json_values(read_runway(store.database.read, relayer_id, warn_hours=hours, now=int(time.time())))

    def first_runways(self, count: int) -> list[Json]:
        hours = read_settings().runway_warn_hours
        with existing_store() as store:
            found = read_first(store.database.read, count, warn_hours=hours, now=int(time.time()))
        return [json_values(each) for each in found]

    def balances(self, relayer_id: str, seconds: int, step: str) -> Json:
        now = int(time.time())
        shown = choose_range(now - seconds, now, parse_span(step), now)
        with existing_store() as store:
            return json_values(read_history(store.database.read, relayer_id, shown))


async def _explanation(stored: why.StoredState, settings: Settings) -> Explanation:
    estimator = Estimator(fee_options(settings))
    interval, rounds = settings.monitor_interval_seconds, settings.monitor_rounds
    try:
        return await why.explain(stored, estimator.pool, interval=interval, rounds=rounds, now=time.time())
    finally:
        await estimator.close()


async def _estimate(relayer_id: str, transaction: str, token: str) -> Json:
    with existing_store() as store:
        relayer, network = RelayerDirectory(store.database, store.vault).read(relayer_id)
    estimator = Estimator(fee_options(read_settings()))
    try:
        return json_values(await report_estimate(estimator, relayer, network, transaction, token))
    finally:
        await estimator.close()
