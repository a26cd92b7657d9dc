"""What a worker reports about itself and its nodes: each report is a metric, a line of the log, or both."""

import asyncio
import time
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from relaydeck.credentials.tokens import Token
from relaydeck.errors import Damaged, described
from relaydeck.fees.estimator import Estimator
from relaydeck.http import metrics as m
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import Figures
from relaydeck.http.pipeline import innermost
from relaydeck.log import Log
from relaydeck.networks.evm.node_figures import HostFigures, NodeFigures, write_figures
from relaydeck.process.figures import own_process
from relaydeck.store.lock_holder import LockHolder

if TYPE_CHECKING:
    from relaydeck.relayers.monitor import RoundReport

_REPORT_SECONDS = 2.0
_DISPUTE_SECONDS = 60.0
_LOCK_WAIT = "writes wait for the holder of the write lock"


class Reports:
    def __init__(self, log: Log, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    def damage(self, damage: Damaged) -> None:
        self._metrics.count(m.DAMAGED_VALUES)
        self._log.event("error", "a sealed value cannot be opened", record=damage.record, table=damage.table)

    def forged_token(self, token: Token) -> None:
        self._metrics.count(m.FORGED_TOKENS)
        self._log.event("error", "a token that Relaydeck did not write is refused: see SECURITY.md", token=token.name)

    def issuer_keys(self, issuer: str, problem: str) -> None:
        """Empty: its keys were read."""
        self._metrics.count(m.ISSUER_READS, "failed" if problem else "ok")
        if problem:
            self._log.event(
                "warning",
                "the keys of an issuer cannot be read: known ones are used for a day",
                issuer=issuer,
                problem=problem,
            )

    def sign_on(self, issuer: str, reason: str) -> None:
        """One that failed. Empty issuer: it was begun at none, or too long ago."""
        self._log.event("warning", "a person could not sign in", issuer=issuer, reason=reason)

    def unforeseen_failure(self, error: BaseException) -> None:
        self._metrics.count(m.UNEXPECTED_FAILURES)
        self._log.event("error", "a fee estimate failed unexpectedly", error=described(error), at=innermost(error))

    def lost_traces(self, collector: str) -> None:
        self._log.event("warning", "traces do not reach the collector", collector=collector)

    def estimate(self, outcome: str, nanoseconds: int) -> None:
        self._metrics.count(m.ESTIMATES, outcome)
        self._metrics.observe(m.ESTIMATE_SECONDS, [nanoseconds], outcome)

    def monitor_round(self, report: "RoundReport") -> None:
        self._metrics.set(m.MONITOR_ROUND, report.completed_at)
        self._metrics.set(m.MONITOR_LAG, report.lag)
        self._metrics.set(m.MONITOR_SHARDS, report.shards)

    def loading(self, records: int) -> None:
        self._metrics.set(m.LOADING, records)

    def database_problem(self, problem: str) -> None:
        """Empty: the database is reachable again."""
        self._metrics.set(m.STORE_AWAY, bool(problem))
        if problem:
            self._log.event("error", "the database is unreachable: lists are answered from memory", problem=problem)
        else:
            self._log.event("info", "the database is reachable again")

    def database_fork(self, problem: str) -> None:
        self._metrics.count(m.HISTORY_CHANGES)
        self._log.event(
            "error", "the database failed over or was rolled back: everything is loaded again", problem=problem
        )

    def lock_wait(self, holder: LockHolder, ended: bool) -> None:
        """Writes wait for a session or process for seconds. `ended`: because it was stuck. In any thread."""
        event = "the holder of the write lock was stuck: it was ended" if ended else _LOCK_WAIT
        fields = {"holder": str(holder)} | ({"replica": holder.replica} if holder.replica else {})
        self._log.event("error" if ended else "warning", event, cause=f"{holder.pid}", **fields)

    def process(self, read_model_age: float) -> None:
        """Each second: that this worker runs, and its figures."""
        figures = own_process()
        self._metrics.beat()
        self._metrics.set(m.READ_MODEL_AGE, int(read_model_age))
        self._metrics.set(m.WORKERS, 1)
        self._metrics.set(m.RESIDENT_BYTES, figures.resident_bytes)
        self._metrics.set(m.OPEN_FILES, figures.open_files)


async def report_nodes(estimator: Estimator, folder: Path, log: Log) -> None:
    """Until cancelled."""
    disputes, changes = DisputeLog(log), dict[str, str]()
    while True:
        await asyncio.sleep(_REPORT_SECONDS)
        if (figures := estimator.node_figures()) != NodeFigures():
            write_figures(folder, figures)
            disputes.update(figures.disputes)
            for feed, change in figures.feed_changes.items() - changes.items():
                log.event("warning", "a price feed has changed", feed=feed, change=change)
            changes = figures.feed_changes


class DisputeLog:
    """Logs that nodes disagree when it begins, and when it is over: not for each estimate, and not more than once a
    minute for nodes that change their minds."""

    def __init__(self, log: Log, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._monotonic = monotonic
        self._logged: dict[int, tuple[bool, float]] = {}  # by chain id: whether they disagree, and since when

    def update(self, disputes: Mapping[int, str]) -> None:
        now = self._monotonic()
        for chain_id in disputes.keys() | self._logged.keys():
            disputed, at = self._logged.get(chain_id, (False, -inf))
            if (chain_id in disputes) == disputed or now - at < _DISPUTE_SECONDS:
                continue
            self._logged[chain_id] = (not disputed, now)
            if disputed:
                self._log.event("info", "the nodes of a network agree again", chain_id=chain_id)
            else:
                self._log.event(
                    "warning",
                    "the nodes of a network disagree",
                    chain_id=chain_id,
                    answers=disputes[chain_id],
                )


def node_metrics(figures: NodeFigures) -> Figures:
    hosts: dict[tuple[str, ...], HostFigures] = {(host,): each for host, each in figures.hosts.items()}
    return {
        m.NODE_UP: {host: int(each.up) for host, each in hosts.items()},
        m.NODE_LAG: {host: each.lag for host, each in hosts.items() if each.lag is not None},
        m.NODE_LATENCY: {host: f"{each.seconds:.4f}" for host, each in hosts.items() if each.seconds is not None},
        m.NODE_ERRORS: {host: each.errors for host, each in hosts.items()},
        m.NODE_OUTVOTED: {host: each.outvoted for host, each in hosts.items()},
        m.NODE_DISAGREEMENTS: figures.disagreements,
    }
