"""What the overview shows: the fleet in numbers, and the present problems of relayers, signers and receivers."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from relaydeck.api.list_filters import PROBLEMS, WORST_PROBLEM
from relaydeck.notifications import delivery_queries
from relaydeck.relayers import snapshots
from relaydeck.relayers.model import DisabledReason, Policies
from relaydeck.relayers.snapshots import Incident
from relaydeck.signers.check import SignerCheck
from relaydeck.store.database import ReadRows, Row
from relaydeck.store.open_store import Store
from relaydeck.store.rows import columns_of, in_list
from relaydeck.timestamps import utc

_MOST_SHOWN = 20
_MOST_READ = 1000
_MOST_NAMED = 3
_SLOW_SECONDS = 0.05
_KEPT_TIMES = 50  # numbers that took long to read are kept this many times as long


class NetworkCounts(NamedTuple):
    network: str
    total: int
    disabled: int
    paused: int

    @property
    def active(self) -> int:
        return self.total - self.disabled - self.paused


_columns = columns_of(
    NetworkCounts._fields,
    total="count(*)",
    disabled="coalesce(sum(CASE WHEN system_disabled THEN 1 ELSE 0 END), 0)",
    paused="coalesce(sum(CASE WHEN paused AND NOT system_disabled THEN 1 ELSE 0 END), 0)",
)
_COUNTS = f"SELECT {_columns} FROM relayers GROUP BY network ORDER BY network"

ProblemState = Literal["disabled", "failing", "low_balance"]
_WORST_FIRST: tuple[ProblemState, ...] = ("disabled", "failing", "low_balance")
# Of a paused relayer only that it is disabled: its nodes and its balance are not checked.
_TROUBLED = (
    f"SELECT r.id, r.name, r.network, r.paused, r.system_disabled, r.disabled_reason, r.policies, n.native_symbol,"
    f" {snapshots.INCIDENT_COLUMNS} FROM {snapshots.INCIDENTS} i JOIN relayers r ON r.id = i.relayer_id"
    " JOIN networks n ON n.name = r.network"
    " WHERE r.system_disabled OR NOT r.paused ORDER BY coalesce(i.failing_since, i.low_since, 0), r.seq LIMIT :most"
)


class Balance(NamedTuple):
    """A balance below its limit, in Wei."""

    balance: int
    minimum: int
    symbol: str


class RelayerProblem(NamedTuple):
    """Relayers with the same problem are one entry, so that its cause stands out."""

    state: ProblemState
    network: str
    cause: str  # empty: see `low`
    low: Balance | None
    since: str | None  # the earliest
    relayers: tuple[tuple[str, str], ...]  # id and name of the first
    total: int


class Fleet(NamedTuple):
    networks: list[NetworkCounts]
    problems: list[RelayerProblem]
    troubled: int  # relayers with an open incident
    signers: list[SignerCheck]  # that failed
    receivers: list[delivery_queries.FailingReceiver]
    deliveries: delivery_queries.DeliveryCounts

    def total(self, state: str) -> int:
        return sum(getattr(each, state) for each in self.networks)


class FleetReader:
    """Counting a million relayers takes long, so that the counts are kept for a multiple of that time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: list[NetworkCounts] = []
        self._fresh_until = 0.0

    def read(self, store: Store) -> Fleet:
        read = store.database.read
        troubled: int = read(f"SELECT count(*) AS total FROM {snapshots.INCIDENTS}", {})[0].total
        return Fleet(
            self._read_counts(read),
            read_problems(read),
            troubled,
            _failing_signers(read),
            delivery_queries.failing_receivers(read, _MOST_SHOWN),
            delivery_queries.count_deliveries(read),
        )

    def _read_counts(self, read: ReadRows) -> list[NetworkCounts]:
        began = self._clock()
        if began >= self._fresh_until:
            self._counts = [NetworkCounts(*row) for row in read(_COUNTS, {})]
            took = self._clock() - began
            self._fresh_until = began + (took * _KEPT_TIMES if took > _SLOW_SECONDS else 0.0)
        return self._counts


class RelayerOverview(NamedTuple):
    """What a list shows of a relayer beside its record. Amounts are in Wei, times in seconds."""

    id: str
    paused: bool
    problem: str  # the worst; empty: none is known
    symbol: str
    balance: int | None
    seen_at: int | None
    minimum_at: int | None  # when the balance is expected to reach its minimum
    forecast_at: int | None  # when that was expected

    def row(self) -> dict[str, object]:
        """The columns of a file."""
        moments = {"balance_at": utc(self.seen_at), "expected_at_minimum": utc(self.minimum_at)}
        return {"problem": self.problem, "symbol": self.symbol, "balance_wei": self.balance, **moments}


_LATEST = "FROM balances b WHERE b.relayer_seq = relayers.seq ORDER BY since DESC LIMIT 1"
_OVERVIEWS = (
    f"SELECT relayers.id, paused, {WORST_PROBLEM} AS rank, (SELECT native_symbol FROM networks WHERE name = network)"
    f" AS symbol, (SELECT balance {_LATEST}) AS balance, (SELECT until {_LATEST}) AS seen_at, minimum_at, computed_at"
    " FROM relayers LEFT JOIN runways ON relayer_seq = seq WHERE relayers.id IN"
)


def read_overviews(read: ReadRows, relayers: Sequence[str]) -> dict[str, RelayerOverview]:
    """By id, of those that exist."""
    if not relayers:
        return {}
    listed, values = in_list(relayers)
    found = [
        RelayerOverview(
            *(row.id, bool(row.paused), "" if row.rank is None else list(PROBLEMS)[row.rank], row.symbol),
            *(None if row.balance is None else int(row.balance), row.seen_at, row.minimum_at, row.computed_at),
        )
        for row in read(f"{_OVERVIEWS} ({listed})", values)
    ]
    return {each.id: each for each in found}


def _failing_signers(read: ReadRows) -> list[SignerCheck]:
    rows = read(
        "SELECT result FROM signer_checks WHERE outcome <> 'ok' ORDER BY checked_at DESC LIMIT :most",
        {"most": _MOST_SHOWN},
    )
    return [msgspec.json.decode(row.result, type=SignerCheck) for row in rows]


def read_problems(read: ReadRows) -> list[RelayerProblem]:
    """The worst first, and what affects most relayers before the rest."""
    grouped: dict[tuple[ProblemState, str, str, Balance | None], list[Row]] = {}
    for row in read(_TROUBLED, {"most": _MOST_READ}):
        for state, cause, low in _problems_of(row):
            grouped.setdefault((state, row.network, cause, low), []).append(row)
    found = [_group(*key, rows) for key, rows in grouped.items()]
    return sorted(found, key=lambda each: (_WORST_FIRST.index(each.state), -each.total))


def _problems_of(row: Row) -> Iterator[tuple[ProblemState, str, Balance | None]]:
    incident = snapshots.incident_from_row(row)
    if row.system_disabled:
        yield "disabled", _cause(incident, row), None
    elif incident.failed_rounds:
        yield "failing", _cause(incident, row), None
    if incident.low_since is not None and incident.balance is not None and not row.paused:
        minimum = msgspec.json.decode(row.policies, type=Policies).min_balance
        yield "low_balance", "", Balance(incident.balance, minimum, row.native_symbol)


def _cause(incident: Incident, row: Row) -> str:
    if incident.evidence:
        return "; ".join(f"{each.node} {each.problem}" for each in incident.evidence)
    return msgspec.json.decode(row.disabled_reason, type=DisabledReason).details if row.disabled_reason else "not known"


def _group(state: ProblemState, network: str, cause: str, low: Balance | None, rows: list[Row]) -> RelayerProblem:
    moments = [row.low_since if state == "low_balance" else row.failing_since for row in rows]
    since = min((each for each in moments if each is not None), default=None)
    named = tuple((row.id, row.name) for row in rows[:_MOST_NAMED])
    return RelayerProblem(state, network, cause, low, utc(since), named, len(rows))
