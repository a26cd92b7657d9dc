"""The clock of the database, for times that several machines compare: their own clocks may differ.

The database is read now and then; in between, the monotonic clock of this process continues its time.
"""

import time
from collections.abc import Callable


class DatabaseClock:
    def __init__(
        self, sql: str, now: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`sql` reads the clock, in milliseconds. Empty: the database is on this machine, and the clock is `now`."""
        self.column = f"{sql or 'NULL'} AS moment"  # to be selected with a query, for `set`
        self._now = now
        self._monotonic = monotonic
        self._ahead: float | None = None  # of the monotonic clock

    def set(self, moment: int | None) -> None:
        if moment is not None:
            self._ahead = moment / 1000 - self._monotonic()

    def __call__(self) -> float:
        """Now, in seconds."""
        return self._now() if self._ahead is None else self._ahead + self._monotonic()
