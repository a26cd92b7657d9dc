"""A token bucket per credential, exact across the workers of one machine.

Levels are whole billionths of a request and times whole nanoseconds, so that `rate` requests a second
refill exactly `rate` billionths a nanosecond: nothing is rounded. The table is a file mapped by every
worker; the file's lock is the kernel's, which releases it when a worker is killed.
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from relaydeck.shared_memory import map_cells

_ONE = 1_000_000_000
_CELLS_PER_SLOT = 2  # time of the last change, level
_SLOTS_PER_STEP = 4096


class Verdict(NamedTuple):
    admitted: bool
    remaining: int
    seconds_to_full: int
    seconds_to_next: int


class RateLimiter:
    def __init__(
        self, path: Path, per_second: int, burst: int, nanoseconds: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._path = path
        self._rate = per_second
        self._full = burst * _ONE
        self._nanoseconds = nanoseconds
        self._cells = map_cells(path, _SLOTS_PER_STEP * _CELLS_PER_SLOT)
        # An open file of this process's own: the lock belongs to it, not to the process tree.
        self._lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def take(self, slot: int) -> Verdict:
        """Take one request from a slot's bucket, if it holds one."""
        cell = slot * _CELLS_PER_SLOT
        if cell >= len(self._cells):
            self._grow(slot)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            now = self._nanoseconds()
            level = self._level(cell, now)
            admitted = level >= _ONE
            if admitted:
                level -= _ONE
            # The time first: a worker killed between the two stores can only make the bucket emptier.
            self._cells[cell] = now
            self._cells[cell + 1] = level
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        return self._verdict(admitted, level)

    def _level(self, cell: int, now: int) -> int:
        last = self._cells[cell]
        # Never used, or the machine's clock began anew since: full.
        if last == 0 or now < last:
            return self._full
        level: int = self._cells[cell + 1] + (now - last) * self._rate
        return min(level, self._full)

    def _verdict(self, admitted: bool, level: int) -> Verdict:
        a_second = self._rate * _ONE
        to_full = -(-(self._full - level) // a_second)
        to_next = 0 if level >= _ONE else -(-(_ONE - level) // a_second)
        return Verdict(admitted, level // _ONE, to_full, to_next)

    def _grow(self, slot: int) -> None:
        steps = slot // _SLOTS_PER_STEP + 1
        self._cells = map_cells(self._path, steps * _SLOTS_PER_STEP * _CELLS_PER_SLOT)
