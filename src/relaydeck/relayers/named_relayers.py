"""Figures of single relayers for the metrics: of those that a setting names."""

from collections.abc import Sequence
from typing import NamedTuple

from relaydeck.relayers import balance_rows, incidents, runway_rows
from relaydeck.store.database import ReadRows, Row
from relaydeck.store.in_list import in_list

_SELECT = (
    "SELECT r.id, r.network, r.paused, r.system_disabled, i.low_since AS low_balance_since,"
    " w.minimum_at, w.low_since AS low_runway_since,"
    f" (SELECT b.balance FROM {balance_rows.TABLE} b WHERE b.relayer_seq = r.seq ORDER BY b.since DESC LIMIT 1)"
    " AS balance"
    f" FROM relayers r LEFT JOIN {incidents.TABLE} i ON i.relayer_id = r.id"
    f" LEFT JOIN {runway_rows.TABLE} w ON w.relayer_seq = r.seq"
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
        found.states.update({(*name, state): int(holds) for state, holds in _states(row).items()})
    return found


def without_relayer(read: ReadRows, ids: Sequence[str]) -> list[str]:
    """Those of the ids that no relayer has."""
    if not ids:
        return []
    listed, values = in_list(ids)
    known = {row.id for row in read(f"SELECT id FROM relayers WHERE id IN ({listed})", values)}
    return [each for each in ids if each not in known]


def _states(row: Row) -> dict[str, bool]:
    return {
        "paused": row.paused,
        "disabled": row.system_disabled,
        "low_balance": row.low_balance_since is not None,
        "low_runway": row.low_runway_since is not None,
    }
