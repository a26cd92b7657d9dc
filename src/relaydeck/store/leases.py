"""Work that one process at a time may do, and that another takes over when its holder dies.

A lease is a row: who holds it, until when, and a fence that grows with each new holder. Whether one *may
go on* is judged by the holder's own monotonic clock, counted from before it asked, so a paused or slow
process stops before anyone else can begin. Whatever it still writes goes through `require`, which refuses
a fence that is no longer the newest: there the database decides, and no clock.
"""

import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from relaydeck.errors import RelaydeckError
from relaydeck.store.database import Database, Row, Transaction
from relaydeck.store.writer import Writer

ReadRows = Callable[[str, dict[str, Any]], list[Row]]

_TAKE = (
    "INSERT INTO leases (name, holder, fence, expires_at) VALUES (:name, :holder, 1, :until)"
    " ON CONFLICT (name) DO UPDATE SET"
    " fence = leases.fence + CASE WHEN leases.holder = :holder AND leases.expires_at > :now THEN 0 ELSE 1 END,"
    " holder = :holder, expires_at = :until"
    " WHERE leases.holder = :holder OR leases.expires_at <= :now OR leases.expires_at > :absurd"
    " RETURNING fence"
)
# A lease that ends later than this many periods from now was written by a clock that has since been set back.
_ABSURD_PERIODS = 10
_SHORTEST_WAIT = 0.01  # seconds, when another process took the lease between two questions


class LeaseLost(RelaydeckError):
    """Another process holds the lease now: what this one was about to write is not written."""


class Lease:
    """One process's hold on the work `name`. A holder that stops renewing has lost it after `seconds`."""

    def __init__(
        self,
        name: str,
        seconds: float,
        *,
        holder: str = "",
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.holder = holder or secrets.token_hex(8)
        self.seconds = seconds
        self.fence = 0
        self._now = now
        self._monotonic = monotonic
        self._held_until = -1.0

    def remaining(self) -> float:
        """For how many seconds more this process may go on; 0 when it does not hold the lease."""
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
        """Take the lease, or renew it; False when another process has it. Raises ServerFailure."""
        asked = self._monotonic()
        fence = await writer.write(self._take)
        self.fence = fence or 0  # only now: what was not committed is not held
        self._held_until = -1.0 if fence is None else asked + self.seconds
        return fence is not None

    def _take(self, transaction: Transaction) -> int | None:
        """The fence, or None when another holds the lease."""
        now = self._now()
        row = transaction.one(
            _TAKE,
            {
                "name": self.name,
                "holder": self.holder,
                "now": _milliseconds(now),
                "until": _milliseconds(now + self.seconds),
                "absurd": _milliseconds(now + _ABSURD_PERIODS * self.seconds),
            },
        )
        return row.fence if row else None

    def require(self, transaction: Transaction) -> None:
        """Raises LeaseLost unless nobody took the lease since this process did."""
        row = transaction.one(
            "SELECT 1 FROM leases WHERE name = :name AND holder = :holder AND fence = :fence",
            {"name": self.name, "holder": self.holder, "fence": self.fence},
        )
        if row is None:
            raise LeaseLost(f"another process holds the lease {self.name!r}")

    def lose(self) -> None:
        """Stop now; the row is left to run out."""
        self._held_until = -1.0

    async def release(self, writer: Writer) -> None:
        """Let another process take over at once. Raises ServerFailure."""
        if self.held:
            self.lose()
            await writer.write(self._give_back)

    def _give_back(self, transaction: Transaction) -> None:
        transaction.execute(
            "UPDATE leases SET expires_at = 0 WHERE name = :name AND holder = :holder AND fence = :fence",
            {"name": self.name, "holder": self.holder, "fence": self.fence},
        )

    def taken_for(self, read: ReadRows) -> float:
        """For how many seconds more another process has it; 0 when it may be taken."""
        rows = read("SELECT holder, expires_at FROM leases WHERE name = :name", {"name": self.name})
        if not rows or rows[0].holder == self.holder:
            return 0.0
        left: float = rows[0].expires_at / 1000 - self._now()
        return left if 0 < left <= _ABSURD_PERIODS * self.seconds else 0.0


def _milliseconds(moment: float) -> int:
    return int(moment * 1000)
