"""Checks every relayer that is not paused, once in an interval. The processes share the relayers by leases.

Most checks have nothing to save. Otherwise counts, state and events are saved in one transaction, under the fence of
the relayer's shard. Incidents are stored (`incidents.py`), so that the process that takes over continues the count of
failed rounds. Balances go to the balance recorder, which writes those that changed.
"""

import random
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from relaydeck.background import gather_all
from relaydeck.log import Log
from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import health, runway_watch, snapshots
from relaydeck.relayers.balance_recorder import BalanceRecorder
from relaydeck.relayers.balance_rows import Retention
from relaydeck.relayers.incidents import CheckResult
from relaydeck.relayers.runway_watch import Decision, RunwayWatch
from relaydeck.relayers.snapshots import GetPool, RelayerGroup, RelayerSnapshot
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
    max_checks: int = 64  # requests at the same time
    together: int = 100  # relayers in one request
    jitter: float = 0.05  # of the interval
    retention: Retention = Retention()
    record_seconds: float = 10.0  # between writes of balances
    warn_hours: int = 24  # of runway


class MonitorGauges(NamedTuple):
    """Where the monitor reports what it does."""

    checked: Callable[[str], None]  # the result of a check: `ok` or `unanswered`
    rounds: Callable[["RoundReport"], None]


class RoundReport(NamedTuple):
    """How far this process is with the relayers it checks."""

    completed_at: int = 0  # when its last round was complete; 0: none yet
    lag: int = 0  # in seconds
    shards: int = 0  # that it holds


NO_GAUGES = MonitorGauges(lambda _result: None, lambda _report: None)
SHARDS = 64


class Monitor(Rounds[RelayerGroup]):
    table: ClassVar[str] = "relayers"
    lease_name: ClassVar[str] = "monitor"
    shards: ClassVar[int] = SHARDS
    failure: ClassVar[str] = "relayers are not checked"

    def __init__(
        self,
        store: Store,
        writer: Writer,
        audit: AuditLog,
        log: Log,
        pool: GetPool,
        options: MonitorOptions,
        gauges: MonitorGauges = NO_GAUGES,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        rounds = RoundOptions(
            options.interval, options.lease_seconds, options.max_checks, options.jitter, options.together
        )
        super().__init__(store, writer, log, rounds, now=now, monotonic=monotonic, random=random)
        self._audit, self._pool, self._options, self._gauges = audit, pool, options, gauges
        self._round_ends, self._round_at = 0.0, 0  # the round under way, and when the last one was complete
        self.recorder = BalanceRecorder(
            writer,
            log,
            options.retention,
            seconds=options.record_seconds,
            protected=self._leases.protected,
            now=now,
        )
        self._runways = RunwayWatch(store.database, interval=options.interval, warn_hours=options.warn_hours, now=now)

    async def close(self) -> None:
        await self.recorder.close()
        await super().close()

    async def turn(self) -> float:
        pause = await super().turn()
        self._report_round()
        return pause

    def _report_round(self) -> None:
        if not self._cursors:
            self._round_ends, self._round_at = 0.0, 0
            self._gauges.rounds(RoundReport())
            return
        now, reached = self._now(), min(each.reached_at for each in self._cursors.values())
        if self._round_ends and reached >= self._round_ends:
            self._round_at = int(now)
        if reached >= self._round_ends:
            self._round_ends = now + self._options.interval
        self._gauges.rounds(RoundReport(self._round_at, int(self.lag()), len(self._leases.fences)))

    def read_due(self, sequences: Sequence[int]) -> list[tuple[Sequence[int], RelayerGroup]]:
        found = snapshots.read_relayers(self._read, self._vault, sequences)
        groups = snapshots.group_by_nodes(found, self._options.together)
        return [([each.sequence for each in group], group) for group in groups]

    async def check_and_save(self, checked: RelayerGroup) -> None:
        first = checked[0]
        pool = await self._pool(first.urls, first.chain_id)  # the first call loads an HTTP client, in a thread
        from relaydeck.relayers.relayer_check import check_relayers

        addresses = [each.relayer.address for each in checked]
        results = await check_relayers(pool, addresses, self._options.interval / 4)
        await gather_all(
            work for each, result in zip(checked, results, strict=True) for work in self._to_save(each, result)
        )

    def _to_save(self, checked: RelayerSnapshot, result: CheckResult) -> Iterator[Coroutine[Any, Any, None]]:
        """What a result leaves to do: for most, nothing."""
        self._gauges.checked("unanswered" if result.nonce is None else "ok")
        if not self._leases.holds(checked.sequence):
            return
        if result.balance is not None:
            self.recorder.note(checked.sequence, checked.last_balance, result.balance)
            if self._runways.is_due(checked, result.balance):
                yield self._forecast(checked, result.balance)
        if health.needs_saving(checked, result, int(self._now())):
            yield self._save(checked, result)

    async def _forecast(self, checked: RelayerSnapshot, balance: int) -> None:
        if (decision := await self._runways.decide(checked, balance)) is not None:
            await self._save_runway(checked, decision)

    async def _save_runway(self, checked: RelayerSnapshot, decision: Decision) -> None:
        def write(transaction: Transaction) -> EventKind | None:
            self._leases.require(transaction, checked.sequence)
            context = ChangeContext(transaction, self._audit, "monitor", int(self._now()))
            return runway_watch.save(context, checked, decision)

        if (kind := await self._writer.write(write)) is not None:
            level = "warning" if kind is EventKind.RELAYER_RUNWAY_LOW else "info"
            self._log.event(level, kind.value, relayer=checked.relayer.id, **decision[2])

    async def _save(self, relayer: RelayerSnapshot, result: CheckResult) -> None:
        def write(transaction: Transaction) -> list[EventKind]:
            self._leases.require(transaction, relayer.sequence)
            context = ChangeContext(transaction, self._audit, "monitor", int(self._now()))
            return health.save_result(context, relayer, result, self._options.rounds)

        for kind in await self._writer.write(write):
            self._log_event(kind, relayer, result)

    def _log_event(self, kind: EventKind, relayer: RelayerSnapshot, result: CheckResult) -> None:
        nodes = "; ".join(f"{each.node} {each.problem}" for each in result.evidence)
        level = "info" if kind is EventKind.RELAYER_ENABLED else "warning"
        self._log.event(level, kind.value, relayer=relayer.relayer.id, nodes=nodes)
