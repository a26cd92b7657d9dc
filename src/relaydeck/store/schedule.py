"""When each row of a table is checked: once in every interval, at a phase computed from its sequence number.

The phase is the fractional part of the number times the golden ratio. Whichever numbers exist, such phases are spread
evenly over the interval, and so is the load. The next check follows from the number, the interval and the time:
nothing is stored.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from math import floor, inf
from typing import NamedTuple

from relaydeck.store.database import SINCE_SEEN, ReadRows
from relaydeck.store.removals import removed_since

_WHOLE = 1 << 64  # one interval
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # the golden ratio's fractional part, in 64 bits; odd, so it has an inverse:
_INVERSE = pow(_GOLDEN, -1, _WHOLE)
_SLOT_BITS = 6  # a process may hold a schedule for each of its shards


def phase(sequence: int) -> int:
    """The position in the interval, out of 2^64."""
    return sequence * _GOLDEN % _WHOLE


def next_check_at(sequence: int, interval: float, now: float) -> float:
    """When the row is checked next, apart from the jitter."""
    share = phase(sequence) / _WHOLE
    laps = floor(now / interval - share) + 1
    return (laps + share) * interval


def last_check_at(sequence: int, interval: float, now: float) -> float:
    """When the row was last due, apart from the jitter."""
    return next_check_at(sequence, interval, now) - interval


class Schedule:
    """The sequence numbers in the order of their phases: eight bytes each.

    A number can be computed from its phase, so only phases are kept. They are stored in many short arrays, so that
    adding or removing a row moves a few entries and not a million.
    """

    def __init__(self) -> None:
        self._slots = [array("Q") for _ in range(1 << _SLOT_BITS)]
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def add(self, sequences: Iterable[int]) -> None:
        # Inline, because it runs for every record that is created.
        slots, total = self._slots, self._total
        for sequence in sequences:
            place = sequence * _GOLDEN % _WHOLE
            slot = slots[place >> 64 - _SLOT_BITS]
            position = bisect_left(slot, place)
            if position == len(slot) or slot[position] != place:
                slot.insert(position, place)
                total += 1
        self._total = total

    def remove(self, sequences: Iterable[int]) -> None:
        for sequence in sequences:
            slot, position, known = self._find(sequence)
            if known:
                del slot[position]
                self._total -= 1

    def _find(self, sequence: int) -> tuple["array[int]", int, bool]:
        place = phase(sequence)
        slot = self._slots[place >> 64 - _SLOT_BITS]
        position = bisect_left(slot, place)
        return slot, position, position < len(slot) and slot[position] == place

    def between(self, start: int, stop: int, most: int) -> tuple[list[int], int]:
        """Up to `most` numbers with a phase from `start` up to `stop`, and the position to continue from.

        Positions count on from one interval into the next. `start` and `stop` are at most one interval apart.
        """
        if not self._total and most > 0:  # as in most shards of a small table
            return [], max(start, stop)
        found: list[int] = []
        while start < stop and len(found) < most:
            lap, place = divmod(start, _WHOLE)
            index = place >> 64 - _SLOT_BITS
            end = min(stop, lap * _WHOLE + (index + 1 << 64 - _SLOT_BITS))
            slot = self._slots[index]
            first, last = bisect_left(slot, place), bisect_left(slot, end - lap * _WHOLE)
            taken = slot[first : min(last, first + most - len(found))]
            found += [each * _INVERSE % _WHOLE for each in taken]
            start = lap * _WHOLE + taken[-1] + 1 if first + len(taken) < last else end
        return found, start

    def first_from(self, start: int) -> int | None:
        """The first phase from `start` on, in this interval or the next."""
        if not self._total:
            return None
        lap, place = divmod(start, _WHOLE)
        index = place >> 64 - _SLOT_BITS
        for step in range(len(self._slots) + 1):
            slot = self._slots[(index + step) % len(self._slots)]
            first = bisect_left(slot, place) if step == 0 else 0
            if first < len(slot):
                found = lap * _WHOLE + slot[first]
                return found if found >= start else found + _WHOLE
        raise AssertionError("a schedule with numbers has a first one")


class ScheduleCursor:
    """The position in the schedule that was reached. A process that cannot keep up falls behind, and nothing queues."""

    def __init__(self, schedule: Schedule, interval: float, start: float) -> None:
        """Numbers that become due from `start` on are returned."""
        self.schedule = schedule
        self._interval = interval
        self._reached = self._position(start)

    @property
    def reached_at(self) -> float:
        """Every number that became due before this moment was returned."""
        return self._reached / _WHOLE * self._interval

    def _position(self, now: float) -> int:
        return floor(now / self._interval * _WHOLE)

    def due(self, now: float, most: int) -> list[int]:
        """Up to `most` numbers that became due since the last call; the rest is returned by the next call."""
        position = self._position(now)
        behind = position - self._reached
        if behind > _WHOLE:
            self._reached += (behind - 1) // _WHOLE * _WHOLE  # missed intervals are skipped
        elif behind < -_WHOLE:
            self._reached = position  # the clock was set back
        found, self._reached = self.schedule.between(self._reached, max(position, self._reached), most)
        return found

    def until_next(self, now: float) -> float:
        """Seconds until the next number is due, 0 when one is."""
        first = self.schedule.first_from(self._reached)
        return inf if first is None else max(0.0, (first + 1) / _WHOLE * self._interval - now)


class RowChanges(NamedTuple):
    """Sequence numbers of the rows that were written or removed."""

    written: list[int]
    removed: list[int]


def read_row_changes(read: ReadRows, table: str, seen: int, *, removed: bool) -> RowChanges:
    """The changes after revision `seen`. `removed` tells whether records of any table were removed."""
    # After removals were pruned, the schedule keeps numbers of removed rows: reading them finds nothing to check.
    gone = removed_since(read, table, seen) if removed else None
    # The plus sign keeps the database on the index by revision. Rows, because a commit bounds the rows that it returns.
    written = read(f"SELECT seq FROM {table} WHERE {SINCE_SEEN} ORDER BY +seq", {"seen": seen})
    return RowChanges([row.seq for row in written], gone or [])
