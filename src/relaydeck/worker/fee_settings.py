"""The options of fee estimates, from the settings."""

from relaydeck.fees.options import FeeOptions
from relaydeck.settings import Settings


def fee_options(settings: Settings) -> FeeOptions:
    return FeeOptions(
        priority_percentile=settings.priority_fee_percentile,
        history_blocks=settings.priority_fee_blocks,
        deadline=settings.rpc_deadline_seconds,
        try_timeout=settings.rpc_try_timeout_seconds,
        pause_max=settings.rpc_probe_seconds,
        connections_per_url=settings.rpc_connections,
        allow=settings.rpc_allowed,
    )
