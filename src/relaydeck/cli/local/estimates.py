"""Fee estimates on the home, without a running service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from relaydeck.admin.views import json_values
from relaydeck.cli.backend import Json
from relaydeck.cli.local.store import existing_store
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.report import report_estimate
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.settings import read_settings
from relaydeck.worker.fee_settings import fee_options


@asynccontextmanager
async def local_estimator() -> AsyncIterator[Estimator]:
    """Also holds the connections to nodes."""
    estimator = Estimator(fee_options(read_settings()))
    try:
        yield estimator
    finally:
        await estimator.close()


async def estimate(relayer_id: str, transaction: str, token: str) -> Json:
    with existing_store() as store:
        relayer, network = RelayerDirectory(store.database, store.vault).read(relayer_id)
    async with local_estimator() as estimator:
        return json_values(await report_estimate(estimator, relayer, network, transaction, token))
