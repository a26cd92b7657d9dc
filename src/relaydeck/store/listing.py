"""The read model: the items of one resource in creation order, each encoded once.

Only sequence numbers are loaded at the start (eight bytes an item). An item is read and encoded when a
page first shows it, or by `warm` in the background, and kept until a write changes it. So a page costs
the same wherever it lies and however many items there are. `encode` is handed in: the store knows no
wire type.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from relaydeck.store.database import Database, Row


class Encoded(NamedTuple):
    item: bytes
    note: str = ""  # told to the reader beside the item: a sealed part that does not open, say


class Listing:
    def __init__(self, table: str, columns: str, encode: Callable[[Row], Encoded], database: Database) -> None:
        self.table = table
        self._columns = columns
        self._encode = encode
        self._database = database
        self._seqs = array("q")
        self._items: list[bytes | None] = []
        self._notes: dict[int, str] = {}

    @property
    def total(self) -> int:
        return len(self._seqs)

    def load(self) -> None:
        rows = self._database.read(f"SELECT seq FROM {self.table} ORDER BY seq")
        self._seqs = array("q", (row[0] for row in rows))
        self._items = [None] * len(self._seqs)
        self._notes.clear()

    def follow(self, seen: int, *, removed: bool) -> None:
        """Take up what was created, changed or removed after revision `seen`."""
        if removed:
            for (seq,) in self._database.read(
                "SELECT seq FROM removals WHERE revision > :seen AND resource = :table",
                {"seen": seen, "table": self.table},
            ):
                self._remove(seq)
        changed = self._database.read(
            # The plus: or the database would walk the whole table in seq order instead of using the revision's index.
            f"SELECT seq FROM {self.table} WHERE revision > :seen ORDER BY +seq",
            {"seen": seen},
        )
        for (seq,) in changed:
            self._forget(seq)

    def _remove(self, seq: int) -> None:
        position = bisect_left(self._seqs, seq)
        if position < len(self._seqs) and self._seqs[position] == seq:
            del self._seqs[position], self._items[position]
            self._notes.pop(seq, None)

    def _forget(self, seq: int) -> None:
        position = bisect_left(self._seqs, seq)
        if position == len(self._seqs):
            self._seqs.append(seq)
            self._items.append(None)
        elif self._seqs[position] == seq:
            self._items[position] = None
            self._notes.pop(seq, None)

    def has(self, start: int, stop: int) -> bool:
        """Whether every item from `start` up to `stop` is already encoded."""
        return None not in self._items[start:stop]

    def fill(self, start: int, stop: int) -> None:
        """Read and encode what `start` up to `stop` still misses."""
        stop = min(stop, len(self._seqs))
        if start >= stop or self.has(start, stop):
            return
        rows = self._database.read(
            f"SELECT seq, {self._columns} FROM {self.table} WHERE seq BETWEEN :first AND :last",
            {"first": self._seqs[start], "last": self._seqs[stop - 1]},
        )
        for row in rows:
            self._keep(bisect_left(self._seqs, row[0], start, stop), row[0], self._encode(row[1:]))

    def _keep(self, position: int, seq: int, encoded: Encoded) -> None:
        self._items[position] = encoded.item
        if encoded.note:
            self._notes[seq] = encoded.note

    def items(self, start: int, stop: int) -> list[bytes]:
        """The encoded items from `start` up to `stop`; they must be filled."""
        return [item for item in self._items[start:stop] if item is not None]

    def notes(self, start: int, stop: int) -> list[str]:
        if not self._notes:
            return []
        return [self._notes[seq] for seq in self._seqs[start:stop] if seq in self._notes]
