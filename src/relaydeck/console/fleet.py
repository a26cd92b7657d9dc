"""The fleet in numbers, and what lists show of a relayer beside its record."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from relaydeck.api.list_filters import PROBLEMS, WORST_PROBLEM
from relaydeck.notifications import delivery_queries
from relaydeck.scope import Scope
from relaydeck.store.database import ReadRows
from relaydeck.store.open_store import Store
from relaydeck.store.rows import columns_of, in_list
from relaydeck.timestamps import utc

_SLOW_SECONDS = 0.05
_MOST_KEPT = 100  # scopes
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


class Fleet(NamedTuple):
    networks: list[NetworkCounts]
    deliveries: delivery_queries.DeliveryCounts

    def total(self, state: str) -> int:
        return sum(getattr(each, state) for each in self.networks)


class FleetReader:
    """Counting a million relayers takes long, so that the counts are kept for a multiple of that time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[bytes, tuple[list[NetworkCounts], float]] = {}  # by scope: counts, and until when

    def read(self, scope: Scope | None, store: Store) -> Fleet:
        """Of a store that is read within the scope."""
        read = store.database.read
        return Fleet(
            self._read_counts(b"" if scope is None else scope.key, read), delivery_queries.count_deliveries(read)
        )

    def _read_counts(self, scope: bytes, read: ReadRows) -> list[NetworkCounts]:
        began = self._clock()
        counts, fresh_until = self._kept.get(scope, ([], 0.0))
        if began >= fresh_until:
            counts = [NetworkCounts(*row) for row in read(_COUNTS, {})]
            took = self._clock() - began
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[scope] = counts, began + (took * _KEPT_TIMES if took > _SLOW_SECONDS else 0.0)
        return counts


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
