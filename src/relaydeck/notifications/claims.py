"""Whose the deliveries are: which of all the processes on one database may try which of them.

    LeaseClaims   one process has all of them, by a lease. For a database that locks no rows: its processes
                  are on one machine, and every claim would cost a write.
    RowClaims     each process takes what it has room for, row by row (`row_claims.py`).

Both answer the same questions, and both are the fence: a try is written down only while it is still ours.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from relaydeck.errors import RelaydeckError
from relaydeck.notifications import outbox
from relaydeck.notifications.outbox import Due
from relaydeck.notifications.receivers import Room
from relaydeck.store.database import Database, Transaction
from relaydeck.store.leases import Lease, LeaseLost
from relaydeck.store.writer import Writer


class ClaimLost(RelaydeckError):
    """Another process tries this delivery now: what this one was about to write is not written."""


class Taken(NamedTuple):
    """What is ours to try now; and when there may be more to a receiver whose room was not filled."""

    dues: list[Due]
    later: dict[str, int]


class Claims(Protocol):
    @property
    def tenure(self) -> int:
        """Grows when others may have had the deliveries in between: what is due must be read anew."""

    @property
    def delivering(self) -> bool:
        """Whether this process is likely to be the one to try what comes next."""

    async def wait(self) -> float:
        """Seconds until this process may deliver, 0 when it may. Raises StoreError, ServerFailure."""

    async def take(self, rooms: Sequence[Room], now: int) -> Taken:
        """What is due, as much of it as there is room for. Raises StoreError."""

    def ours(self, transaction: Transaction, sequences: Sequence[int]) -> set[int]:
        """Those of them whose tries this process may write down. Called inside the transaction that does."""

    def lose(self) -> None:
        """Stop now; what is claimed runs out by itself."""

    async def give_back(self) -> None:
        """Let others go on at once, when no more tries are under way. Raises ServerFailure."""


class LeaseClaims:
    def __init__(self, database: Database, writer: Writer, lease: Lease) -> None:
        self._database = database
        self._writer = writer
        self._lease = lease

    @property
    def tenure(self) -> int:
        return self._lease.fence

    @property
    def delivering(self) -> bool:
        return self._lease.held

    async def wait(self) -> float:
        if self._lease.remaining() > self._lease.seconds * 2 / 3:
            return 0.0
        if not self._lease.held and (left := self._lease.taken_for(self._database.read)) > 0:
            return left
        if await self._lease.hold(self._writer):
            return 0.0
        return max(self._lease.taken_for(self._database.read), 0.01)  # it came between

    async def take(self, rooms: Sequence[Room], now: int) -> Taken:
        taken = Taken([], {})
        for room in rooms:
            self._take(taken, room, now)
        return taken

    def _take(self, taken: Taken, room: Room, now: int) -> None:
        found = outbox.upcoming(self._database.read, room.receiver, len(room.busy) + room.places)
        for due in [each for each in found if each.sequence not in room.busy][: room.places]:
            if due.due_at > now:
                taken.later[room.receiver] = due.due_at
                return
            taken.dues.append(due)

    def ours(self, transaction: Transaction, sequences: Sequence[int]) -> set[int]:
        try:
            self._lease.require(transaction)
        except LeaseLost:
            return set()
        return set(sequences)

    def lose(self) -> None:
        self._lease.lose()

    async def give_back(self) -> None:
        await self._lease.release(self._writer)
