"""Checks every relayer that is not paused, once in an interval. One process does it, by a lease.

Most checks have nothing to save. Otherwise counts, state and events are saved in one transaction, under the lease's
fence. Incidents are stored (`incidents.py`), so that the process that takes over continues the count of failed rounds.
Balances go to the balance recorder, which writes those that changed.
"""

import random
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from relaydeck.log import Log
from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import health, runway_watch, snapshots
from relaydeck.relayers.balance_recorder import BalanceRecorder
from relaydeck.relayers.balance_rows import Retention
from relaydeck.relayers.incidents import CheckResult
from relaydeck.relayers.runway_watch import Decision, RunwayWatch
from relaydeck.relayers.snapshots import GetPool, RelayerSnapshot
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.rounds import RoundOptions, Rounds
from relaydeck.store.writer import Writer


class MonitorOptions(NamedTuple):
    interval: float = 60.0
    rounds: int = 3  # without any answer, until a relayer is disabled
    lease_seconds: float = 30.0
    max_checks: int = 64  # at the same time
    jitter: float = 0.05  # of the interval
    retention: Retention = Retention()
    record_seconds: float = 10.0  # between writes of balances
    warn_hours: int = 24  # of runway


class Monitor(Rounds[RelayerSnapshot]):
    table: ClassVar[str] = "relayers"
    lease_name: ClassVar[str] = "monitor"
    failure: ClassVar[str] = "relayers are not checked"

    def __init__(
        self,
        store: Store,
        writer: Writer,
        audit: AuditLog,
        log: Log,
        pool: GetPool,
        options: MonitorOptions,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        rounds = RoundOptions(options.interval, options.lease_seconds, options.max_checks, options.jitter)
        super().__init__(store, writer, log, rounds, now=now, monotonic=monotonic, random=random)
        self._audit, self._pool, self._options = audit, pool, options
        self.recorder = BalanceRecorder(
            writer,
            log,
            options.retention,
            seconds=options.record_seconds,
            require_lease=self._lease.require,
            now=now,
        )
        self._runways = RunwayWatch(store.database, interval=options.interval, warn_hours=options.warn_hours, now=now)

    async def close(self) -> None:
        await self.recorder.close()
        await super().close()

    def read_due(self, sequences: Sequence[int]) -> list[tuple[int, RelayerSnapshot]]:
        return [(each.sequence, each) for each in snapshots.read_relayers(self._read, self._vault, sequences)]

    async def check_and_save(self, checked: RelayerSnapshot) -> None:
        pool = await self._pool(checked.urls, checked.chain_id)  # the first call loads an HTTP client, in a thread
        from relaydeck.relayers.relayer_check import check_relayer

        result = await check_relayer(pool, checked.relayer.address, self._options.interval / 4)
        if self._lease.held and result.balance is not None:
            await self._record_balance(checked, result.balance)
        if self._lease.held and health.needs_saving(checked, result, int(self._now())):
            await self._save(checked, result)

    async def _record_balance(self, checked: RelayerSnapshot, balance: int) -> None:
        self.recorder.note(checked.sequence, checked.last_balance, balance)
        if (decision := await self._runways.decide(checked, balance)) is not None:
            await self._save_runway(checked, decision)

    async def _save_runway(self, checked: RelayerSnapshot, decision: Decision) -> None:
        def write(transaction: Transaction) -> EventKind | None:
            self._lease.require(transaction)
            context = ChangeContext(transaction, self._audit, "monitor", int(self._now()))
            return runway_watch.save(context, checked, decision)

        if (kind := await self._writer.write(write)) is not None:
            level = "warning" if kind is EventKind.RELAYER_RUNWAY_LOW else "info"
            self._log.event(level, kind.value, relayer=checked.relayer.id, **decision[2])

    async def _save(self, relayer: RelayerSnapshot, result: CheckResult) -> None:
        def write(transaction: Transaction) -> list[EventKind]:
            self._lease.require(transaction)
            context = ChangeContext(transaction, self._audit, "monitor", int(self._now()))
            return health.save_result(context, relayer, result, self._options.rounds)

        for kind in await self._writer.write(write):
            self._log_event(kind, relayer, result)

    def _log_event(self, kind: EventKind, relayer: RelayerSnapshot, result: CheckResult) -> None:
        nodes = "; ".join(f"{each.node} {each.problem}" for each in result.evidence)
        level = "info" if kind is EventKind.RELAYER_ENABLED else "warning"
        self._log.event(level, kind.value, relayer=relayer.relayer.id, nodes=nodes)
