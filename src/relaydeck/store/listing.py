"""The read model: the items of one resource in creation order, each encoded once.

The start loads only the sequence numbers (eight bytes per item). An item is read and encoded when a page first shows
it, or in the background, and kept until a write changes it. From a remote database all items are loaded at the start.
So a page costs the same wherever it is and however many items there are. The caller supplies `encode`: the store
knows no wire format.
"""

import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from relaydeck.store.changes import removed_since
from relaydeck.store.database import Reader, ReadRows, Row, RowReader, Values

_decode = msgspec.json.Decoder(list[int]).decode


def read_numbers(read: ReadRows, table: str, condition: str = "true", values: Values | None = None) -> list[int]:
    """The sequence numbers of the rows that meet a condition, in order."""
    rows = read(f"SELECT CAST(json_group_array(seq) AS text) AS numbers FROM {table} WHERE {condition}", values or {})
    return sorted(_decode(rows[0].numbers or "[]"))  # PostgreSQL returns NULL for no numbers


_MOVED_SINGLY = 100
_PACED_ROWS = 200


def paced(rows: Iterable[Row]) -> Iterator[Row]:
    """In a thread: leaves half of the time to the event loop, however many rows there are and whatever is done with
    each."""
    remaining = iter(rows)
    while some := list(islice(remaining, _PACED_ROWS)):
        started = time.thread_time()
        yield from some
        if len(some) == _PACED_ROWS:
            time.sleep(time.thread_time() - started)


class Encoded(NamedTuple):
    item: bytes | None
    note: str = ""  # for the client, beside the item: that a sealed value cannot be opened, for example


_NOTHING = Encoded(None)


class ListingChanges(NamedTuple):
    """Sequence numbers of removed items, and in order those of new or changed ones, with the items if `preload`."""

    removed: list[int]
    changed: list[tuple[int, Encoded | None]]


class ListingState(NamedTuple):
    """All items: their sequence numbers in order, what is encoded of each, and notes by sequence number."""

    seqs: "array[int]"
    items: list[bytes | None]
    notes: dict[int, str]


class Listing:
    """`preload`: every item is in memory from the start, so that no response has to read one.

    Changed only in the event loop, by `replace`, `apply_changes` and `fill`. `fetch_changes` only reads it, possibly in
    a thread: the sequence numbers cannot change meanwhile, because its result is applied before the next fetch.
    """

    def __init__(
        self, table: str, columns: str, encode: Callable[[Row], Encoded], reader: Reader, *, preload: bool = False
    ) -> None:
        self.table = table
        self._columns = columns
        self._encode = encode
        self._reader = reader
        self._preload = preload
        self._seqs = array("q")
        self._items: list[bytes | None] = []
        self._notes: dict[int, str] = {}

    @property
    def total(self) -> int:
        return len(self._seqs)

    @property
    def numbers(self) -> "array[int]":
        """The sequence numbers of all items, in order, at this moment."""
        return self._seqs

    def read_all(self, reader: RowReader) -> ListingState:
        if not self._preload:
            seqs = array("q", read_numbers(reader.read, self.table))
            return ListingState(seqs, [None] * len(seqs), {})
        state = ListingState(array("q"), [], {})
        for row in reader.stream(f"SELECT {self._columns}, seq FROM {self.table} ORDER BY seq"):
            item, note = self._encode(row)
            state.seqs.append(row.seq)
            state.items.append(item)
            if note:
                state.notes[row.seq] = note
        return state

    def replace(self, state: ListingState) -> None:
        self._seqs, self._items, self._notes = state

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> ListingChanges:
        """The items that were created, changed or removed after revision `seen`."""
        gone = self._removed_since(read, seen) if removed else []
        if not self._preload:
            numbers = read_numbers(read, self.table, "revision > :seen", {"seen": seen})
            return ListingChanges(gone, [(seq, None) for seq in numbers])
        # The plus makes the database use the revision's index instead of walking the whole table in order of seq.
        changed = f"FROM {self.table} WHERE revision > :seen ORDER BY +seq"
        rows = read(f"SELECT {self._columns}, seq {changed}", {"seen": seen})
        return ListingChanges(gone, [(row.seq, self._encode(row)) for row in paced(rows)])

    def _removed_since(self, read: ReadRows, seen: int) -> list[int]:
        removed = removed_since(read, self.table, seen)
        if removed is not None:
            return removed
        # Removals that this process has not seen are pruned: compare with all rows instead.
        present = set(read_numbers(read, self.table))
        return [seq for seq in self._seqs if seq not in present]

    def apply_changes(self, changes: ListingChanges) -> None:
        last = self._seqs[-1] if self._seqs else -1
        if changes.changed and changes.changed[0][0] > last and not changes.removed:
            self._append(changes.changed)
            return
        new: dict[int, bytes | None] = {}
        for seq, encoded in changes.changed:
            item, note = encoded or _NOTHING
            if note or self._notes:
                self._set_note(seq, note)
            position, known = self._find(seq) if seq <= last else (0, False)
            if known:
                self._items[position] = item
            else:
                new[seq] = item
        for seq in changes.removed:
            self._set_note(seq, "")
        if not new and not changes.removed:
            return
        first = bisect_left(self._seqs, min([*new, *changes.removed]))
        moved = len(self._seqs) - first  # by each single one; none if new items come after all others
        if moved < _MOVED_SINGLY or len(new) + len(changes.removed) > _MOVED_SINGLY:
            self._merge(first, new, changes.removed)
            return
        for seq in changes.removed:
            position, known = self._find(seq)
            if known:
                del self._seqs[position], self._items[position]
        for seq, item in new.items():
            position, _ = self._find(seq)
            self._seqs.insert(position, seq)
            self._items.insert(position, item)

    def _append(self, changed: list[tuple[int, Encoded | None]]) -> None:
        """The usual case: every item is new, so that all of them come after those that are there."""
        self._seqs.extend([seq for seq, _ in changed])
        if not self._preload:
            self._items += [None] * len(changed)
            return
        for seq, encoded in changed:
            item, note = encoded or _NOTHING
            self._items.append(item)
            self._set_note(seq, note)

    def _merge(self, first: int, new: dict[int, bytes | None], removed: list[int]) -> None:
        """All in one pass, because each single insertion or removal moves all the items after it."""
        items = dict(zip(self._seqs[first:], self._items[first:], strict=True))
        for seq in removed:
            items.pop(seq, None)
        items |= new
        ordered = sorted(items)
        self._seqs[first:] = array("q", ordered)
        self._items[first:] = [items[seq] for seq in ordered]

    def _find(self, seq: int) -> tuple[int, bool]:
        """The position of an item, or of one to insert, and whether it is there."""
        position = bisect_left(self._seqs, seq)
        return position, position < len(self._seqs) and self._seqs[position] == seq

    def _set_note(self, seq: int, note: str) -> None:
        if note:
            self._notes[seq] = note
        elif self._notes:
            self._notes.pop(seq, None)

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
            self._items[bisect_left(self._seqs, row.seq, start, stop)], note = self._encode(row)
            self._set_note(row.seq, note)

    def items(self, start: int, stop: int) -> list[bytes]:
        """The encoded items from `start` up to `stop`; call `fill` before."""
        return [item for item in self._items[start:stop] if item is not None]

    def notes(self, start: int, stop: int) -> list[str]:
        if not self._notes:
            return []
        return [self._notes[seq] for seq in self._seqs[start:stop] if seq in self._notes]


class ListingPart(Listing):
    """The items inside a scope, as a listing of their own. `numbers`: their sequence numbers at this moment."""

    def __init__(self, whole: Listing, numbers: Callable[[], "array[int]"]) -> None:
        self._whole, self._numbers = whole, numbers

    @property
    def total(self) -> int:
        return len(self._numbers())

    def has(self, _start: int, _stop: int) -> bool:
        """Unless all is in memory, `fill` is needed: in its snapshot, what is inside fits what is listed."""
        return self._whole._preload

    def _bounds(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        found = map(self._whole._find, self._numbers()[start:stop])
        return ((position, position + 1) for position, known in found if known)

    def fill(self, start: int, stop: int) -> None:
        for each in self._bounds(start, stop):
            self._whole.fill(*each)

    def items(self, start: int, stop: int) -> list[bytes]:
        return [item for each in self._bounds(start, stop) for item in self._whole.items(*each)]

    def notes(self, start: int, stop: int) -> list[str]:
        return [note for each in self._bounds(start, stop) for note in self._whole.notes(*each)]
