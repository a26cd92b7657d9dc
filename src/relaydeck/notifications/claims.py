"""Decides which deliveries this process attempts next.

    ReceiverSlots   the receivers with deliveries due, and how many attempts each may have under way
    LeaseClaims     one process attempts all deliveries, by a lease. For SQLite, which cannot lock rows: its processes
                    run on one machine, and each claim would cost a write.
    RowClaims       each process claims as many deliveries as it has slots for, row by row. For PostgreSQL.

Claims are also the fence: the result of an attempt is saved only while the process still holds its claim.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from relaydeck.errors import RelaydeckError
from relaydeck.notifications import delivery_queue
from relaydeck.notifications.delivery_queue import COLUMNS, FREE, PendingDelivery
from relaydeck.scheduling.leases import ShardLeases
from relaydeck.store.database import Database, Transaction
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.writer import Writer


class Capacity(NamedTuple):
    """How many more attempts a receiver may have, beside those under way."""

    receiver: str
    slots: int
    busy: frozenset[int]  # sequence numbers of the deliveries under way


class ReceiverSlots:
    """Every delivering process keeps this in memory. Due times are milliseconds.

    A receiver gets one attempt at a time until one has succeeded. After a failure it is failing: it gets one attempt at
    a time again, and all failing receivers together get at most half of the slots. However many receivers hang, those
    that respond find a slot, once the first attempts to the others have failed.
    """

    def __init__(self, max_attempts: int, max_per_receiver: int) -> None:
        self._max_attempts, self._max_per_receiver = max_attempts, max_per_receiver
        self._due: dict[str, int] = {}  # those that find no slot stay due until an attempt ends
        self._busy: dict[str, set[int]] = {}
        self._succeeded: dict[str, bool] = {}  # whether the last attempt did

    @property
    def under_way(self) -> int:
        return sum(map(len, self._busy.values()))

    def forget_due(self) -> None:
        """Called before all due times are read again."""
        self._due.clear()

    def schedule(self, receiver: str, due: int) -> None:
        """A delivery to the receiver is due at `due`."""
        self._due[receiver] = min(due, self._due.get(receiver, due))

    def next_due(self, now: int) -> int | None:
        """When the next receiver is due, beside those that waited for a slot when `take_due` was called with `now`."""
        return min((due for due in self._due.values() if due > now), default=None)

    def take_due(self, now: int) -> list[Capacity]:
        """Slots for the receivers that are due, the longest first. The caller schedules those with more deliveries."""
        slots = self._max_attempts - self.under_way
        for_failing = self._max_attempts // 2 - sum(len(self._busy[each]) for each in self._busy if self._fails(each))
        found: list[Capacity] = []
        for _, receiver in sorted((due, receiver) for receiver, due in self._due.items() if due <= now):
            fails = self._fails(receiver)
            left = min(slots, for_failing) if fails else slots
            if left <= 0:
                continue
            del self._due[receiver]
            busy = frozenset(self._busy.get(receiver, ()))
            limit = self._max_per_receiver if self._succeeded.get(receiver) else 1
            if (taken := min(left, limit - len(busy))) > 0:
                found.append(Capacity(receiver, taken, busy))
                slots -= taken
                for_failing -= taken if fails else 0
        return found

    def _fails(self, receiver: str) -> bool:
        return not self._succeeded.get(receiver, True)

    def started(self, receiver: str, sequence: int) -> None:
        self._busy.setdefault(receiver, set()).add(sequence)

    def finished(self, receiver: str, sequence: int, now: int, *, delivered: bool) -> None:
        """The receiver may have more deliveries. It queues behind those that wait for a slot."""
        self._busy[receiver].discard(sequence)
        if not self._busy[receiver]:
            del self._busy[receiver]
        self._succeeded[receiver] = delivered
        self.schedule(receiver, now)


class ClaimLost(RelaydeckError):
    """Another process attempts this delivery now: this process must not save its result."""


class Claimed(NamedTuple):
    """The deliveries to attempt now, and when a receiver with slots left may have more."""

    deliveries: list[PendingDelivery]
    later: dict[str, int]


class LeaseClaims:
    def __init__(self, database: Database, writer: Writer, lease: ShardLeases) -> None:
        """The lease has one shard."""
        self._database = database
        self._writer = writer
        self._lease = lease

    @property
    def tenure(self) -> int:
        """Grows when other processes may have held the deliveries in between: due times must be read again."""
        return self._lease.fences.get(0, 0)

    @property
    def delivering(self) -> bool:
        """Whether this process is likely to attempt the next delivery."""
        return self._lease.held

    async def wait(self) -> float:
        """Seconds until this process may deliver, 0 when it may. Raises StoreError, ServerFailure."""
        if not self._lease.held or self._lease.until_claim() <= 0:
            await self._lease.claim(self._database, self._writer)
        return 0.0 if self._lease.held else self._lease.until_claim()

    async def take(self, capacities: Sequence[Capacity], now: int) -> Claimed:
        """Claim due deliveries, at most as many as there are slots. Raises StoreError."""
        claimed = Claimed([], {})
        for capacity in capacities:
            self._take(claimed, capacity, now)
        return claimed

    def _take(self, claimed: Claimed, capacity: Capacity, now: int) -> None:
        limit = len(capacity.busy) + capacity.slots
        found = delivery_queue.next_deliveries(self._database.read, capacity.receiver, limit)
        for delivery in [each for each in found if each.sequence not in capacity.busy][: capacity.slots]:
            if delivery.due_at > now:
                claimed.later[capacity.receiver] = delivery.due_at
                return
            claimed.deliveries.append(delivery)

    def still_held(self, transaction: Transaction, sequences: Sequence[int]) -> set[int]:
        """Those deliveries that this process may save: all or none. Called in the transaction that saves them."""
        return self._lease.protected(transaction, sequences)

    def lose(self) -> None:
        """Stop now; the claims expire."""
        self._lease.drop()

    async def release(self) -> None:
        """Let other processes continue at once. Called when no attempt is under way. Raises ServerFailure."""
        await self._lease.leave(self._writer, {})


_SKIPPED = 50  # milliseconds: a due delivery that could not be claimed is being claimed by another process

# The array is computed once. A subquery could be evaluated again for each row, with another result each time.
_CLAIM = (
    "UPDATE deliveries SET claimed_by = :holder, claimed_until = :until WHERE seq = ANY(ARRAY("
    " SELECT d.seq FROM unnest(CAST(:receivers AS text[]), CAST(:slots AS bigint[])) AS r (id, slots), LATERAL ("
    f" SELECT seq FROM deliveries WHERE notification_id = r.id AND due_at IS NOT NULL AND {FREE} <= :now"
    f" AND seq <> ALL(CAST(:busy AS bigint[])) ORDER BY {FREE}, seq LIMIT r.slots FOR UPDATE SKIP LOCKED) d"
    f")) RETURNING {COLUMNS}"
)
_FREE_FROM = (
    "SELECT r.id, d.free FROM unnest(CAST(:receivers AS text[])) AS r (id), LATERAL ("
    f" SELECT {FREE} AS free FROM deliveries WHERE notification_id = r.id AND due_at IS NOT NULL"
    f" AND seq <> ALL(CAST(:busy AS bigint[])) ORDER BY {FREE}, seq LIMIT 1) d"
)
_STILL_HELD = "SELECT seq FROM deliveries WHERE seq = ANY(CAST(:sequences AS bigint[])) AND claimed_by = :holder"
_ANY_HELD = "SELECT 1 FROM deliveries WHERE due_at IS NOT NULL AND claimed_by = :holder LIMIT 1"
_RELEASE = (
    "UPDATE deliveries SET claimed_by = NULL, claimed_until = NULL, revision = :revision"
    " WHERE due_at IS NOT NULL AND claimed_by = :holder"
)


class RowClaims:
    """A claim records which process attempts a delivery, and until when no other process does.

    Claiming changes nothing that a reader sees, so it takes no revision and notifies no process. It waits for no lock
    either: rows that another process holds are skipped. When a process dies, others find its deliveries after its
    claims have expired. A process that stops releases its claims and notifies the others.
    """

    tenure = 1

    def __init__(
        self, database: PostgresDatabase, writer: Writer, seconds: float, *, monotonic: Callable[[], float]
    ) -> None:
        """A claim lasts for `seconds`, which must be longer than any attempt."""
        self._database, self._read, self._writer = database, database.read, writer
        self._seconds, self._monotonic = seconds, monotonic
        self._holder = secrets.token_hex(8)
        self._delivering_until = -1.0
        self._taking: asyncio.Future[Claimed] | None = None

    @property
    def delivering(self) -> bool:
        return self._monotonic() < self._delivering_until

    async def wait(self) -> float:
        return 0.0

    async def take(self, capacities: Sequence[Capacity], now: int) -> Claimed:
        # Shielded: when the caller is cancelled, `release` must still know what was claimed.
        self._taking = asyncio.ensure_future(self._database.run_in_reader(partial(self._take, capacities, now)))
        claimed = await asyncio.shield(self._taking)
        if claimed.deliveries:
            self._delivering_until = self._monotonic() + self._seconds
        return claimed

    def _take(self, capacities: Sequence[Capacity], now: int) -> Claimed:
        deliveries = self._claim(capacities, now)
        filled = Counter(delivery.notification_id for delivery in deliveries)
        unfilled = [each.receiver for each in capacities if filled[each.receiver] < each.slots]
        if not unfilled:
            return Claimed(deliveries, {})
        busy = [*_busy(capacities), *(delivery.sequence for delivery in deliveries)]
        found = self._read(_FREE_FROM, {"receivers": unfilled, "busy": busy})
        return Claimed(deliveries, {row.id: max(row.free, now + _SKIPPED) for row in found})

    def _claim(self, capacities: Sequence[Capacity], now: int) -> list[PendingDelivery]:
        """One statement, and so a transaction by itself."""
        values = {
            "holder": self._holder,
            "now": now,
            "until": now + int(self._seconds * 1000),
            "receivers": [each.receiver for each in capacities],
            "slots": [each.slots for each in capacities],
            "busy": _busy(capacities),
        }
        deliveries = [PendingDelivery(*row) for row in self._database.write_unversioned(_CLAIM, values)]
        return sorted(deliveries, key=lambda delivery: (delivery.due_at, delivery.sequence))

    def still_held(self, transaction: Transaction, sequences: Sequence[int]) -> set[int]:
        rows = transaction.all(_STILL_HELD, {"sequences": list(sequences), "holder": self._holder})
        return {row.seq for row in rows}

    def lose(self) -> None:
        """Losing one claim does not affect the others."""

    async def release(self) -> None:
        if self._taking is None:
            return
        await asyncio.gather(self._taking, return_exceptions=True)
        if await self._database.run_in_reader(partial(self._read, _ANY_HELD, {"holder": self._holder})):
            await self._writer.write(self._release)

    def _release(self, transaction: Transaction) -> None:
        """Takes a revision, so that other processes notice the deliveries."""
        transaction.execute(_RELEASE, {"revision": transaction.revision, "holder": self._holder})


def _busy(capacities: Sequence[Capacity]) -> list[int]:
    return [sequence for capacity in capacities for sequence in capacity.busy]


Claims = LeaseClaims | RowClaims
