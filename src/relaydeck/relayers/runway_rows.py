"""Forecasts in the database, and what they are made from."""

from typing import NamedTuple

from relaydeck.relayers import balance_rows
from relaydeck.relayers.balance_rows import BalancePeriod
from relaydeck.relayers.runway import DAY, WEEK
from relaydeck.store.database import ReadRows, Row, Transaction

TABLE = "runways"
_WIDTH = "CASE WHEN b.since > :day THEN 900 ELSE 3600 END"
# The last period of each quarter of an hour, or of each hour, is enough for a forecast; and the one before the week.
_RECENT = (
    f"SELECT b.since, b.until, b.balance, b.spent FROM {balance_rows.TABLE} AS b"
    " WHERE b.relayer_seq = :seq AND b.since <= :now AND b.since >= coalesce("
    f"(SELECT max(since) FROM {balance_rows.TABLE} WHERE relayer_seq = :seq AND since <= :week), 0)"
    f" AND NOT EXISTS (SELECT 1 FROM {balance_rows.TABLE} AS later WHERE later.relayer_seq = :seq"
    " AND b.since > :week AND later.since > b.since AND later.since <= :now"
    f" AND later.since < (b.since / {_WIDTH} + 1) * {_WIDTH})"
    " ORDER BY b.since"
)


class StoredRunway(NamedTuple):
    computed_at: int = 0
    minimum_at: int | None = None
    low_since: int | None = None


def from_row(row: Row) -> StoredRunway:
    """From a row with columns of that name that are null without a forecast."""
    if row.runway_computed_at is None:
        return StoredRunway()
    return StoredRunway(row.runway_computed_at, row.minimum_at, row.runway_low_since)


def read_recent(read: ReadRows, sequence: int, now: int) -> list[BalancePeriod]:
    """The balances that a forecast needs."""
    values = {"seq": sequence, "now": now, "day": now - DAY, "week": now - WEEK}
    return [balance_rows.from_row(row) for row in read(_RECENT, values)]


def save(transaction: Transaction, sequence: int, runway: StoredRunway) -> None:
    transaction.execute(
        f"INSERT INTO {TABLE} (relayer_seq, computed_at, minimum_at, low_since)"
        " VALUES (:seq, :computed_at, :minimum_at, :low_since)"
        " ON CONFLICT (relayer_seq) DO UPDATE SET computed_at = excluded.computed_at,"
        " minimum_at = excluded.minimum_at, low_since = excluded.low_since",
        runway._asdict() | {"seq": sequence},
    )


def read_first(read: ReadRows, count: int) -> list[str]:
    """The relayers that run out first, by the stored forecasts: their ids, the first one first."""
    rows = read(
        f"SELECT r.id FROM {TABLE} w JOIN relayers r ON r.seq = w.relayer_seq WHERE w.minimum_at IS NOT NULL"
        " ORDER BY w.minimum_at, w.relayer_seq LIMIT :count",
        {"count": count},
    )
    return [row.id for row in rows]
