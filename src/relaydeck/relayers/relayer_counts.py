"""How many relayers each network has, in which states, and which runs out first; for the metrics."""

from typing import NamedTuple

from relaydeck.relayers import incidents, runway_rows
from relaydeck.store.database import ReadRows

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
    "low_balance": f"{incidents.TABLE} t ON t.relayer_id = r.id WHERE t.low_since IS NOT NULL",
    "low_runway": f"{runway_rows.TABLE} t ON t.relayer_seq = r.seq WHERE t.low_since IS NOT NULL",
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
        f" (SELECT relayer_seq, minimum_at FROM {runway_rows.TABLE} WHERE minimum_at IS NOT NULL"
        f" ORDER BY minimum_at LIMIT {_FIRST}) AS first"
        f" JOIN relayers r ON r.seq = first.relayer_seq GROUP BY r.network LIMIT {MOST_NETWORKS}",
        {},
    )
    return {(row.network,): row.minimum_at for row in rows}
