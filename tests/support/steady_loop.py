"""An event loop on which a stall of the machine expires no timeout.

Clients and servers of most tests share one event loop. When the machine stops that process for seconds, no peer was
slow, but every timeout that is shorter than the stall expires. This loop's clock leaves a stall out: a turn of the loop
counts for what the loop meant to wait and a moment more, however long it took.
"""

import asyncio
import selectors
import time

_LONGEST_TURN = 0.005  # seconds that a turn counts for at most, besides what it waits in vain


class _TurnCounter(selectors.DefaultSelector):
    """Counts the time of the loop's turns; a turn ends with a selection."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = self._turned = time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout)
        turned = time.monotonic()
        in_vain = timeout if timeout and not ready else 0.0
        self.counted += min(turned - self._turned, in_vain + _LONGEST_TURN)
        self._turned = turned
        return ready


class SteadyLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._turns = _TurnCounter()
        super().__init__(self._turns)

    def time(self) -> float:
        return self._turns.counted

    def skip(self, seconds: float) -> None:
        """Let this time pass at once: what is due by then runs in the next turn."""
        self._turns.counted += seconds


def skip(seconds: float) -> None:
    """Let time pass on the running test's event loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteadyLoop)
    loop.skip(seconds)
