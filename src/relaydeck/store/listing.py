"""The read model: the items of one resource in creation order, each encoded once.

The start loads only the sequence numbers (eight bytes per item). An item is read and encoded when a page first shows
it, or in the background, and kept until a write changes it. From a remote database all items are loaded at the start.
So a page costs the same wherever it is and however many items there are. The caller supplies `encode`: the store
knows no wire format.
"""

import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

from relaydeck.store.database import SINCE_SEEN, Reader, ReadRows, Row, RowReader
from relaydeck.store.removals import removed_since
from relaydeck.store.row_sets import slices
from relaydeck.store.sequence_numbers import read_numbers

_REMOVED_SINGLY = 100
_CHANGED_SINGLY = 1000
_ENCODED_AT_ONCE = 200


class Encoded(NamedTuple):
    item: bytes
    note: str = ""  # for the client, beside the item: that a sealed value cannot be opened, for example


class ListingChanges(NamedTuple):
    """Sequence numbers of removed items, and of new or changed items; the latter with the items if `whole`."""

    removed: list[int]
    changed: list[tuple[int, Encoded | None]]


class ListingState(NamedTuple):
    """All items: their sequence numbers in order, what is encoded of each, and notes by sequence number."""

    seqs: "array[int]"
    items: list[bytes | None]
    notes: dict[int, str]


class Listing:
    """`whole`: every item is in memory from the start, so that no response has to read one.

    Changed only in the event loop, by `replace`, `apply_changes` and `fill`. `fetch_changes` only reads it, possibly in
    a thread: the sequence numbers cannot change meanwhile, because its result is applied before the next fetch.
    """

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

    def read_all(self, reader: RowReader) -> ListingState:
        if not self._whole:
            seqs = array("q", read_numbers(reader.read, self.table))
            return ListingState(seqs, [None] * len(seqs), {})
        state = ListingState(array("q"), [], {})
        for row in reader.stream(f"SELECT {self._columns}, seq FROM {self.table} ORDER BY seq"):
            encoded = self._encode(row)
            state.seqs.append(row.seq)
            state.items.append(encoded.item)
            if encoded.note:
                state.notes[row.seq] = encoded.note
        return state

    def replace(self, state: ListingState) -> None:
        self._seqs, self._items, self._notes = state

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> ListingChanges:
        """The items that were created, changed or removed after revision `seen`."""
        gone = self._removed_since(read, seen) if removed else []
        if not self._whole:
            numbers = read_numbers(read, self.table, SINCE_SEEN, {"seen": seen})
            return ListingChanges(gone, [(seq, None) for seq in numbers])
        # The plus makes the database use the revision's index instead of walking the whole table in order of seq.
        changed = f"FROM {self.table} WHERE {SINCE_SEEN} ORDER BY +seq"
        rows = read(f"SELECT {self._columns}, seq {changed}", {"seen": seen})
        encoded = [item for _, some in slices(rows, _ENCODED_AT_ONCE) for item in self._encoded(some)]
        return ListingChanges(gone, encoded)

    def _encoded(self, rows: Sequence[Row]) -> list[tuple[int, Encoded | None]]:
        """In a thread. Of many rows, it leaves half of the time to the event loop."""
        started = time.thread_time()
        encoded: list[tuple[int, Encoded | None]] = [(row.seq, self._encode(row)) for row in rows]
        if len(rows) == _ENCODED_AT_ONCE:
            time.sleep(time.thread_time() - started)
        return encoded

    def _removed_since(self, read: ReadRows, seen: int) -> list[int]:
        removed = removed_since(read, self.table, seen)
        if removed is not None:
            return removed
        # Removals that this process has not seen are pruned: compare with all rows instead.
        present = set(read_numbers(read, self.table))
        return [seq for seq in self._seqs if seq not in present]

    def apply_changes(self, changes: ListingChanges) -> None:
        self._remove(changes.removed)
        if changes.changed and changes.changed[0][0] > (self._seqs[-1] if self._seqs else 0):
            self._append(changes.changed)
            return
        if len(changes.changed) > _CHANGED_SINGLY:
            self._make_room([seq for seq, _ in changes.changed if not self._has_seq(seq)])
        for seq, encoded in changes.changed:
            position = self._clear(seq)
            if encoded is not None:
                self._keep(position, seq, encoded)

    def _append(self, changed: list[tuple[int, Encoded | None]]) -> None:
        """The usual case, all items are new: a hundred thousand at once must not block the event loop for long."""
        self._seqs.extend([seq for seq, _ in changed])
        self._items.extend([None if encoded is None else encoded.item for _, encoded in changed])
        self._notes |= {seq: encoded.note for seq, encoded in changed if encoded is not None and encoded.note}

    def _make_room(self, new: list[int]) -> None:
        """Insert many numbers at once, because each single insertion moves all the items after it."""
        if not new:
            return
        first = bisect_left(self._seqs, new[0])
        items = dict.fromkeys(new) | dict(zip(self._seqs[first:], self._items[first:], strict=True))
        ordered = sorted(items)
        self._seqs[first:] = array("q", ordered)
        self._items[first:] = [items[seq] for seq in ordered]

    def _has_seq(self, seq: int) -> bool:
        position = bisect_left(self._seqs, seq)
        return position < len(self._seqs) and self._seqs[position] == seq

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
        """In one pass, because each single removal moves all the items after it."""
        kept = [at for at, seq in enumerate(self._seqs) if seq not in removed]
        self._seqs = array("q", [self._seqs[at] for at in kept])
        self._items = [self._items[at] for at in kept]
        self._notes = {seq: note for seq, note in self._notes.items() if seq not in removed}

    def _clear(self, seq: int) -> int:
        """Empty the position of a new or changed item, and return it."""
        position = bisect_left(self._seqs, seq)
        if position == len(self._seqs) or self._seqs[position] != seq:
            self._seqs.insert(position, seq)
            self._items.insert(position, None)
        else:
            self._items[position] = None
            self._notes.pop(seq, None)
        return position

    def has(self, start: int, stop: int) -> bool:
        """Whether every item from `start` up to `stop` is encoded."""
        return None not in self._items[start:stop]

    def fill(self, start: int, stop: int) -> None:
        """Read and encode the items from `start` up to `stop`, unless all of them are encoded."""
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
        """The encoded items from `start` up to `stop`; call `fill` before."""
        return [item for item in self._items[start:stop] if item is not None]

    def notes(self, start: int, stop: int) -> list[str]:
        if not self._notes:
            return []
        return [self._notes[seq] for seq in self._seqs[start:stop] if seq in self._notes]
