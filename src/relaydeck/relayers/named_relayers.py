"""Figures of single relayers for the metrics: of those that a setting names."""

from collections.abc import Sequence
from typing import NamedTuple

from relaydeck.relayers import balance_history, snapshots
from relaydeck.store.database import ReadRows
from relaydeck.store.rows import in_list

_STATES = ("paused", "disabled", "low_balance", "low_runway")
_SELECT = (
    "SELECT r.id, r.network, r.paused, r.system_disabled AS disabled, i.low_since IS NOT NULL AS low_balance,"
    " w.minimum_at, w.low_since IS NOT NULL AS low_runway,"
    f" (SELECT b.balance FROM {balance_history.TABLE} b WHERE b.relayer_seq = r.seq ORDER BY b.since DESC LIMIT 1)"
    " AS balance"
    f" FROM relayers r LEFT JOIN {snapshots.INCIDENTS} i ON i.relayer_id = r.id"
    f" LEFT JOIN {snapshots.RUNWAYS} w ON w.relayer_seq = r.seq"
)


class NamedRelayers(NamedTuple):
    """Each by network and id."""

    balances: dict[tuple[str, ...], int]
    minimum_at: dict[tuple[str, ...], int]
    states: dict[tuple[str, ...], int]  # by state too: 1 or 0


def read_named(read: ReadRows, ids: Sequence[str]) -> NamedRelayers:
    """Those of the relayers that exist, in the order of their creation."""
    found = NamedRelayers({}, {}, {})
    if not ids:
        return found
    listed, values = in_list(ids)
    for row in read(f"{_SELECT} WHERE r.id IN ({listed}) ORDER BY r.seq", values):
        name = (row.network, row.id)
        if row.balance is not None:
            found.balances[name] = int(row.balance)
        if row.minimum_at is not None:
            found.minimum_at[name] = row.minimum_at
        found.states.update({(*name, state): int(getattr(row, state)) for state in _STATES})
    return found


def without_relayer(read: ReadRows, ids: Sequence[str]) -> list[str]:
    """Those of the ids that no relayer has."""
    if not ids:
        return []
    listed, values = in_list(ids)
    known = {row.id for row in read(f"SELECT id FROM relayers WHERE id IN ({listed})", values)}
    return [each for each in ids if each not in known]


MOST_NETWORKS = 100
COUNT_LIMIT = 100_000
_FIRST = 1000  # relayers that run out first, among which the first of each network is looked for
# Each reads an index, and no more than it counts.
_COUNTS = {
    "total": "SELECT 1 FROM relayers WHERE network = n.name",
    "paused": "SELECT 1 FROM relayers WHERE network = n.name AND paused",
    "disabled": "SELECT 1 FROM relayers WHERE network = n.name AND system_disabled",
}
_LISTED = {
    "low_balance": f"{snapshots.INCIDENTS} t ON t.relayer_id = r.id WHERE t.low_since IS NOT NULL",
    "low_runway": f"{snapshots.RUNWAYS} t ON t.relayer_seq = r.seq WHERE t.low_since IS NOT NULL",
}


class RelayerCounts(NamedTuple):
    by_state: dict[tuple[str, ...], int]  # network and state
    minimum_at: dict[tuple[str, ...], int]  # network: when its first relayer is expected to reach its min_balance


def count_relayers(read: ReadRows) -> RelayerCounts:
    """Of the first networks, each count up to a limit: a scrape must not scan a million relayers."""
    columns = ", ".join(
        f"(SELECT count(*) FROM ({each} LIMIT {COUNT_LIMIT}) AS counted) AS {state}" for state, each in _COUNTS.items()
    )
    rows = read(f"SELECT n.name, {columns} FROM networks n ORDER BY n.seq LIMIT {MOST_NETWORKS}", {})
    found: dict[tuple[str, ...], int] = {(row.name, state): getattr(row, state) for row in rows for state in _COUNTS}
    names = {row.name for row in rows}
    for state, joined in _LISTED.items():
        listed = read(
            f"SELECT network, count(*) AS relayers FROM (SELECT r.network FROM relayers r JOIN {joined}"
            f" LIMIT {COUNT_LIMIT}) AS listed GROUP BY network",
            {},
        )
        found |= {(name, state): 0 for name in names}
        found |= {(row.network, state): row.relayers for row in listed if row.network in names}
    return RelayerCounts(found, _first_by_network(read))


def _first_by_network(read: ReadRows) -> dict[tuple[str, ...], int]:
    rows = read(
        "SELECT r.network, min(first.minimum_at) AS minimum_at FROM"
        f" (SELECT relayer_seq, minimum_at FROM {snapshots.RUNWAYS} WHERE minimum_at IS NOT NULL"
        f" ORDER BY minimum_at LIMIT {_FIRST}) AS first"
        f" JOIN relayers r ON r.seq = first.relayer_seq GROUP BY r.network LIMIT {MOST_NETWORKS}",
        {},
    )
    return {(row.network,): row.minimum_at for row in rows}
