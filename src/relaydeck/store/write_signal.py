"""Signals to every process on the machine that a write was committed. A check reads eight bytes.

A writer changes the cell after its commit and before it answers; a reader compares the cell with the value it saw
last. So a reader that finds the cell unchanged has seen every write that was acknowledged on this machine. The value
is random instead of a counter: no sequence of signals restores the value that a reader remembers.

Writes of tokens have a second cell: a request that shows no record must notice a revoked token at once, but need not
look at other writes.

A third cell says that secrets were removed, so that whichever process is there erases their copies.
"""

import secrets
from functools import partial
from pathlib import Path

from relaydeck.process.shared_memory import map_cells


class WriteSignal:
    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self._cells = map_cells(path, 3)
        # Called on every request, so there is no Python function in between.
        self.last = partial(self._cells.__getitem__, 0)
        self.last_of_tokens = partial(self._cells.__getitem__, 1)

    @property
    def erasing(self) -> bool:
        """Secrets were removed, and copies of them may still be outside the tables."""
        return self._cells[2] != 0

    @erasing.setter
    def erasing(self, still: bool) -> None:
        self._cells[2] = still

    def send(self, *, of_tokens: bool) -> None:
        if of_tokens:
            self._cells[1] = secrets.randbits(64)
        self._cells[0] = secrets.randbits(64)
