"""Collects the balances that checks read, and writes the changes of many relayers in one transaction.

A balance is written when it changed, and confirmed once an hour while it does not. What was collected and not yet
written is lost when a process dies: the next check reads the balance again.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from relaydeck.background import TaskSet
from relaydeck.errors import ServerFailure
from relaydeck.log import Log
from relaydeck.relayers import balance_rows
from relaydeck.relayers.balance_rows import CONFIRM_SECONDS, BalancePeriod, Retention, next_period
from relaydeck.store.database import Transaction
from relaydeck.store.writer import Writer

_HOUR = 3600
_MOST_AHEAD = 60  # seconds


class _Collected(NamedTuple):
    new: dict[int, list[BalancePeriod]]  # by the relayer's sequence number
    confirmed: dict[int, int]  # when the balance was seen again
    to_compact: set[int]

    @property
    def sequences(self) -> list[int]:
        return sorted({*self.new, *self.confirmed})


class BalanceRecorder:
    def __init__(
        self,
        writer: Writer,
        log: Log,
        retention: Retention,
        *,
        seconds: float,
        protected: Callable[[Transaction, Iterable[int]], set[int]],
        now: Callable[[], float],
    ) -> None:
        """Writes `seconds` after the first balance that was collected, for those relayers that `protected` returns."""
        self._writer, self._log, self._retention = writer, log, retention
        self._seconds, self._protected, self._now = seconds, protected, now
        self._tasks = TaskSet()
        self._collected = _Collected({}, {}, set())

    def note(self, sequence: int, stored: BalancePeriod | None, balance: int) -> None:
        """A check read this balance. `stored` is the relayer's newest period in the database."""
        collected, now = self._collected, int(self._now())
        last = collected.new.get(sequence, [stored])[-1]
        period = next_period(last, balance, now)
        if last is not None and last.balance == balance:
            if now - last.until < CONFIRM_SECONDS:
                return
            collected.confirmed[sequence] = now
        elif last is not None and last.since > now + _MOST_AHEAD:
            return  # a clock that was set back, or a change in every second: a later check decides
        else:
            collected.new.setdefault(sequence, []).append(period)
        if last is not None and last.since // _HOUR != now // _HOUR:
            collected.to_compact.add(sequence)
        if not self._tasks:
            self._tasks.start(self._write_later())

    async def _write_later(self) -> None:
        while self._collected.sequences:  # a check may have read more while the last ones were written
            await asyncio.sleep(self._seconds)
            await self.write()

    async def write(self) -> None:
        """Write what was collected. A failure is logged, and the next checks collect the same again."""
        collected, self._collected = self._collected, _Collected({}, {}, set())
        if not collected.sequences:
            return
        try:
            await self._writer.write(lambda transaction: self._save(transaction, collected))
        except ServerFailure as failure:
            self._log.event("error", "balances cannot be saved", problem=failure.reason)

    def _save(self, transaction: Transaction, collected: _Collected) -> None:
        # Without those that another process checks now: it reads their balances too.
        present = self._protected(transaction, balance_rows.existing(transaction, collected.sequences))
        new = [(each, period) for each in sorted(present & collected.new.keys()) for period in collected.new[each]]
        balance_rows.add(transaction, new)
        if confirmed := sorted(present & collected.confirmed.keys()):
            balance_rows.confirm(transaction, confirmed, min(collected.confirmed.values()))
        if to_compact := sorted(present & collected.to_compact):
            balance_rows.compact(transaction, to_compact, self._retention, int(self._now()))

    async def join(self) -> None:
        """Wait until everything collected so far is written."""
        await self._tasks.join()

    async def close(self) -> None:
        await self._tasks.cancel()
        await self.write()
