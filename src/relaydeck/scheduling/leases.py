"""Leases: work that one process at a time may do, and that another process takes over when its holder dies.

A lease is a row with its holder, its expiry, and a fence that grows with each new holder. Work on the rows of a table
can be divided into shards, each with a lease of its own, which the processes share evenly. A row belongs to the shard
that the last bits of its sequence number name, so consecutive rows are in different shards. Each process also has a row
as a member, so that all of them know how many there are:

    claim   renew the own rows, count the members
      -> fewer shards than the share    take shards that are free or that expired
      -> more shards than the share     the owner stops checking some, and releases each when its checks have ended

The share is rounded up: every shard has a taker, and no process holds more than one too many.

Invariants:
- On a server that several machines share, expiries are moments of its clock: the clocks of the machines may differ.
- A holder stops before another process can start. It measures its time on its own monotonic clock, from before it
  requested the lease, so that it sees the lease expire no later than the row does, even after a pause.
- A write under a lease calls `require` in its transaction, which fails unless the holder's fence is the newest. There
  the database decides, not a clock: a process that overslept cannot write.
- A released row has no holder, and its expiry is the moment up to which the rows of the shard that were due have been
  checked: the next holder continues there.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from relaydeck.errors import RelaydeckError
from relaydeck.store.database import Database, ReadRows, Row, Transaction
from relaydeck.store.writer import Writer

_MEMBER = "member "
_FREE = "leases.expires_at <= :now OR leases.expires_at > :absurd OR leases.holder = :holder"
_ROWS = "(name = :name OR name LIKE :others)"
# An expiry more than this many periods from now was written by a clock that has been set back since: ignore it.
_ABSURD_PERIODS = 10
_SHORTEST_WAIT = 0.01  # seconds, when another process took the lease between two questions


class LeaseLost(RelaydeckError):
    """Another process holds the lease now, so this write is not made."""


class _Found(NamedTuple):
    """What a claim found and did."""

    fences: dict[int, int]  # of the shards that this process holds now
    gaps: dict[int, float]  # of those it took: the seconds since the shard's rows were last checked
    share: int
    next_expiry: float  # of another process's shard: in how many seconds


class ShardLeases:
    """One process's claim to shards of the work `name`. A holder that stops renewing loses them after `seconds`."""

    def __init__(
        self,
        name: str,
        shards: int,
        seconds: float,
        *,
        holder: str = "",
        clock_sql: str = "",
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`shards` is a power of two. With one shard there are no members: the holder keeps it.

        Expiries are moments of the clock that `clock_sql` reads from the database; without it, of `now`.
        """
        self.name, self.shards, self.seconds = name, shards, seconds
        self.holder = holder or secrets.token_hex(8)
        self.fences: dict[int, int] = {}  # of the shards that were held when last claimed
        self.gaps: dict[int, float] = {}  # of those that the last claim took
        self.share = shards
        self._clock_sql, self._now, self._monotonic = clock_sql, now, monotonic
        self._held_until = self._next_claim = -1.0
        self._joined = False

    # -- what this process holds ------------------------------------------------------------------

    def shard_of(self, sequence: int) -> int:
        return sequence & self.shards - 1

    @property
    def held(self) -> bool:
        """Whether this process holds any shard."""
        return bool(self.fences) and self._monotonic() < self._held_until

    def holds(self, sequence: int) -> bool:
        return self.held and self.shard_of(sequence) in self.fences

    def until_claim(self) -> float:
        """Seconds until `claim` is due."""
        return max(0.0, self._next_claim - self._monotonic())

    def claim_soon(self) -> None:
        self._next_claim = -1.0

    def drop(self) -> None:
        """Stop holding shards now. Others can take them when their rows expire."""
        self.fences = {}
        self.claim_soon()

    # -- writes under a lease ---------------------------------------------------------------------

    def require(self, transaction: Transaction, sequence: int) -> None:
        """Raises LeaseLost when another process took the shard of this row."""
        if not self.protected(transaction, [sequence]):
            raise LeaseLost(f"another process holds a shard of the lease {self.name!r}")

    def protected(self, transaction: Transaction, sequences: Iterable[int]) -> set[int]:
        """Those of the rows that no other process took: their results may be saved."""
        rows = transaction.all("SELECT name, fence FROM leases WHERE holder = :holder", {"holder": self.holder})
        fences = {row.name: row.fence for row in rows}
        return {each for each in sequences if fences.get(self._row(shard := self.shard_of(each))) == self._fence(shard)}

    def _fence(self, shard: int) -> int:
        return self.fences.get(shard, 0)  # no row has a fence of 0

    # -- claiming ---------------------------------------------------------------------------------

    async def claim(self, database: Database, writer: Writer) -> None:
        """Renew what this process holds, and take free shards up to its share. Raises StoreError, ServerFailure."""
        if not self.held:
            self.fences = {}
        started = self._monotonic()
        found = await database.run_in_reader(partial(self._look, database.read))
        if found is None:
            found = await writer.write(self._claim)
            self._held_until, self._joined = started + self.seconds, True
        self.fences, self.gaps, self.share = found.fences, found.gaps, found.share
        soon = self.seconds / 3 if self.fences or self.shards > 1 else found.next_expiry
        self._next_claim = started + max(min(soon, found.next_expiry), _SHORTEST_WAIT)

    def _look(self, read: ReadRows) -> _Found | None:
        """For the only shard, while another process holds it, there is nothing to write."""
        if self.shards > 1 or self.fences:
            return None
        now = self._moment(read)
        row = self._live(read, now).get(self._row(0))
        return None if row is None or row.holder == self.holder else _Found({}, {}, 1, (row.expires_at - now) / 1000)

    def _claim(self, transaction: Transaction) -> _Found:
        now = self._moment(transaction.all)
        if self.shards > 1:
            self._join(transaction, now)
        before = {row.name: row for row in self._read(transaction.all)}
        live = {name: row for name, row in before.items() if self._is_live(row, now)}
        mine = {each: live[self._row(each)].fence for each in range(self.shards) if self._is_mine(live, each)}
        self._renew(transaction, now, list(mine))
        share = self._share(live)
        free = [each for each in range(self.shards) if each not in mine and self._is_free(live, each)]
        taken = self._take(transaction, now, free[: max(0, share - len(mine))])
        gaps = {each: self._gap(before.get(self._row(each)), now) for each in taken}
        others = [row.expires_at - now for row in live.values() if row.holder != self.holder]
        return _Found(mine | taken, gaps, share, min(others, default=_milliseconds(self.seconds)) / 1000)

    def _moment(self, read: ReadRows) -> int:
        """Now, in milliseconds."""
        if not self._clock_sql:
            return _milliseconds(self._now())
        moment: int = read(f"SELECT {self._clock_sql} AS moment", {})[0].moment
        return moment

    def _join(self, transaction: Transaction, now: int) -> None:
        members = {"members": f"{self.name} {_MEMBER}%", "now": now}
        transaction.execute("DELETE FROM leases WHERE name LIKE :members AND expires_at <= :now", members)
        self._upsert(transaction, now, [f"{self.name} {_MEMBER}{self.holder}"])

    def _renew(self, transaction: Transaction, now: int, shards: list[int]) -> None:
        if shards:
            sql = f"UPDATE leases SET expires_at = :until WHERE holder = :holder AND expires_at > :now AND {_ROWS}"
            transaction.execute(sql, self._values(now) | self._names)

    def _take(self, transaction: Transaction, now: int, shards: list[int]) -> dict[int, int]:
        fences = self._upsert(transaction, now, sorted(map(self._row, shards)))  # sorted: two takers cannot deadlock
        return {each: fences[self._row(each)] for each in shards if self._row(each) in fences}

    def _upsert(self, transaction: Transaction, now: int, names: Sequence[str]) -> dict[str, int]:
        """Take these rows unless another process has them; return the fence of each."""
        if not names:
            return {}
        listed = {f"n{number}": name for number, name in enumerate(names)}
        rows = transaction.all(
            "INSERT INTO leases (name, holder, fence, expires_at) VALUES "
            + ", ".join(f"(:{each}, :holder, 1, :until)" for each in listed)
            + " ON CONFLICT (name) DO UPDATE SET fence = leases.fence + 1, holder = :holder, expires_at = :until"
            f" WHERE {_FREE} RETURNING name, fence",
            listed | self._values(now),
        )
        return {row.name: row.fence for row in rows}

    def _values(self, now: int) -> dict[str, int | str]:
        until, absurd = now + _milliseconds(self.seconds), now + _milliseconds(_ABSURD_PERIODS * self.seconds)
        return {"holder": self.holder, "now": now, "until": until, "absurd": absurd}

    # -- rows -------------------------------------------------------------------------------------

    def _row(self, shard: int) -> str:
        """The first shard has the name of the work: a version without shards uses that row for all of it."""
        return f"{self.name} {shard}" if shard else self.name

    @property
    def _names(self) -> dict[str, str]:
        return {"name": self.name, "others": f"{self.name} %"}

    def _read(self, read: ReadRows) -> list[Row]:
        return read(f"SELECT name, holder, fence, expires_at FROM leases WHERE {_ROWS}", self._names)

    def _live(self, read: ReadRows, now: int) -> dict[str, Row]:
        return {row.name: row for row in self._read(read) if self._is_live(row, now)}

    def _is_live(self, row: Row, now: int) -> bool:
        expires_at: int = row.expires_at
        return now < expires_at <= now + _milliseconds(_ABSURD_PERIODS * self.seconds)

    def _is_mine(self, live: Mapping[str, Row], shard: int) -> bool:
        row = live.get(self._row(shard))
        return row is not None and row.holder == self.holder and row.fence == self._fence(shard)

    def _is_free(self, live: Mapping[str, Row], shard: int) -> bool:
        row = live.get(self._row(shard))
        return row is None or row.holder == self.holder

    def _share(self, live: Mapping[str, Row]) -> int:
        """How many shards this process may hold: none while a process of a version without shards checks all rows."""
        if self.shards == 1:
            return 1
        members = {row.holder for name, row in live.items() if name.startswith(f"{self.name} {_MEMBER}")}
        first = live.get(self._row(0))
        return -(-self.shards // len(members)) if first is None or first.holder in members else 0

    def _gap(self, row: Row | None, now: int) -> float:
        """How many seconds ago the rows of a shard were last known to be checked."""
        if row is None:
            return 0.0
        renewed = self.seconds if row.holder else 0.0  # a dead holder may have checked nothing since it renewed
        expired: float = (now - row.expires_at) / 1000
        return max(0.0, expired + renewed)

    # -- releasing --------------------------------------------------------------------------------

    async def release(self, writer: Writer, gaps: Mapping[int, float]) -> None:
        """Let other processes take these shards. Raises ServerFailure.

        A gap is the seconds since every row of the shard that was due had been checked.
        """
        fences = {each: self.fences.pop(each) for each in gaps if each in self.fences}
        if fences:
            await writer.write(partial(self._free, fences, gaps))

    def _free(self, fences: Mapping[int, int], gaps: Mapping[int, float], transaction: Transaction) -> None:
        now = self._moment(transaction.all)
        for shard, fence in fences.items():
            sql = "UPDATE leases SET holder = '', expires_at = :at WHERE name = :name AND holder = :holder"
            held = {"name": self._row(shard), "holder": self.holder, "fence": fence}
            transaction.execute(f"{sql} AND fence = :fence", held | {"at": now - _milliseconds(gaps[shard])})

    async def leave(self, writer: Writer, gaps: Mapping[int, float]) -> None:
        """Release these shards and stop being a member. Raises ServerFailure."""
        if not self._joined:
            return
        fences, self.fences, self._joined = self.fences, {}, False
        self.claim_soon()
        await writer.write(partial(self._leave, fences, {each: gaps.get(each, 0.0) for each in fences}))

    def _leave(self, fences: Mapping[int, int], gaps: Mapping[int, float], transaction: Transaction) -> None:
        self._free(fences, gaps, transaction)
        transaction.execute("DELETE FROM leases WHERE name = :name", {"name": f"{self.name} {_MEMBER}{self.holder}"})


def _milliseconds(moment: float) -> int:
    return int(moment * 1000)
