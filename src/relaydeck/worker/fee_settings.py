"""Fee estimates in a worker: their options from the settings, and the first connection to the nodes."""

import asyncio
from contextlib import suppress

from relaydeck.errors import ServerFailure, StoreError
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.options import FeeOptions
from relaydeck.networks.node_rule import node_guards
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.settings import Settings


def fee_options(settings: Settings) -> FeeOptions:
    return FeeOptions(
        priority_percentile=settings.priority_fee_percentile,
        history_blocks=settings.priority_fee_blocks,
        deadline=settings.rpc_deadline_seconds,
        try_timeout=settings.rpc_try_timeout_seconds,
        pause_max=settings.rpc_probe_seconds,
        connections_per_url=settings.rpc_connections,
        guards=node_guards(settings.rpc_guard, settings.rpc_allow),
    )


async def warm_estimator(estimator: Estimator, directory: RelayerDirectory) -> None:
    """Only where there are relayers: a process without them never loads an HTTP client."""
    with suppress(StoreError, ServerFailure):  # the first estimate reads what it needs
        if networks := await directory.networks_in_use():
            await asyncio.gather(directory.preload(), estimator.warm(networks))
