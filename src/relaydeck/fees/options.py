"""Options of fee estimates. Times are seconds."""

from dataclasses import dataclass

from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.node_rule import UNGUARDED, NodeGuards


@dataclass(frozen=True)
class FeeOptions:
    priority_percentile: float = 50.0  # of the tips paid in a block, weighted by gas
    history_blocks: int = 10  # how many blocks the median is taken over
    cache_age: float = 1.0  # how long fee data and rates are shared, unless a newer block is seen
    max_skew: float = 60.0  # how far a feed's clock may be ahead of ours
    max_transaction_bytes: int = 131_072  # the most that nodes accept
    max_idle: float = 600.0  # a pool unused for this long is closed
    max_pools: int = 4_000  # kept at a time, unless more are in use; about 12 KB each
    deadline: float = PoolOptions.deadline
    try_timeout: float = PoolOptions.try_timeout
    pause_base: float = PoolOptions.pause_base
    pause_max: float = PoolOptions.pause_max
    connections_per_url: int = PoolOptions.connections_per_url
    max_response_bytes: int = PoolOptions.max_response_bytes
    max_batch: int = PoolOptions.max_batch
    guards: NodeGuards = UNGUARDED  # of the addresses of nodes

    def pool(self) -> PoolOptions:
        return PoolOptions(
            deadline=self.deadline,
            try_timeout=self.try_timeout,
            pause_base=self.pause_base,
            pause_max=self.pause_max,
            connections_per_url=self.connections_per_url,
            max_response_bytes=self.max_response_bytes,
            max_batch=self.max_batch,
        )
