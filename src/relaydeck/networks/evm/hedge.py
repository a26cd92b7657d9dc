"""A second request for a question that takes longer than usual, to another node. The first answer counts."""

_SHARE = 0.1  # of the calls: the most that hedging adds to the load of the nodes
_MOST_SAVED = 5.0
_SHORTEST = 0.01  # seconds; below this a second request costs more than it saves


class HedgeBudget:
    """Each call earns a tenth of a second request."""

    def __init__(self) -> None:
        self._earned = 0.0
        self.sent = 0

    def earn(self) -> None:
        if self._earned < _MOST_SAVED:
            self._earned += _SHARE

    def take(self) -> bool:
        if self._earned < 1.0:
            return False
        self._earned -= 1.0
        self.sent += 1
        return True


def hedge_delay(p95: float | None) -> float | None:
    """When a second request is due, in seconds after the first. None while the node's times are not known."""
    return None if p95 is None else max(p95, _SHORTEST)
