"""The state of relayers, on the home."""

import asyncio
import time

from relaydeck.admin.views import json_values
from relaydeck.cli.backend import Json
from relaydeck.cli.local.balances import LocalBalances
from relaydeck.cli.local.estimates import estimate, local_estimator
from relaydeck.cli.local.store import existing_store, local_change
from relaydeck.relayers import why
from relaydeck.relayers.relayer_changes import set_paused
from relaydeck.settings import read_settings
from relaydeck.signers.signer_state import SignerState, read_signer_state, with_signer


class LocalRelayers(LocalBalances):
    def set_paused(self, relayer_id: str, *, paused: bool) -> bool:
        with local_change() as change:
            return set_paused(change, relayer_id, paused=paused)

    def explain(self, relayer_id: str) -> Json:
        with existing_store() as store:
            stored = why.read(store.database.read, store.vault, relayer_id)
            signer = read_signer_state(store.database.read, relayer_id)
        return asyncio.run(_explain(stored, signer))

    def estimate(self, relayer_id: str, transaction: str, token: str) -> Json:
        return asyncio.run(estimate(relayer_id, transaction, token))


async def _explain(stored: why.StoredState, signer: SignerState) -> Json:
    settings = read_settings()
    interval, rounds = settings.monitor_interval_seconds, settings.monitor_rounds
    async with local_estimator() as estimator:
        explanation = await why.explain(stored, estimator.pool, interval=interval, rounds=rounds, now=time.time())
    return json_values(with_signer(explanation, signer))
