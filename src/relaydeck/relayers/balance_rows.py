"""Balance history in the database: one row for each period in which a balance stayed the same."""

from collections.abc import Sequence
from typing import NamedTuple

from relaydeck.store.database import ReadRows, Row, Transaction
from relaydeck.store.in_list import in_list

TABLE = "balances"
CONFIRM_SECONDS = 3600  # an unchanged balance is confirmed this often
_COLUMNS = ("relayer_seq", "since", "until", "balance", "spent")
_DAY = 86_400
_LATER_IN_BUCKET = (
    f"EXISTS (SELECT 1 FROM {TABLE} AS later WHERE later.relayer_seq = {TABLE}.relayer_seq"
    f" AND later.since > {TABLE}.since AND later.since < ({TABLE}.since / :width + 1) * :width)"
)
_LATER_BEFORE = (
    f"EXISTS (SELECT 1 FROM {TABLE} AS later WHERE later.relayer_seq = {TABLE}.relayer_seq"
    f" AND later.since > {TABLE}.since AND later.since < :before)"
)


class BalancePeriod(NamedTuple):
    """A balance, and when it was first and last seen. `spent` is the total since the first period. Amounts in Wei."""

    since: int
    until: int
    balance: int
    spent: int = 0


class Retention(NamedTuple):
    """For how many days the history keeps one period a minute, one in ten minutes, and one an hour."""

    minute_days: int = 1
    ten_minute_days: int = 7
    hour_days: int = 90


def next_period(last: BalancePeriod | None, balance: int, now: int) -> BalancePeriod:
    """The period of a balance that is seen now: the last one, confirmed, or a new one."""
    if last is None:
        return BalancePeriod(now, now, balance)
    if last.balance == balance:
        return last._replace(until=now)
    since = max(now, last.since + 1)  # a second has one row: of two changes in one, the later gets the next
    return BalancePeriod(since, since, balance, last.spent + max(0, last.balance - balance))


def from_row(row: Row) -> BalancePeriod:
    """From a row with the columns since, until, balance, spent."""
    return BalancePeriod(row.since, row.until, int(row.balance), int(row.spent))


def read_periods(read: ReadRows, sequence: int, start: int, end: int) -> list[BalancePeriod]:
    """Every period that was seen between two moments, preceded by the one before them, oldest first."""
    rows = read(
        f"SELECT since, until, balance, spent FROM {TABLE} WHERE relayer_seq = :seq AND since <= :end AND since >="
        f" coalesce((SELECT max(since) FROM {TABLE} WHERE relayer_seq = :seq AND since <= :start), :start)"
        " ORDER BY since",
        {"seq": sequence, "start": start, "end": end},
    )
    return [from_row(row) for row in rows]


def existing(transaction: Transaction, sequences: Sequence[int]) -> set[int]:
    """Those of the relayers that were not deleted meanwhile."""
    listed, values = in_list(sequences)
    return {row.seq for row in transaction.all(f"SELECT seq FROM relayers WHERE seq IN ({listed})", values)}


def add(transaction: Transaction, periods: Sequence[tuple[int, BalancePeriod]]) -> None:
    """Periods with the sequence numbers of their relayers."""
    rows = [(sequence, each.since, each.until, str(each.balance), str(each.spent)) for sequence, each in periods]
    transaction.insert(TABLE, _COLUMNS, rows)


def confirm(transaction: Transaction, sequences: Sequence[int], seen: int) -> None:
    """The newest balance of each relayer was seen again."""
    listed, values = in_list(sequences)
    transaction.execute(
        f"UPDATE {TABLE} SET until = :seen WHERE relayer_seq IN ({listed}) AND until < :seen AND since ="
        f" (SELECT max(since) FROM {TABLE} AS newest WHERE newest.relayer_seq = {TABLE}.relayer_seq)",
        values | {"seen": seen},
    )


def compact(transaction: Transaction, sequences: Sequence[int], retention: Retention, now: int) -> None:
    """Keep the last period of each minute, ten minutes or hour, by age, and one from before the whole history."""
    listed, values = in_list(sequences)
    of_these = f"DELETE FROM {TABLE} WHERE relayer_seq IN ({listed}) AND since < :before AND"
    for days, width in ((0, 60), (retention.minute_days, 600), (retention.ten_minute_days, 3600)):
        before = (now - days * _DAY) // width * width
        transaction.execute(f"{of_these} {_LATER_IN_BUCKET}", values | {"before": before, "width": width})
    transaction.execute(f"{of_these} {_LATER_BEFORE}", values | {"before": now - retention.hour_days * _DAY})
