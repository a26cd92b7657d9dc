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
from functools import cached_property, lru_cache
from pathlib import Path

from relaydeck.process.shared_memory import map_cells

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


def after_request(level: int, one: int, full: int, a_second: int) -> tuple[int, LimitDecision]:
    """The level of a bucket after a request, and the decision about the request.

    `one` is what a request takes, `full` the highest level, and `a_second` what a second adds.
    """
    if admitted := level >= one:
        level -= one
    to_next = 0 if level >= one else -((level - one) // a_second)
    return level, (admitted, level // one, -((level - full) // a_second), to_next)


class Allowance:
    """How many requests a credential may send."""

    def __init__(self, per_second: int, burst: int) -> None:
        self.rate, self.burst = per_second, burst
        full, a_second = burst * _ONE, per_second * _ONE
        self.bucket = per_second, full, a_second, after_request(full, _ONE, full, a_second)
        window = -(-burst // per_second)
        self.policy = (b"ratelimit-policy", b'"default";q=%d;w=%d' % (burst, window))  # a header


allowance_of = lru_cache(maxsize=4096)(Allowance)


# sentence: 8-limited
class RateLimiter:
    def __init__(
        self, path: Path, per_second: int, burst: int, nanoseconds: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """`per_second` and `burst` are for credentials without an allowance of their own."""
        self._path = path
        self.common = Allowance(per_second, burst)
        self._nanoseconds = nanoseconds
        self._after_full = self.common.bucket[3][1]
        self._refill = -(-_ONE // per_second)  # nanoseconds until a full bucket is full again after one request
        self._left_full: dict[int, int] = {}  # slots whose last request found the bucket full: when that was
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

    def take(self, slot: int, own: Allowance | None = None) -> LimitDecision:
        """Take one request from a slot's bucket, if it holds one. Slots below 0 have a table of their own."""
        left = self._left_full.pop(slot, 0)
        is_common = own is None or own is self.common
        if left and is_common and not self._cells[_SHARED] and (now := self._nanoseconds()) - left >= self._refill:
            # The usual case in as few steps as possible: the bucket is full again, so that only the time changes.
            self._cells[slot * _CELLS_PER_SLOT] = self._left_full[slot] = now
            return self._after_full
        return self._take(slot, own or self.common)

    def _take(self, slot: int, allowance: Allowance) -> LimitDecision:
        cell = slot * _CELLS_PER_SLOT
        if not 0 <= cell < self._size:
            if slot < 0:
                return self._below_zero.take(-slot, allowance)
            self._grow(slot)
        cells = self._cells
        rate, full, a_second, after_full = allowance.bucket
        if shared := cells[_SHARED]:
            _flock(self._lock, _EXCLUSIVE)
        try:
            now = self._nanoseconds()
            last = cells[cell]
            # Unused so far, or the clock restarted with the machine: the bucket is full.
            if last == 0 or now < last or (level := cells[cell + 1] + (now - last) * rate) >= full:
                level, decision = after_full
                if allowance is self.common and not shared:
                    self._left_full[slot] = now
            else:
                level, decision = after_request(level, _ONE, full, a_second)
            # The time first: a worker killed between the two stores can only leave the bucket emptier.
            cells[cell] = now
            cells[cell + 1] = level
        finally:
            if shared:
                _flock(self._lock, _UNLOCK)
        return decision

    @cached_property
    def _below_zero(self) -> "RateLimiter":
        path = self._path.with_name(f"{self._path.name}-subjects")
        return RateLimiter(path, self.common.rate, self.common.burst, self._nanoseconds)

    def _grow(self, slot: int) -> None:
        steps = slot // _SLOTS_PER_STEP + 1
        self._cells = map_cells(self._path, steps * _SLOTS_PER_STEP * _CELLS_PER_SLOT)
        self._size = len(self._cells)
