"""The state of relayers and fee estimates, on the home."""

import asyncio
import time

from relaydeck.admin.views import json_values
from relaydeck.app import fee_options
from relaydeck.cli.backend import Json
from relaydeck.cli.local.store import existing_store, local_change
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.report import report_estimate
from relaydeck.relayers import why
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.relayers.explanation import Explanation
from relaydeck.relayers.relayer_changes import set_paused
from relaydeck.settings import Settings, read_settings
from relaydeck.signers.signer_state import read_signer_state, with_signer


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
