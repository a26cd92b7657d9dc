"""A token bucket per credential, exact across the workers of one machine.

Levels are whole billionths of a request and times are whole nanoseconds, so a rate of N requests per second adds
exactly N billionths per nanosecond: nothing is rounded. The table is a file that every worker maps. A file lock guards
it, because the kernel releases that lock when a worker is killed. `shared_limits.py` has the same rule for several
machines.
"""

import ctypes
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from relaydeck.shared_memory import map_cells

# Called without releasing the interpreter lock: the file lock is held for a microsecond, and giving the interpreter
# to another thread and getting it back takes longer.
_flock = ctypes.PyDLL(None).flock
_EXCLUSIVE, _UNLOCK = fcntl.LOCK_EX, fcntl.LOCK_UN

_ONE = 1_000_000_000
_CELLS_PER_SLOT = 2  # time of the last change, level
_SLOTS_PER_STEP = 4096
_SHARED = 0  # this cell is 1 when several processes use the table; slots count from 1


# Whether the request is admitted, how many remain, and in how many seconds the bucket is full and holds one again.
LimitDecision = tuple[bool, int, int, int]


# sentence: 8-limited
class RateLimiter:
    def __init__(
        self, path: Path, per_second: int, burst: int, nanoseconds: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._path = path
        self._rate = per_second
        self._full = burst * _ONE
        self._a_second = per_second * _ONE
        self._after_full = self._after(self._full)
        self._refill = -(-_ONE // per_second)  # nanoseconds until a full bucket is full again after one request
        self._left_full: dict[int, int] = {}  # slots whose last request found the bucket full: when that was
        self._nanoseconds = nanoseconds
        self._cells = map_cells(path, _SLOTS_PER_STEP * _CELLS_PER_SLOT)
        self._size = len(self._cells)
        # Each process opens the files itself: a lock belongs to the open file, which a child process would share.
        self._lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._users = os.open(path.with_suffix(".users"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._join()

    def _join(self) -> None:
        """Record whether several processes share the table: a single one needs no lock."""
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
        cells = self._cells
        if not cells[_SHARED] and slot in self._left_full:
            # The usual case in as few steps as possible: the bucket is full again, so that only the time changes.
            if (now := self._nanoseconds()) - self._left_full[slot] >= self._refill:
                cells[slot * _CELLS_PER_SLOT] = self._left_full[slot] = now
                return self._after_full[1]
            del self._left_full[slot]
        return self._take(slot)

    def _take(self, slot: int) -> LimitDecision:
        cell = slot * _CELLS_PER_SLOT
        if cell >= self._size:
            self._grow(slot)
        cells = self._cells
        if shared := cells[_SHARED]:
            _flock(self._lock, _EXCLUSIVE)
        try:
            now = self._nanoseconds()
            last = cells[cell]
            # Unused so far, or the clock restarted with the machine: the bucket is full.
            if last == 0 or now < last or (level := cells[cell + 1] + (now - last) * self._rate) >= self._full:
                level, decision = self._after_full
                if not shared:
                    self._left_full[slot] = now
            else:
                level, decision = self._after(level)
            # The time first: a worker killed between the two stores can only leave the bucket emptier.
            cells[cell] = now
            cells[cell + 1] = level
        finally:
            if shared:
                _flock(self._lock, _UNLOCK)
        return decision

    def _after(self, level: int) -> tuple[int, LimitDecision]:
        """The level after a request, and the decision about the request."""
        if admitted := level >= _ONE:
            level -= _ONE
        to_full = -((level - self._full) // self._a_second)
        to_next = 0 if level >= _ONE else -((level - _ONE) // self._a_second)
        return level, (admitted, level // _ONE, to_full, to_next)

    def _grow(self, slot: int) -> None:
        steps = slot // _SLOTS_PER_STEP + 1
        self._cells = map_cells(self._path, steps * _SLOTS_PER_STEP * _CELLS_PER_SLOT)
        self._size = len(self._cells)
