"""When each relayer is looked at: once in every interval, at a phase that its sequence number alone decides.

The phase is the fractional part of the number times the golden ratio. However numbers were given out or
taken away, such phases lie evenly over the interval, so the load is even too; and anybody who knows the
number, the interval and the time can tell the next look, without anything being stored.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from math import floor, inf

_WHOLE = 1 << 64  # one interval
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # the golden ratio's fractional part, in 64 bits; odd, so it can be undone:
_UNDO = pow(_GOLDEN, -1, _WHOLE)
_SLOT_BITS = 12


def phase(sequence: int) -> int:
    """Where in the interval, of 2^64 places."""
    return sequence * _GOLDEN % _WHOLE


def next_look(sequence: int, interval: float, now: float) -> float:
    """The next moment this relayer is looked at, give or take the jitter of a probe."""
    share = phase(sequence) / _WHOLE
    laps = floor(now / interval - share) + 1
    return (laps + share) * interval


class Schedule:
    """The sequence numbers there are, in the order of their phases: eight bytes each.

    A phase gives its number back, so only phases are kept. They lie in many short arrays: one relayer more
    or less moves a few of its neighbours and not a million.
    """

    def __init__(self) -> None:
        self._slots = [array("Q") for _ in range(1 << _SLOT_BITS)]
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def add(self, sequences: Iterable[int]) -> None:
        for sequence in sequences:
            slot, position, known = self._find(sequence)
            if not known:
                slot.insert(position, phase(sequence))
                self._total += 1

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
        """Up to `most` numbers with a phase from `start` up to `stop`; and from where to go on.

        Both may lie beyond the interval's end, where it begins anew; they are never further apart than one.
        """
        found: list[int] = []
        while start < stop and len(found) < most:
            lap, place = divmod(start, _WHOLE)
            index = place >> 64 - _SLOT_BITS
            end = min(stop, lap * _WHOLE + (index + 1 << 64 - _SLOT_BITS))
            slot = self._slots[index]
            first, last = bisect_left(slot, place), bisect_left(slot, end - lap * _WHOLE)
            taken = slot[first : min(last, first + most - len(found))]
            found += [each * _UNDO % _WHOLE for each in taken]
            start = lap * _WHOLE + taken[-1] + 1 if first + len(taken) < last else end
        return found, start

    def first_from(self, start: int) -> int | None:
        """The first phase there is from `start` on, in this lap or the next."""
        lap, place = divmod(start, _WHOLE)
        index = place >> 64 - _SLOT_BITS
        for step in range(len(self._slots) + 1):
            slot = self._slots[(index + step) % len(self._slots)]
            first = bisect_left(slot, place) if step == 0 else 0
            if first < len(slot):
                found = lap * _WHOLE + slot[first]
                return found if found >= start else found + _WHOLE
        return None


class Walk:
    """Goes round the schedule as time goes by. Whoever cannot keep up walks slower: nothing piles up."""

    def __init__(self, schedule: Schedule, interval: float, now: float) -> None:
        self._schedule = schedule
        self._interval = interval
        self._reached = self._position(now)

    def _position(self, now: float) -> int:
        return floor(now / self._interval * _WHOLE)

    def due(self, now: float, most: int) -> list[int]:
        """The numbers whose moment has come since the last time, `most` of them; the rest comes next time."""
        position = self._position(now)
        behind = position - self._reached
        if behind > _WHOLE:
            self._reached += (behind - 1) // _WHOLE * _WHOLE  # laps that were missed are not made up for
        elif behind < -_WHOLE:
            self._reached = position  # the clock was set back
        found, self._reached = self._schedule.between(self._reached, max(position, self._reached), most)
        return found

    def until_next(self, now: float) -> float:
        """Seconds until one is due; none at all when one is."""
        first = self._schedule.first_from(self._reached)
        return inf if first is None else max(0.0, (first + 1) / _WHOLE * self._interval - now)
