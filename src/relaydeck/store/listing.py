"""The read model: the items of one resource in creation order, each encoded once.

Only sequence numbers are loaded at the start (eight bytes an item). An item is read and encoded when a
page first shows it, or by `warm` in the background, and kept until a write changes it; from a database that
is a round trip away, all are loaded at the start. So a page costs the same wherever it lies and however many
items there are. `encode` is handed in: the store knows no wire type.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from relaydeck.store.database import Reader, Row, Values
from relaydeck.store.removals import removed_since

ReadRows = Callable[[str, Values], list[Row]]
_REMOVED_SINGLY = 100


class Encoded(NamedTuple):
    item: bytes
    note: str = ""  # told to the reader beside the item: a sealed part that does not open, say


class ListingChanges(NamedTuple):
    """What a listing has to take up: sequence numbers that went, and came or changed, with their items if whole."""

    removed: list[int]
    changed: list[tuple[int, Encoded | None]]


def _nothing_yet(_row: Row) -> None:
    """An item that is read when a page first shows it."""


class Listing:
    """`whole`: every item is in memory from the start, so that none is ever read for an answer."""

    def __init__(
        self, table: str, columns: str, encode: Callable[[Row], Encoded], reader: Reader, *, whole: bool = False
    ) -> None:
        self.table = table
        self._columns = columns
        self._encode = encode
        self._reader = reader
        self._whole = whole
        self._seqs = array("q")
        self._items: list[bytes | None] = []
        self._notes: dict[int, str] = {}

    @property
    def total(self) -> int:
        return len(self._seqs)

    def load(self, reader: Reader) -> None:
        self._seqs, self._items = array("q"), []
        self._notes.clear()
        if self._whole:
            for row in reader.stream(f"SELECT {self._columns}, seq FROM {self.table} ORDER BY seq"):
                self._keep(self._forget(row.seq), row.seq, self._encode(row))
            return
        self._seqs = array("q", reader.column(f"SELECT seq FROM {self.table} ORDER BY seq"))
        self._items = [None] * len(self._seqs)

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> ListingChanges:
        """What was created, changed or removed after revision `seen`."""
        gone = self._removed_since(read, seen) if removed else []
        columns = f"{self._columns}, seq" if self._whole else "seq"
        changed = read(
            # The plus: or the database would walk the whole table in seq order instead of using the revision's index.
            f"SELECT {columns} FROM {self.table} WHERE revision > :seen ORDER BY +seq",
            {"seen": seen},
        )
        encode = self._encode if self._whole else _nothing_yet
        return ListingChanges(gone, [(row.seq, encode(row)) for row in changed])

    def _removed_since(self, read: ReadRows, seen: int) -> list[int]:
        removed = removed_since(read, self.table, seen)
        if removed is not None:
            return removed
        # This process was away for so long that removals were pruned: all the rows tell which items are gone.
        present = {row.seq for row in read(f"SELECT seq FROM {self.table}", {})}
        return [seq for seq in self._seqs if seq not in present]

    def apply_changes(self, changes: ListingChanges) -> None:
        self._remove(changes.removed)
        if not self._whole and changes.changed and changes.changed[0][0] > (self._seqs[-1] if self._seqs else 0):
            self._append([seq for seq, _ in changes.changed])
            return
        for seq, encoded in changes.changed:
            position = self._forget(seq)
            if encoded is not None:
                self._keep(position, seq, encoded)

    def _append(self, seqs: list[int]) -> None:
        """What came is all new, as it mostly is: a thousand at once must not keep the event loop."""
        self._seqs.extend(seqs)
        self._items.extend([None] * len(seqs))

    def _remove(self, removed: list[int]) -> None:
        if len(removed) > _REMOVED_SINGLY:
            self._remove_many(set(removed))
            return
        for seq in removed:
            position = bisect_left(self._seqs, seq)
            if position < len(self._seqs) and self._seqs[position] == seq:
                del self._seqs[position], self._items[position]
                self._notes.pop(seq, None)

    def _remove_many(self, removed: set[int]) -> None:
        """In one pass: each single removal moves everything behind it."""
        kept = [at for at, seq in enumerate(self._seqs) if seq not in removed]
        self._seqs = array("q", [self._seqs[at] for at in kept])
        self._items = [self._items[at] for at in kept]
        self._notes = {seq: note for seq, note in self._notes.items() if seq not in removed}

    def _forget(self, seq: int) -> int:
        """The place of an item that came or changed, empty now."""
        position = bisect_left(self._seqs, seq)
        if position == len(self._seqs) or self._seqs[position] != seq:
            self._seqs.insert(position, seq)
            self._items.insert(position, None)
        else:
            self._items[position] = None
            self._notes.pop(seq, None)
        return position

    def has(self, start: int, stop: int) -> bool:
        """Whether every item from `start` up to `stop` is already encoded."""
        return None not in self._items[start:stop]

    def fill(self, start: int, stop: int) -> None:
        """Read and encode what `start` up to `stop` still misses."""
        stop = min(stop, len(self._seqs))
        if start >= stop or self.has(start, stop):
            return
        rows = self._reader.read(
            f"SELECT {self._columns}, seq FROM {self.table} WHERE seq BETWEEN :first AND :last",
            {"first": self._seqs[start], "last": self._seqs[stop - 1]},
        )
        for row in rows:
            self._keep(bisect_left(self._seqs, row.seq, start, stop), row.seq, self._encode(row))

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
