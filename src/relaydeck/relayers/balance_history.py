"""The balance history of a relayer: one row for each period in which a balance stayed the same, and a view of them."""

import itertools
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from relaydeck.errors import BadRequest, RelayerNotFound
from relaydeck.fields import own_field as field
from relaydeck.quantities import Moment, Wei, write_span
from relaydeck.store.database import ReadRows, Row, Transaction
from relaydeck.store.rows import in_list, upsert_into
from relaydeck.timestamps import utc

TABLE = "balances"
CONFIRM_SECONDS = 3600  # an unchanged balance is confirmed this often
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


_SAVE = upsert_into(TABLE, "relayer_seq, since", ("relayer_seq", *BalancePeriod._fields))


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


def read_last_periods(read: ReadRows, sequence: int, start: int, fine: int, end: int) -> list[BalancePeriod]:
    """As `read_periods`, but only the last period of each hour, and from `fine` on of each quarter of an hour."""
    rows = read(
        f"SELECT since, until, balance, spent FROM {TABLE} WHERE relayer_seq = :seq AND since IN ("
        f"SELECT max(since) FROM {TABLE} WHERE relayer_seq = :seq AND since <= :end AND since >="
        f" coalesce((SELECT max(since) FROM {TABLE} WHERE relayer_seq = :seq AND since <= :start), :start)"
        " GROUP BY CASE WHEN since > :fine THEN since / 900 ELSE -(since / 3600) END) ORDER BY since",
        {"seq": sequence, "start": start, "fine": fine, "end": end},
    )
    return [from_row(row) for row in rows]


def existing(transaction: Transaction, sequences: Sequence[int]) -> set[int]:
    """Those of the relayers that were not deleted meanwhile."""
    listed, values = in_list(sequences)
    return {row.seq for row in transaction.all(f"SELECT seq FROM relayers WHERE seq IN ({listed})", values)}


def save(transaction: Transaction, periods: Sequence[tuple[int, BalancePeriod]]) -> None:
    """Periods with the sequence numbers of their relayers: new ones, and those in which the balance was seen again."""
    rows = [
        {"relayer_seq": sequence} | each._asdict() | {"balance": str(each.balance), "spent": str(each.spent)}
        for sequence, each in periods
    ]
    transaction.execute_many(_SAVE, rows)
    transaction.mark(TABLE)


def compact(transaction: Transaction, sequences: Sequence[int], retention: Retention, now: int) -> None:
    """Keep the last period of each minute, ten minutes or hour, by age, and one from before the whole history."""
    listed, values = in_list(sequences)
    of_these = f"DELETE FROM {TABLE} WHERE relayer_seq IN ({listed}) AND since < :before AND"
    for days, width in ((0, 60), (retention.minute_days, 600), (retention.ten_minute_days, 3600)):
        before = (now - days * _DAY) // width * width
        transaction.execute(f"{of_these} {_LATER_IN_BUCKET}", values | {"before": before, "width": width})
    transaction.execute(f"{of_these} {_LATER_BEFORE}", values | {"before": now - retention.hour_days * _DAY})


# -- The history as it is shown --

MOST_POINTS = 5_000
DEFAULT_SECONDS = 86_400
_DEFAULT_STEPS = (60, 600, 3600, 86_400)
_DEFAULT_POINTS = 300
# A balance is confirmed once an hour, and the oldest part of the history has one period an hour: a longer silence
# means that the relayer was not checked.
_LONGEST_SILENCE = 3 * 3600


class Range(NamedTuple):
    """From the first moment to the last, in seconds, in steps of so many seconds."""

    start: int
    end: int
    step: int


class BalancePoint(msgspec.Struct, frozen=True, kw_only=True):
    at: Annotated[Moment, field("When, in UTC.", example="2026-03-01T12:00:00Z")]
    balance: Annotated[
        Wei | None, field("The balance at that moment, in Wei; null: not known.", example=1_250_000_000_000_000_000)
    ]


class TopUp(msgspec.Struct, frozen=True, kw_only=True):
    at: Annotated[Moment, field("When it was first seen, in UTC.", example="2026-03-01T08:00:07Z")]
    amount: Annotated[Wei, field("By how much the balance rose, in Wei.", example=1_000_000_000_000_000_000)]


class BalanceHistory(msgspec.Struct, frozen=True, kw_only=True):
    relayer_id: Annotated[str, field("Identifier of the relayer.", example="sepolia-1")]
    start: Annotated[Moment, field("The first moment, in UTC.", example="2026-03-01T00:00:00Z")]
    end: Annotated[Moment, field("The last moment, in UTC.", example="2026-03-02T00:00:00Z")]
    step: Annotated[str, field("The time between two points.", example="10m")]
    balance: Annotated[
        Wei | None, field("The last balance that was read, in Wei; null: none yet.", example=1_250_000_000_000_000_000)
    ]
    seen_at: Annotated[
        Moment | None,
        field(
            "When it was last saved, in UTC: an unchanged one is saved once an hour.", example="2026-03-01T23:48:07Z"
        ),
    ]
    spent: Annotated[Wei, field("What was spent between start and end, in Wei.", example=75_000_000_000_000_000)]
    top_ups: Annotated[tuple[TopUp, ...], field("Every rise of the balance between start and end.")]
    points: Annotated[tuple[BalancePoint, ...], field("The balance at each step.")]


def choose_range(start: int | None, end: int | None, step: int | None, now: int) -> Range:
    """The range that was requested: by default the last day, in at most 300 steps. Raises BadRequest."""
    last = now if end is None else end
    first = last - DEFAULT_SECONDS if start is None else start
    if first > last:
        raise BadRequest("from must not be later than to")
    fits = (each for each in _DEFAULT_STEPS if (last - first) // each <= _DEFAULT_POINTS)
    width = step or next(fits, _DEFAULT_STEPS[-1])
    if (last - first) // width >= MOST_POINTS:
        raise BadRequest(f"the range has more than {MOST_POINTS} steps")
    return Range(first, last, width)


def read_history(read: ReadRows, relayer_id: str, shown: Range) -> BalanceHistory:
    """Raises RelayerNotFound."""
    rows = read("SELECT seq FROM relayers WHERE id = :id", {"id": relayer_id})
    if not rows:
        raise RelayerNotFound(relayer_id)
    return build_history(relayer_id, read_periods(read, rows[0].seq, shown.start, shown.end), shown)


def build_history(relayer_id: str, periods: Sequence[BalancePeriod], shown: Range) -> BalanceHistory:
    last = periods[-1] if periods else None
    return BalanceHistory(
        relayer_id=relayer_id,
        start=utc(shown.start),
        end=utc(shown.end),
        step=write_span(shown.step),
        balance=last and last.balance,
        seen_at=utc(last and last.until),
        spent=last.spent - periods[0].spent if last else 0,
        top_ups=tuple(top_ups(periods)),
        points=tuple(_points(periods, shown)),
    )


def top_ups(periods: Sequence[BalancePeriod]) -> list[TopUp]:
    """What was received between each two periods, whatever was spent between them."""
    received = [
        (later.since, later.balance - earlier.balance + later.spent - earlier.spent)
        for earlier, later in itertools.pairwise(periods)
    ]
    return [TopUp(at=utc(moment), amount=amount) for moment, amount in received if amount]


def _points(periods: Sequence[BalancePeriod], shown: Range) -> list[BalancePoint]:
    points, position = [], -1
    for moment in range(shown.start, shown.end + 1, shown.step):
        while position + 1 < len(periods) and periods[position + 1].since <= moment:
            position += 1
        points.append(BalancePoint(at=utc(moment), balance=_balance_at(periods, position, moment)))
    return points


def _balance_at(periods: Sequence[BalancePeriod], position: int, moment: int) -> int | None:
    """The balance of the period that began last, unless the relayer was not checked for long."""
    if position < 0:
        return None
    period = periods[position]
    seen_next = periods[position + 1].since if position + 1 < len(periods) else moment
    known = moment <= period.until or seen_next - period.until <= _LONGEST_SILENCE
    return period.balance if known else None
