"""A token bucket per credential, exact across the workers of one machine.

Levels are whole billionths of a request and times whole nanoseconds, so that `rate` requests a second
refill exactly `rate` billionths a nanosecond: nothing is rounded. The table is a file mapped by every
worker; the file's lock is the kernel's, which releases it when a worker is killed.
"""

import ctypes
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from relaydeck.shared_memory import map_cells

# Called without releasing the interpreter lock: the file's lock is held for a microsecond, while handing the
# interpreter to another thread and waiting to get it back takes longer than that.
_flock = ctypes.PyDLL(None).flock
_EXCLUSIVE, _UNLOCK = fcntl.LOCK_EX, fcntl.LOCK_UN

_ONE = 1_000_000_000
_CELLS_PER_SLOT = 2  # time of the last change, level
_SLOTS_PER_STEP = 4096
_SHARED = 0  # the cell that says whether several processes use the table; slots count from 1


# Whether the request is admitted, what remains, and the whole seconds until the bucket is full / holds one again.
LimitDecision = tuple[bool, int, int, int]


class RateLimiter:
    def __init__(
        self, path: Path, per_second: int, burst: int, nanoseconds: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._path = path
        self._rate = per_second
        self._full = burst * _ONE
        self._a_second = per_second * _ONE
        self._after_full = self._after(self._full)
        self._nanoseconds = nanoseconds
        self._cells = map_cells(path, _SLOTS_PER_STEP * _CELLS_PER_SLOT)
        self._size = len(self._cells)
        # Open files of this process's own: a lock belongs to the open file, not to the process tree.
        self._lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._users = os.open(path.with_suffix(".users"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._join()

    def _join(self) -> None:
        """Find out whether anyone shares the table, and tell them if so: alone, nobody needs the lock."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._cells[_SHARED] = 0
        except BlockingIOError:
            self._cells[_SHARED] = 1
        fcntl.flock(self._users, fcntl.LOCK_SH)  # held for as long as this process lives
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def take(self, slot: int) -> LimitDecision:
        """Take one request from a slot's bucket, if it holds one."""
        cell = slot * _CELLS_PER_SLOT
        if cell >= self._size:
            self._grow(slot)
        cells = self._cells
        if shared := cells[_SHARED]:
            _flock(self._lock, _EXCLUSIVE)
        try:
            now = self._nanoseconds()
            last = cells[cell]
            # Never used, or the machine's clock began anew since: full, as it is mostly.
            if last == 0 or now < last or (level := cells[cell + 1] + (now - last) * self._rate) >= self._full:
                level, decision = self._after_full
            else:
                level, decision = self._after(level)
            # The time first: a worker killed between the two stores can only make the bucket emptier.
            cells[cell] = now
            cells[cell + 1] = level
        finally:
            if shared:
                _flock(self._lock, _UNLOCK)
        return decision

    def _after(self, level: int) -> tuple[int, LimitDecision]:
        """What is left of a level when a request comes, and what is said of it."""
        if admitted := level >= _ONE:
            level -= _ONE
        to_full = -((level - self._full) // self._a_second)
        to_next = 0 if level >= _ONE else -((level - _ONE) // self._a_second)
        return level, (admitted, level // _ONE, to_full, to_next)

    def _grow(self, slot: int) -> None:
        steps = slot // _SLOTS_PER_STEP + 1
        self._cells = map_cells(self._path, steps * _SLOTS_PER_STEP * _CELLS_PER_SLOT)
        self._size = len(self._cells)
