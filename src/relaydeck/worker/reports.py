"""What a worker reports about itself: each report is a metric, a line of the log, or both."""

from typing import TYPE_CHECKING

from relaydeck.credentials.token_rows import Token
from relaydeck.errors import Damaged
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import (
    DAMAGED_VALUES,
    ESTIMATE_SECONDS,
    ESTIMATES,
    EVENT_TRIES,
    FORGED_TOKENS,
    HISTORY_CHANGES,
    MONITOR_CHECKS,
    MONITOR_LAG,
    MONITOR_ROUND,
    MONITOR_SHARDS,
    OPEN_FILES,
    READ_MODEL_AGE,
    RESIDENT_BYTES,
    SIGNER_CHECKS,
    STORE_AWAY,
    UNEXPECTED_FAILURES,
    WORKERS,
)
from relaydeck.http.pipeline import innermost
from relaydeck.log import Log
from relaydeck.process_figures import own_process

if TYPE_CHECKING:
    from relaydeck.relayers.monitor import RoundReport


class Reports:
    def __init__(self, log: Log, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    def damage(self, damage: Damaged) -> None:
        self._metrics.count(DAMAGED_VALUES)
        self._log.event("error", "a sealed value cannot be opened", record=damage.record, table=damage.table)

    def forged_token(self, token: Token) -> None:
        self._metrics.count(FORGED_TOKENS)
        self._log.event("error", "a token that Relaydeck did not write is refused: see SECURITY.md", token=token.name)

    def unforeseen_failure(self, error: BaseException) -> None:
        self._metrics.count(UNEXPECTED_FAILURES)
        self._log.event("error", "a fee estimate failed unexpectedly", error=type(error).__name__, at=innermost(error))

    def lost_traces(self, collector: str, problems: int) -> None:
        self._log.event("warning", "traces do not reach the collector", collector=collector, problems=problems)

    def estimate(self, outcome: str, nanoseconds: int) -> None:
        self._metrics.count(ESTIMATES, outcome)
        self._metrics.observe(ESTIMATE_SECONDS, nanoseconds, outcome)

    def delivery_attempt(self, outcome: str) -> None:
        self._metrics.count(EVENT_TRIES, outcome)

    def signer_check(self, outcome: str) -> None:
        self._metrics.count(SIGNER_CHECKS, outcome)

    def relayer_check(self, outcome: str) -> None:
        self._metrics.count(MONITOR_CHECKS, outcome)

    def monitor_round(self, report: "RoundReport") -> None:
        self._metrics.set(MONITOR_ROUND, report.completed_at)
        self._metrics.set(MONITOR_LAG, report.lag)
        self._metrics.set(MONITOR_SHARDS, report.shards)

    def database_problem(self, problem: str) -> None:
        """Empty: the database is reachable again."""
        self._metrics.set(STORE_AWAY, bool(problem))
        if problem:
            self._log.event("error", "the database is unreachable: lists are answered from memory", problem=problem)
        else:
            self._log.event("info", "the database is reachable again")

    def database_fork(self, problem: str) -> None:
        self._metrics.count(HISTORY_CHANGES)
        self._log.event(
            "error", "the database failed over or was rolled back: everything is loaded again", problem=problem
        )

    def process(self, read_model_age: float, *, accepts: bool) -> None:
        """Each second: that this worker runs and accepts connections, and its figures."""
        figures = own_process()
        if accepts:
            self._metrics.beat()
        self._metrics.set(READ_MODEL_AGE, int(read_model_age))
        self._metrics.set(WORKERS, 1)
        self._metrics.set(RESIDENT_BYTES, figures.resident_bytes)
        self._metrics.set(OPEN_FILES, figures.open_files)
