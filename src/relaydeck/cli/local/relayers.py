"""The state of relayers, on the home."""

import asyncio

from relaydeck.cli.backend import Json
from relaydeck.cli.local.balances import LocalBalances
from relaydeck.cli.local.estimates import estimate
from relaydeck.cli.local.store import existing_store, local_change
from relaydeck.cli.local.why import explain
from relaydeck.relayers import why
from relaydeck.relayers.relayer_changes import set_paused
from relaydeck.signers.signer_state import read_signer_state


class LocalRelayers(LocalBalances):
    def set_paused(self, relayer_id: str, *, paused: bool) -> bool:
        with local_change() as change:
            return set_paused(change, relayer_id, paused=paused)

    def explain(self, relayer_id: str) -> Json:
        with existing_store() as store:
            stored = why.read(store.database.read, store.vault, relayer_id)
            signer = read_signer_state(store.database.read, relayer_id)
        return asyncio.run(explain(stored, signer))

    def estimate(self, relayer_id: str, transaction: str, token: str) -> Json:
        return asyncio.run(estimate(relayer_id, transaction, token))
