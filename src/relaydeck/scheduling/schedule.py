"""Computes when each row of a table is checked: once in every interval, at a phase given by its sequence number.

The phase is the fractional part of the number times the golden ratio. Whichever numbers exist, such phases are spread
evenly over the interval, and so is the load. The next check follows from the number, the interval and the time:
nothing is stored.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from math import floor, inf

_INTERVAL = 1 << 64  # one interval
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # the golden ratio's fractional part, in 64 bits; odd, so it has an inverse:
_INVERSE = pow(_GOLDEN, -1, _INTERVAL)
_CHANGED_SINGLY = 256  # each change moves the phases after it
_INSERTED_SINGLY = 4  # merging moves all of them, but once


def phase(sequence: int) -> int:
    """The position in the interval, out of 2^64."""
    return sequence * _GOLDEN % _INTERVAL


def next_check_at(sequence: int, interval: float, now: float) -> float:
    """When the row is checked next."""
    share = phase(sequence) / _INTERVAL
    laps = floor(now / interval - share) + 1
    return (laps + share) * interval


def last_check_at(sequence: int, interval: float, now: float) -> float:
    """When the row was last due."""
    return next_check_at(sequence, interval, now) - interval


def sorted_phases(sequences: Iterable[int]) -> "array[int]":
    return array("Q", sorted(map(phase, sequences)))


def is_before(position: int, other: int) -> bool:
    """Whether a position precedes another one. They are at most one interval apart, unless the clock was set back."""
    return 0 < other - position <= _INTERVAL


class Schedule:
    """The sequence numbers in the order of their phases, and the position that was reached.

    Eight bytes each, because a phase tells its number. Positions count on from one interval into the next. A process
    that cannot keep up falls behind, and nothing queues.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._phases = array("Q")
        self.reached = 0

    def __len__(self) -> int:
        return len(self._phases)

    def replace(self, phases: "array[int]") -> None:
        self._phases = phases

    def add(self, sequences: Iterable[int]) -> None:
        places = sorted({sequence * _GOLDEN % _INTERVAL for sequence in sequences})
        if len(places) > _INSERTED_SINGLY:
            self._merge(places)
            return
        for place in places:
            position = bisect_left(self._phases, place)
            if not self._has(place, position):
                self._phases.insert(position, place)

    def _merge(self, places: list[int]) -> None:
        phases, merged, start = self._phases, array("Q"), 0
        end = len(phases)
        for place in places:
            position = bisect_left(phases, place, start)
            if position == end or phases[position] != place:
                merged += phases[start:position]
                merged.append(place)
                start = position
        self._phases = merged + phases[start:] if merged else phases

    def _has(self, place: int, position: int) -> bool:
        return position < len(self._phases) and self._phases[position] == place

    def remove(self, sequences: Iterable[int]) -> None:
        gone = set(map(phase, sequences))
        if len(gone) > _CHANGED_SINGLY:
            self._phases = array("Q", [place for place in self._phases if place not in gone])
            return
        for place in gone:
            position = bisect_left(self._phases, place)
            if self._has(place, position):
                del self._phases[position]

    @property
    def reached_at(self) -> float:
        """Every number that became due before this moment was returned."""
        return self.reached / _INTERVAL * self._interval

    def position(self, moment: float) -> int:
        return floor(moment / self._interval * _INTERVAL)

    def due(self, now: float, most: int) -> list[tuple[int, int]]:
        """Up to `most` positions and their numbers that became due since the last call; the next call continues."""
        position = self.position(now)
        behind = position - self.reached
        if behind > _INTERVAL:
            self.reached += (behind - 1) // _INTERVAL * _INTERVAL  # missed intervals are skipped
        elif behind < -_INTERVAL:
            self.reached = position  # the clock was set back
        return self._take(position, most)

    def _take(self, stop: int, most: int) -> list[tuple[int, int]]:
        """What is due up to `stop`, which is at most one interval from the position that was reached."""
        found: list[tuple[int, int]] = []
        while self.reached < stop and len(found) < most:
            lap, place = divmod(self.reached, _INTERVAL)
            begin = lap * _INTERVAL
            end = min(stop, begin + _INTERVAL)
            first, last = bisect_left(self._phases, place), bisect_left(self._phases, end - begin)
            taken = self._phases[first : min(last, first + most - len(found))]
            found += [(begin + each, each * _INVERSE % _INTERVAL) for each in taken]
            self.reached = begin + taken[-1] + 1 if first + len(taken) < last else end
        return found

    def until_next(self, now: float) -> float:
        """Seconds until the next number is due, 0 when one is."""
        if not self._phases:
            return inf
        lap, place = divmod(self.reached, _INTERVAL)
        at = bisect_left(self._phases, place)
        lap += at == len(self._phases)
        first = lap * _INTERVAL + self._phases[at % len(self._phases)]
        return max(0.0, (first + 1) / _INTERVAL * self._interval - now)
