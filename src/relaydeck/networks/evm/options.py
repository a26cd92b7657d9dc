"""Options of a node pool. Times are seconds."""

from collections.abc import Iterable
from dataclasses import dataclass

from relaydeck.networks.chains import UNKNOWN, ChainFacts


@dataclass(frozen=True)
class PoolOptions:
    deadline: float = 5.0  # of one question, over all URLs
    try_timeout: float = 2.0  # of one URL, while another is left to try
    pause_base: float = 0.5  # the first pause of a URL that failed again after a probe
    pause_max: float = 30.0  # between probes of a URL that stays unreachable
    longest_wait: float = 3600.0  # that a node can request with Retry-After
    connections_per_url: int = 64
    max_response_bytes: int = 1 << 20


@dataclass(frozen=True)
class PoolRules:
    """What a network requires of its nodes' answers.

    Three blocks: public endpoints are often one or two behind.
    """

    max_lag_blocks: int = 3
    quorum: int | None = None  # nodes that must agree; None: by the size of the pool
    facts: ChainFacts = UNKNOWN


def usual_quorum(weights: Iterable[int]) -> int:
    """How many nodes with these weights must agree. A third can decide between two; of two, neither can."""
    every = list(weights)
    return 2 if (sum(map(bool, every)) or len(every)) > 2 else 1
