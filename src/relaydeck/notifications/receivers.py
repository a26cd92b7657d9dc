"""Whose turn it is: which receivers have something due, and how much each may have under way.

Held in memory by each process that delivers. A receiver gets one try at a time until one has succeeded. One
whose last try failed is troubled: it gets one at a time again, and all the troubled ones together at most
half of the places. So however many receivers hang, those that answer find room.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple


class Room(NamedTuple):
    """How many more tries a receiver may have, beside those that are under way."""

    receiver: str
    places: int
    busy: frozenset[int]  # by their sequence numbers


class Receivers:
    def __init__(self, most_at_once: int, most_each: int) -> None:
        self._most_at_once = most_at_once
        self._most_each = most_each
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._busy: dict[str, set[int]] = {}
        self._proven: set[str] = set()
        self._troubled: set[str] = set()
        self._crowded: set[str] = set()
        self._under_way = 0
        self._troubled_under_way = 0

    def forget_due(self) -> None:
        """Before what is due is read anew."""
        self._due.clear()
        self._heap.clear()
        self._crowded.clear()

    def note(self, receiver: str, due: int) -> None:
        """Something is due to a receiver at `due`, in milliseconds; 0 for now."""
        if due < self._due.get(receiver, due + 1):
            self._due[receiver] = due
            heapq.heappush(self._heap, (due, receiver))

    def take_due(self, now: int) -> list[str]:
        """The receivers that something is due to, each once; they are to be noted again if more is to come."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            due, receiver = heapq.heappop(self._heap)
            if self._due.get(receiver) == due:
                del self._due[receiver]
                found.append(receiver)
        return found

    def next_due(self) -> int | None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    @property
    def under_way(self) -> int:
        return self._under_way

    def rooms(self, receivers: Iterable[str]) -> list[Room]:
        """How many more tries each may have under way. Who finds no place is called when there is one."""
        places = self._most_at_once - self._under_way
        troubled_places = self._most_at_once // 2 - self._troubled_under_way
        found: list[Room] = []
        for receiver in receivers:
            troubled = receiver in self._troubled
            left = min(places, troubled_places) if troubled else places
            if left <= 0:
                self._crowded.add(receiver)
                continue
            room = self._room(receiver, left)
            if room.places > 0:
                found.append(room)
                places -= room.places
                troubled_places -= room.places if troubled else 0
        return found

    def _room(self, receiver: str, places: int) -> Room:
        busy = self._busy.get(receiver, set())
        most = self._most_each if receiver in self._proven else 1
        return Room(receiver, min(places, most - len(busy)), frozenset(busy))

    def call_crowded(self) -> None:
        """Places came free, or were not needed after all."""
        called, self._crowded = self._crowded, set()
        for each in called:
            self.note(each, 0)

    def started(self, receiver: str, sequence: int) -> bool:
        """Whether it was started as a troubled one, which `finished` wants to know."""
        self._busy.setdefault(receiver, set()).add(sequence)
        self._under_way += 1
        troubled = receiver in self._troubled
        self._troubled_under_way += troubled
        return troubled

    def finished(self, receiver: str, sequence: int, *, was_troubled: bool, delivered: bool) -> None:
        self._under_way -= 1
        self._troubled_under_way -= was_troubled
        busy = self._busy[receiver]
        busy.discard(sequence)
        if not busy:
            del self._busy[receiver]
        self._judge(receiver, delivered=delivered)
        self.note(receiver, 0)
        self.call_crowded()

    def _judge(self, receiver: str, *, delivered: bool) -> None:
        better, worse = (self._proven, self._troubled) if delivered else (self._troubled, self._proven)
        better.add(receiver)
        worse.discard(receiver)
