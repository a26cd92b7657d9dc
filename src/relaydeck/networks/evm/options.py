"""The numbers the node pool works with. Times are seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolOptions:
    deadline: float = 5.0  # one question, over all URLs it is tried on
    try_timeout: float = 2.0  # one URL, while another is left to try
    pause_base: float = 0.5  # first pause of a URL that failed again after being probed
    pause_max: float = 30.0  # the probe interval of a URL that stays away
    connections_per_url: int = 64
    max_response_bytes: int = 1 << 20
    max_batch: int = 16
