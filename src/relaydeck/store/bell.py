"""Tells every process of the machine that a write was committed, for the price of reading eight bytes.

A writer rings after its commit and before it answers; a reader compares what it sees with what it saw
last. The value is random rather than counted up: two writers that ring at once need no lock, and no
sequence of rings can bring back the value a reader remembers.
"""

import secrets
from functools import partial
from pathlib import Path

from relaydeck.shared_memory import map_cells


class Bell:
    def __init__(self, path: Path) -> None:
        self._cells = map_cells(path, 1)
        # What a reader compares: looked at on every request, so without a Python function in between.
        self.heard = partial(self._cells.__getitem__, 0)

    def ring(self) -> None:
        self._cells[0] = secrets.randbits(64)
