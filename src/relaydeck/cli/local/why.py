"""The explanation of a relayer's state, on the home: with the faults that the workers of a running service saw."""

import time

from relaydeck.admin.views import json_values
from relaydeck.cli.backend import Json
from relaydeck.cli.local.estimates import local_estimator
from relaydeck.networks.evm.figure_files import read_faults
from relaydeck.relayers import why
from relaydeck.settings import read_settings
from relaydeck.signers.signer_state import SignerState, with_signer


async def explain(stored: why.StoredState, signer: SignerState) -> Json:
    settings = read_settings()
    async with local_estimator() as estimator:
        explanation = await why.explain(
            stored,
            estimator.pool,
            interval=settings.monitor_interval_seconds,
            rounds=settings.monitor_rounds,
            now=time.time(),
            seen=read_faults(settings.run_folder),
        )
    return json_values(with_signer(explanation, signer))
