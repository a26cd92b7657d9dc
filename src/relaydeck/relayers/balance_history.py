"""The balance history of a relayer, as the admin API, `relaydeck relayer fuel` and a chart show it."""

import itertools
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from relaydeck.errors import BadRequest, RelayerNotFound
from relaydeck.fields import own_field as field
from relaydeck.quantities import write_span
from relaydeck.relayers import balance_rows
from relaydeck.relayers.balance_rows import BalancePeriod
from relaydeck.store.database import ReadRows
from relaydeck.timestamps import utc

MOST_POINTS = 5_000
DEFAULT_SECONDS = 86_400
_DEFAULT_STEPS = (60, 600, 3600, 86_400)
_DEFAULT_POINTS = 300
# A balance is confirmed once an hour, and the oldest part of the history has one period an hour: a longer silence
# means that the relayer was not checked.
_LONGEST_SILENCE = 3 * 3600
_Wei = Annotated[int, Meta(ge=0)]


class Range(NamedTuple):
    """From the first moment to the last, in seconds, in steps of so many seconds."""

    start: int
    end: int
    step: int


class BalancePoint(msgspec.Struct, frozen=True, kw_only=True):
    at: Annotated[str, field("When, in UTC.", example="2026-03-01T12:00:00Z")]
    balance: Annotated[
        _Wei | None, field("The balance at that moment, in Wei; null: not known.", example=1_250_000_000_000_000_000)
    ]


class TopUp(msgspec.Struct, frozen=True, kw_only=True):
    at: Annotated[str, field("When it was first seen, in UTC.", example="2026-03-01T08:00:07Z")]
    amount: Annotated[_Wei, field("By how much the balance rose, in Wei.", example=1_000_000_000_000_000_000)]


class BalanceHistory(msgspec.Struct, frozen=True, kw_only=True):
    relayer_id: Annotated[str, field("Identifier of the relayer.", example="sepolia-1")]
    start: Annotated[str, field("The first moment, in UTC.", example="2026-03-01T00:00:00Z")]
    end: Annotated[str, field("The last moment, in UTC.", example="2026-03-02T00:00:00Z")]
    step: Annotated[str, field("The time between two points.", example="10m")]
    balance: Annotated[
        _Wei | None, field("The last balance that was read, in Wei; null: none yet.", example=1_250_000_000_000_000_000)
    ]
    seen_at: Annotated[
        str | None,
        field(
            "When it was last saved, in UTC: an unchanged one is saved once an hour.", example="2026-03-01T23:48:07Z"
        ),
    ]
    spent: Annotated[_Wei, field("What was spent between start and end, in Wei.", example=75_000_000_000_000_000)]
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
    return build_history(relayer_id, balance_rows.read_periods(read, rows[0].seq, shown.start, shown.end), shown)


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
