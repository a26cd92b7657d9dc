"""Which receivers have deliveries due, and how many attempts each may have under way.

Every delivering process keeps this in memory. A receiver gets one attempt at a time until one has succeeded. After a
failure it is failing: it gets one attempt at a time again, and all failing receivers together get at most half of the
slots. However many receivers hang, those that respond find a slot, once the first attempts to the others have failed.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple


class Capacity(NamedTuple):
    """How many more attempts a receiver may have, beside those under way."""

    receiver: str
    slots: int
    busy: frozenset[int]  # sequence numbers of the deliveries under way


class ReceiverSlots:
    """Due times are milliseconds.

    Invariant: the heap holds an entry for every due time in `_due`. Entries that `_due` no longer confirms are stale
    and skipped.
    """

    def __init__(self, max_attempts: int, max_per_receiver: int) -> None:
        self._max_attempts = max_attempts
        self._max_per_receiver = max_per_receiver
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._busy: dict[str, set[int]] = {}
        self._proven: set[str] = set()  # the last attempt succeeded
        self._failing: set[str] = set()  # the last attempt failed
        self._waiting_for_slot: set[str] = set()
        self._under_way = 0
        self._failing_under_way = 0

    def forget_due(self) -> None:
        """Called before all due times are read again."""
        self._due.clear()
        self._heap.clear()
        self._waiting_for_slot.clear()

    def schedule(self, receiver: str, due: int) -> None:
        """A delivery to the receiver is due at `due`; 0 means now."""
        if due < self._due.get(receiver, due + 1):
            self._due[receiver] = due
            heapq.heappush(self._heap, (due, receiver))

    def pop_due(self, now: int) -> list[str]:
        """Remove and return the receivers with a delivery due. The caller schedules those that have more."""
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

    def capacities(self, receivers: Iterable[str]) -> list[Capacity]:
        """Slots for each receiver. One that finds none is scheduled again when a slot becomes free."""
        slots = self._max_attempts - self._under_way
        slots_for_failing = self._max_attempts // 2 - self._failing_under_way
        found: list[Capacity] = []
        for receiver in receivers:
            failing = receiver in self._failing
            left = min(slots, slots_for_failing) if failing else slots
            if left <= 0:
                self._waiting_for_slot.add(receiver)
                continue
            capacity = self._capacity(receiver, left)
            if capacity.slots > 0:
                found.append(capacity)
                slots -= capacity.slots
                slots_for_failing -= capacity.slots if failing else 0
        return found

    def _capacity(self, receiver: str, slots: int) -> Capacity:
        busy = self._busy.get(receiver, set())
        limit = self._max_per_receiver if receiver in self._proven else 1
        return Capacity(receiver, min(slots, limit - len(busy)), frozenset(busy))

    def schedule_waiting(self) -> None:
        """Slots became free, or were not used."""
        waiting, self._waiting_for_slot = self._waiting_for_slot, set()
        for receiver in waiting:
            self.schedule(receiver, 0)

    def started(self, receiver: str, sequence: int) -> bool:
        """Take a slot. Return whether the receiver is failing, which `finished` needs to know."""
        self._busy.setdefault(receiver, set()).add(sequence)
        self._under_way += 1
        failing = receiver in self._failing
        self._failing_under_way += failing
        return failing

    def finished(self, receiver: str, sequence: int, *, was_failing: bool, delivered: bool) -> None:
        self._under_way -= 1
        self._failing_under_way -= was_failing
        busy = self._busy[receiver]
        busy.discard(sequence)
        if not busy:
            del self._busy[receiver]
        self._classify(receiver, delivered=delivered)
        self.schedule(receiver, 0)
        self.schedule_waiting()

    def _classify(self, receiver: str, *, delivered: bool) -> None:
        joined, left = (self._proven, self._failing) if delivered else (self._failing, self._proven)
        joined.add(receiver)
        left.discard(receiver)
