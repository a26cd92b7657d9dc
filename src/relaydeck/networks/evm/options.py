"""Options of a node pool. Times are seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolOptions:
    deadline: float = 5.0  # of one question, over all URLs
    try_timeout: float = 2.0  # of one URL, while another is left to try
    pause_base: float = 0.5  # the first pause of a URL that failed again after a probe
    pause_max: float = 30.0  # between probes of a URL that stays unreachable
    longest_wait: float = 3600.0  # that a node can request with Retry-After
    connections_per_url: int = 64
    max_response_bytes: int = 1 << 20
    max_batch: int = 16  # questions that every node is expected to take together
    largest_batch: int = 200  # that is tried; a node that refuses it gets smaller ones
