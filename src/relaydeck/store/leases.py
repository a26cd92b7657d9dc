"""Leases: work that one process at a time may do, and that another process takes over when its holder dies.

A lease is a row with its holder, its expiry, and a fence that grows with each new holder.

Invariants:
- On a server that several machines share, expiries are moments of its clock: the clocks of the machines may differ.
- A holder stops before another process can start. It measures its time on its own monotonic clock, from before it
  requested the lease, so that it sees the lease expire no later than the row does, even after a pause.
- A write under a lease calls `require` in its transaction, which fails unless the holder's fence is the newest. There
  the database decides, not a clock: a process that overslept cannot write.
"""

import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from relaydeck.errors import RelaydeckError
from relaydeck.store.database import Database, ReadRows, Transaction
from relaydeck.store.writer import Writer

_TAKE = (
    "INSERT INTO leases (name, holder, fence, expires_at) VALUES (:name, :holder, 1, :until)"
    " ON CONFLICT (name) DO UPDATE SET"
    " fence = leases.fence + CASE WHEN leases.holder = :holder AND leases.expires_at > :now THEN 0 ELSE 1 END,"
    " holder = :holder, expires_at = :until"
    " WHERE leases.holder = :holder OR leases.expires_at <= :now OR leases.expires_at > :absurd"
    " RETURNING fence"
)
# An expiry more than this many periods from now was written by a clock that has been set back since: ignore it.
ABSURD_PERIODS = 10
_SHORTEST_WAIT = 0.01  # seconds, when another process took the lease between two questions


class LeaseLost(RelaydeckError):
    """Another process holds the lease now, so this write is not made."""


class LeaseClock(NamedTuple):
    """The clock that expiries are written in: `sql` reads it from the database; without `sql` it is `now`."""

    sql: str = ""
    now: Callable[[], float] = time.time

    def moment(self, read: ReadRows) -> int:
        """Now, in milliseconds."""
        if not self.sql:
            return milliseconds(self.now())
        moment: int = read(f"SELECT {self.sql} AS moment", {})[0].moment
        return moment


class Lease:
    """One process's claim to the work `name`. A holder that stops renewing loses it after `seconds`."""

    def __init__(
        self,
        name: str,
        seconds: float,
        *,
        holder: str = "",
        clock_sql: str = "",
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.holder = holder or secrets.token_hex(8)
        self.seconds = seconds
        self.fence = 0
        self._clock = LeaseClock(clock_sql, now)
        self._monotonic = monotonic
        self._held_until = -1.0

    def remaining(self) -> float:
        """For how many more seconds this process holds the lease; 0 when it does not."""
        return max(0.0, self._held_until - self._monotonic())

    @property
    def held(self) -> bool:
        return self.remaining() > 0

    async def wait(self, database: Database, writer: Writer) -> float:
        """Take or renew the lease. Return 0 when this process holds it, else the seconds until it may try again.

        Raises StoreError, ServerFailure. A lease is renewed once a third of its time has passed.
        """
        if self.remaining() > self.seconds * 2 / 3:
            return 0.0
        if not self.held and (left := await self._read_taken_for(database)) > 0:
            return left
        if await self.hold(writer):
            return 0.0
        return max(await self._read_taken_for(database), _SHORTEST_WAIT)

    async def _read_taken_for(self, database: Database) -> float:
        return await database.run_in_reader(partial(self.taken_for, database.read))

    async def hold(self, writer: Writer) -> bool:
        """Take or renew the lease; False when another process has it. Raises ServerFailure."""
        started = self._monotonic()
        fence = await writer.write(self._take)
        self.fence = fence or 0  # not before the commit: until then the lease is not held
        self._held_until = -1.0 if fence is None else started + self.seconds
        return fence is not None

    def _take(self, transaction: Transaction) -> int | None:
        """The fence, or None when another process holds the lease."""
        now = self._clock.moment(transaction.all)
        row = transaction.one(
            _TAKE,
            {
                "name": self.name,
                "holder": self.holder,
                "now": now,
                "until": now + milliseconds(self.seconds),
                "absurd": now + milliseconds(ABSURD_PERIODS * self.seconds),
            },
        )
        return row.fence if row else None

    def require(self, transaction: Transaction) -> None:
        """Raises LeaseLost when another process took the lease after this one did."""
        row = transaction.one(
            "SELECT 1 FROM leases WHERE name = :name AND holder = :holder AND fence = :fence",
            {"name": self.name, "holder": self.holder, "fence": self.fence},
        )
        if row is None:
            raise LeaseLost(f"another process holds the lease {self.name!r}")

    def drop(self) -> None:
        """Stop holding the lease now. Others can take it when its row expires."""
        self._held_until = -1.0

    async def release(self, writer: Writer) -> None:
        """Let another process take over at once. Raises ServerFailure."""
        if self.held:
            self.drop()
            await writer.write(self._expire)

    def _expire(self, transaction: Transaction) -> None:
        transaction.execute(
            "UPDATE leases SET expires_at = 0 WHERE name = :name AND holder = :holder AND fence = :fence",
            {"name": self.name, "holder": self.holder, "fence": self.fence},
        )

    def taken_for(self, read: ReadRows) -> float:
        """For how many more seconds another process has the lease; 0 when it is free."""
        rows = read("SELECT holder, expires_at FROM leases WHERE name = :name", {"name": self.name})
        if not rows or rows[0].holder == self.holder:
            return 0.0
        left: float = (rows[0].expires_at - self._clock.moment(read)) / 1000
        return left if 0 < left <= ABSURD_PERIODS * self.seconds else 0.0


def milliseconds(moment: float) -> int:
    return int(moment * 1000)
