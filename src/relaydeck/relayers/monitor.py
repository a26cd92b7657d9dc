"""Checks every relayer that is not paused, once in an interval. The processes share the relayers by leases.

Most checks have nothing to save. Otherwise counts, state and events are saved in one transaction, under the fence of
the relayer's shard. Incidents are stored (`snapshots.py`), so that the process that takes over continues the count of
failed rounds. Balances go to the balance recorder, which writes those that changed.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

from relaydeck.errors import ServerFailure
from relaydeck.log import Log
from relaydeck.networks.evm.agreement import Decision
from relaydeck.networks.evm.errors import NodeError, NodesDisagree, NodesUnreachable
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import Question, read_quantity
from relaydeck.notifications.model import EventKind
from relaydeck.process.background import TaskSet, gather_all, gather_some
from relaydeck.relayers import balance_history, health, snapshots
from relaydeck.relayers.balance_history import CONFIRM_SECONDS, BalancePeriod, Retention, next_period
from relaydeck.relayers.health import CheckResult
from relaydeck.relayers.snapshots import GetPool, NodeProblem, RelayerGroup, RelayerSnapshot
from relaydeck.scheduling.rounds import RoundOptions, Rounds
from relaydeck.settings.model import Settings
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer

# -- Checks of relayers: read nonces and balances from their nodes, or collect what is wrong with each node --

_MAX_TOGETHER = 16  # relayers of a group that are checked one by one


async def check_relayers(pool: NodePool, addresses: Sequence[str], seconds: float) -> list[CheckResult]:
    """Check relayers with the same nodes in one request to each that must agree, or each by itself when that fails.

    An unreachable node is probed again unless it was within the last `seconds`.
    """
    if len(addresses) == 1:
        return await _check_together(pool, addresses, seconds)
    async with pool.large_batches:
        return await _check_together(pool, addresses, seconds)


async def _check_together(pool: NodePool, addresses: Sequence[str], seconds: float) -> list[CheckResult]:
    pool.probe_unreachable(seconds)
    try:
        answers = await pool.ask_newest(
            lambda block: [each for address in addresses for each in _asked(address, block)]
        )
        return [_result(*each) for each in zip(answers[::2], answers[1::2], strict=True)]
    except NodesDisagree as failure:
        return [_disputed(failure)] * len(addresses)
    except NodeError as error:
        if len(addresses) == 1:
            return [CheckResult(True, evidence=(_refusal("a node", error),))]
    except NodesUnreachable:
        if len(addresses) == 1:
            return [_unreachable(pool)]
    # The request may have been too much for a node that answers smaller ones.
    alone = await gather_some(_MAX_TOGETHER, lambda each: _check_together(pool, [each], seconds), addresses)
    return [result for (result,) in alone]


def _asked(address: str, block: str) -> tuple[Question[int], Question[int]]:
    return (
        Question("eth_getTransactionCount", (address, block), read_quantity, about=f"the nonce of {address}"),
        Question("eth_getBalance", (address, block), read_quantity, about=f"the balance of {address}"),
    )


def _result(count: Decision | NodesDisagree, wei: Decision | NodesDisagree) -> CheckResult:
    """That one node returns the nonce is enough. A balance that the nodes do not agree on is not known."""
    if isinstance(count, NodesDisagree):
        result = _disputed(count)
    elif isinstance(count.chosen.value, NodeError):
        result = CheckResult(
            True, evidence=tuple(_refusal(each.node.shown, count.chosen.value) for each in count.believed)
        )
    else:
        result = CheckResult(True, count.chosen.value)
    balance = wei.chosen.value if isinstance(wei, Decision) else None
    return result._replace(balance=None if isinstance(balance, NodeError) else balance)


def _refusal(node: str, error: NodeError) -> NodeProblem:
    # Without the node's message: it is text from outside.
    return NodeProblem(node, f"answered error {error.code} when asked for the nonce")


def _disputed(failure: NodesDisagree) -> CheckResult:
    nonce = next((each for each in failure.values if not isinstance(each, NodeError)), None)
    return CheckResult(True, nonce, evidence=(NodeProblem("the nodes", f"do not agree: {failure}"),))


def _unreachable(pool: NodePool) -> CheckResult:
    evidence = tuple(NodeProblem(each.shown, each.reason or "did not answer in time") for each in pool.nodes)
    return CheckResult(any(each.answers for each in pool.nodes), evidence=evidence)


# -- Collects the balances that checks read, and writes the changes of many relayers in one transaction --
# A balance is written when it changed, and confirmed once an hour while it does not. What was collected and not yet
# written is lost when a process dies: the next check reads the balance again.

_HOUR = 3600
_MOST_AHEAD = 60  # seconds


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
        """Writes `seconds` after the first balance that was noted, for those relayers that `protected` returns."""
        self._writer, self._log, self._retention = writer, log, retention
        self._seconds, self._protected, self._now = seconds, protected, now
        self._tasks = TaskSet()
        self._noted: dict[int, dict[int, BalancePeriod]] = {}  # by the relayer's sequence number and `since`
        self._to_compact: set[int] = set()

    def note(self, sequence: int, stored: BalancePeriod | None, balance: int) -> None:
        """A check read this balance. `stored` is the relayer's newest period in the database."""
        noted, now = self._noted.get(sequence), int(self._now())
        last = [*noted.values()][-1] if noted else stored
        if last is not None and last.balance == balance and now - last.until < CONFIRM_SECONDS:
            return
        if last is not None and last.balance != balance and last.since > now + _MOST_AHEAD:
            return  # a clock that was set back, or a change in every second: a later check decides
        period = next_period(last, balance, now)
        self._noted.setdefault(sequence, {})[period.since] = period
        if last is not None and last.since // _HOUR != now // _HOUR:
            self._to_compact.add(sequence)
        if not self._tasks:
            self._tasks.start(self._write_later())

    async def _write_later(self) -> None:
        while self._noted:  # a check may have read more while the last ones were written
            await asyncio.sleep(self._seconds)
            await self.write()

    async def write(self) -> None:
        """Write what was noted. A failure is logged, and the next checks note the same again."""
        noted, self._noted = self._noted, {}
        to_compact, self._to_compact = self._to_compact, set()
        if not noted:
            return
        try:
            await self._writer.write(lambda transaction: self._save(transaction, noted, to_compact))
        except ServerFailure as failure:
            self._log.event("error", "balances cannot be saved", problem=failure.reason)

    def _save(self, transaction: Transaction, noted: dict[int, dict[int, BalancePeriod]], to_compact: set[int]) -> None:
        # Without those that another process checks now: it reads their balances too.
        present = self._protected(transaction, balance_history.existing(transaction, sorted(noted)))
        periods = [(each, period) for each in sorted(present) for period in noted[each].values()]
        balance_history.save(transaction, periods)
        if to_compact := present & to_compact:
            balance_history.compact(transaction, sorted(to_compact), self._retention, int(self._now()))

    async def join(self) -> None:
        """Wait until everything noted so far is written."""
        await self._tasks.join()

    async def close(self) -> None:
        await self._tasks.cancel()
        await self.write()


_RECORD_SECONDS = 10.0


class MonitorOptions(NamedTuple):
    interval: float = 60.0
    rounds: int = 3  # without any answer, until a relayer is disabled
    lease_seconds: float = 30.0
    max_checks: int = 64  # requests at the same time
    together: int = 100  # relayers in one request
    retention: Retention = Retention()
    record_seconds: float = _RECORD_SECONDS  # between writes of balances
    warn_hours: int = 24  # of runway


def monitor_options(settings: Settings) -> MonitorOptions:
    return MonitorOptions(
        interval=settings.monitor_interval_seconds,
        rounds=settings.monitor_rounds,
        lease_seconds=settings.lease_seconds,
        retention=Retention(settings.balance_minute_days, settings.balance_ten_minute_days, settings.balance_days),
        record_seconds=min(_RECORD_SECONDS, settings.monitor_interval_seconds / 2),
        warn_hours=settings.runway_warn_hours,
    )


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
_GOOD_NEWS = (EventKind.RELAYER_ENABLED, EventKind.RELAYER_RUNWAY_RECOVERED)


class Monitor(Rounds[RelayerGroup]):
    table: str = "relayers"
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
    ) -> None:
        rounds = RoundOptions(options.interval, options.lease_seconds, options.max_checks, options.together)
        super().__init__(store, writer, log, rounds, now=now, monotonic=monotonic)
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

    async def close(self) -> None:
        await self._running.cancel()
        await self.recorder.close()
        await super().close()

    async def turn(self) -> float:
        pause = await super().turn()
        self._report_round()
        return pause

    def _report_round(self) -> None:
        if not self._since:
            self._round_ends, self._round_at = 0.0, 0
            self._gauges.rounds(RoundReport())
            return
        now, reached = self._now(), self._schedule.reached_at
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
        pool = await self._pool(first.urls, first.network)  # the first call loads an HTTP client, in a thread
        addresses = [each.relayer.address for each in checked]
        results = await check_relayers(pool, addresses, self._options.interval / 4)
        found = zip(checked, results, strict=True)
        await gather_all(self._save(each, result) for each, result in found if self._note(each, result))

    def _note(self, checked: RelayerSnapshot, result: CheckResult) -> bool:
        """Count the result and note its balance. Return whether there may be more to save: for most, there is not."""
        self._gauges.checked("unanswered" if result.nonce is None else "ok")
        if not self._leases.holds(checked.sequence):
            return False
        if result.balance is not None:
            self.recorder.note(checked.sequence, checked.last_balance, result.balance)
        now = int(self._now())
        return self._forecast_is_due(checked, result, now) or health.needs_saving(checked, result, now)

    def _forecast_is_due(self, checked: RelayerSnapshot, result: CheckResult, now: int) -> bool:
        return health.forecast_is_due(checked, result.balance, self._options.interval, now)

    async def _save(self, checked: RelayerSnapshot, result: CheckResult) -> None:
        now, decision = int(self._now()), None
        if result.balance is not None and self._forecast_is_due(checked, result, now):
            hours = checked.warn_hours(self._options.warn_hours)
            decide = partial(health.decide_runway, self._read, checked, result.balance, hours, now)
            decision = await self._run_in_reader(decide)
        if decision is None and not health.needs_saving(checked, result, now):
            return

        def write(transaction: Transaction) -> dict[EventKind, dict[str, str]]:
            self._leases.require(transaction, checked.sequence)
            context = ChangeContext(transaction, self._audit, "monitor", int(self._now()))
            return health.save(context, checked, result, decision, self._options.rounds)

        for kind, facts in (await self._writer.write(write)).items():
            level = "info" if kind in _GOOD_NEWS else "warning"
            self._log.event(level, kind.value, relayer=checked.relayer.id, **facts)
