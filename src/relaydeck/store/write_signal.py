"""Signals to every process on the machine that a write was committed. A check reads eight bytes.

A writer changes the cell after its commit and before it answers; a reader compares the cell with the value it saw
last. So a reader that finds the cell unchanged has seen every write that was acknowledged on this machine. The value
is random instead of a counter: no sequence of signals restores the value that a reader remembers. A lock orders the
signals, so that a process that has its own write in memory knows whether it missed another one. Nobody waits long for
the lock: a process may be stopped while it holds it.

Writes of tokens have a second cell: a request that shows no record must notice a revoked token at once, but need not
look at other writes.
"""

import fcntl
import os
import secrets
import time
import weakref
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from relaydeck.process.shared_memory import map_cells

Cells = tuple[int, int]  # of all writes, and of writes of tokens
_UNKNOWN: Cells = (-1, -1)  # equals no value of the cells
_MOST_TRIES, _TRY_SECONDS = 20, 0.001


class Sent(NamedTuple):
    """What one signal replaced, and with what: no other signal came in between."""

    before: Cells
    after: Cells


class WriteSignal:
    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self._cells = map_cells(path, 2)
        self._lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._lock)
        # Called on every request, so there is no Python function in between.
        self.last = partial(self._cells.__getitem__, 0)
        self.last_of_tokens = partial(self._cells.__getitem__, 1)

    def send(self, *, of_tokens: bool, wait: bool = True) -> Sent:
        """`wait` for another signal to end, a few milliseconds at most. Otherwise the result may be unknown."""
        is_alone = self._take_lock(_MOST_TRIES if wait else 1)
        try:
            before = (self._cells[0], self._cells[1]) if is_alone else _UNKNOWN
            if of_tokens:
                self._cells[1] = secrets.randbits(64)
            self._cells[0] = secrets.randbits(64)
            return Sent(before, (self._cells[0], self._cells[1]))
        finally:
            if is_alone:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _take_lock(self, tries: int) -> bool:
        """False: another process has held it all the time. Many tries take many times longer than a signal."""
        for left in reversed(range(tries)):
            with suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            if left:
                time.sleep(_TRY_SECONDS)
        return False
