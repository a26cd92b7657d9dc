"""Tells every process of the machine that a write was committed, for the price of reading eight bytes.

A writer rings after its commit and before it answers; a reader compares what it sees with what it saw
last. The value is random rather than counted up: two writers that ring at once need no lock, and no
sequence of rings can bring back the value a reader remembers.

Credentials have a bell of their own beside the one that tells of every write: a request that shows no
record must know of a revoked token at once, and need not look at what else was written.
"""

import secrets
from functools import partial
from pathlib import Path

from relaydeck.shared_memory import map_cells


class WriteSignal:
    def __init__(self, path: Path) -> None:
        self._cells = map_cells(path, 2)
        # What a reader compares: looked at on every request, so without a Python function in between.
        self.last = partial(self._cells.__getitem__, 0)
        self.last_of_tokens = partial(self._cells.__getitem__, 1)

    def send(self, *, of_tokens: bool) -> None:
        if of_tokens:
            self._cells[1] = secrets.randbits(64)
        self._cells[0] = secrets.randbits(64)
