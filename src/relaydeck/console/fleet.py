"""The fleet in numbers, and what lists show of a relayer beside its record."""

from collections.abc import Sequence
from typing import NamedTuple

from relaydeck.api.list_filters import PROBLEMS, WORST_PROBLEM
from relaydeck.notifications import delivery_queries
from relaydeck.store.database import ReadRows
from relaydeck.store.rows import in_list
from relaydeck.timestamps import utc


class NetworkCounts(NamedTuple):
    network: str
    total: int
    disabled: int
    paused: int
    both: int  # paused and disabled: counted in each, as the filters of the list do

    @property
    def active(self) -> int:
        return self.total - self.disabled - self.paused + self.both


class Fleet(NamedTuple):
    networks: list[NetworkCounts]
    deliveries: delivery_queries.DeliveryCounts

    def total(self, state: str) -> int:
        return sum(getattr(each, state) for each in self.networks)


# Each is counted in an index. All of them in one statement: the numbers are of one moment.
_COUNTED = {
    "all": "",
    "disabled": "WHERE system_disabled",
    "paused": "WHERE paused",
    "both": "WHERE paused AND system_disabled",
}
_COUNTS = " UNION ALL ".join(
    f"SELECT '{state}' AS state, network, count(*) AS relayers FROM relayers {where} GROUP BY network"
    for state, where in _COUNTED.items()
)


def read_fleet(read: ReadRows) -> Fleet:
    counts = {state: dict[str, int]() for state in _COUNTED}
    for row in read(_COUNTS, {}):
        counts[row.state][row.network] = row.relayers
    disabled, paused, both = (counts[state] for state in ("disabled", "paused", "both"))
    networks = [
        NetworkCounts(each, total, disabled.get(each, 0), paused.get(each, 0), both.get(each, 0))
        for each, total in sorted(counts["all"].items())
    ]
    return Fleet(networks, delivery_queries.count_deliveries(read))


class RelayerOverview(NamedTuple):
    """What a list shows of a relayer beside its record. Amounts are in Wei, times in seconds."""

    id: str
    paused: bool
    problem: str  # the worst; empty: none is known
    symbol: str
    balance: int | None
    saved_at: int | None  # when the balance was last saved; it may have been read again since then
    minimum_at: int | None  # when the balance is expected to reach its minimum
    forecast_at: int | None  # when that was expected

    def row(self) -> dict[str, object]:
        """The columns of a file."""
        moments = {"balance_at": utc(self.saved_at), "expected_at_minimum": utc(self.minimum_at)}
        return {"problem": self.problem, "symbol": self.symbol, "balance_wei": self.balance, **moments}


_LATEST = "FROM balances b WHERE b.relayer_seq = relayers.seq ORDER BY since DESC LIMIT 1"
_OVERVIEWS = (
    f"SELECT relayers.id, paused, {WORST_PROBLEM} AS rank, (SELECT native_symbol FROM networks WHERE name = network)"
    f" AS symbol, (SELECT balance {_LATEST}) AS balance, (SELECT until {_LATEST}) AS saved_at, minimum_at, computed_at"
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
            *(None if row.balance is None else int(row.balance), row.saved_at, row.minimum_at, row.computed_at),
        )
        for row in read(f"{_OVERVIEWS} ({listed})", values)
    ]
    return {each.id: each for each in found}
