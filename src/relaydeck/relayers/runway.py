"""How long the balance of a relayer lasts: forecasts, and how the admin API and the commands show them.

A forecast assumes that the next day is like the last one, and the next week like the last one: it replays what was
spent, at the same times of the day or week, until the balance is used up. The shorter of both results counts. Only
what was spent enters, so a top-up does not hide it. The largest amount in a window counts for at most twice the second
largest: one exceptional payment does not decide, and a payment that repeats does. Amounts are Wei, times are seconds.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec

from relaydeck.errors import RelayerNotFound
from relaydeck.fields import own_field as field
from relaydeck.quantities import Moment, Wei, Whole
from relaydeck.relayers import snapshots
from relaydeck.relayers.balance_history import BalancePeriod, TopUp, read_last_periods, top_ups
from relaydeck.timestamps import utc

if TYPE_CHECKING:
    from relaydeck.store.database import ReadRows
    from relaydeck.store.open_store import Store  # which a command on a server does not load

DAY = 86_400
WEEK = 7 * DAY
LEAST_HISTORY = 3600
DEFAULT_DAYS = 30  # that an amount to add is to last
RECOVERED = 1.5  # a warning ends when the runway is this many times the warning's limit
_OUTLIER = 2
_BLOCKS = 6  # of a history that is shorter than two days

WindowName = Literal["day", "week"]
Unknown = Literal["no balance was read yet", "the history is shorter than an hour", "nothing was spent"]


class RunwayTime(msgspec.Struct, frozen=True):
    seconds: Annotated[Whole, field("Expected seconds from now.", example=93_600)]
    earliest_seconds: Annotated[
        Whole, field("If every day were like the heaviest one of the last week.", example=79_200)
    ]
    latest_seconds: Annotated[
        Whole | None,
        field("If every day were like the lightest one; null: nothing was spent on that day.", example=108_000),
    ]


class Forecast(NamedTuple):
    balance: int
    spent_per_hour: int
    window: WindowName  # the one that decides
    until_minimum: RunwayTime
    until_zero: RunwayTime


class Spending(NamedTuple):
    """What was spent in a window, in buckets of equal length, from its beginning to now."""

    name: WindowName
    width: int  # of a bucket
    seconds: int  # that the history covers
    buckets: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.buckets)

    def lasts(self, amount: int) -> int:
        """After how many seconds the same spending, repeated, has used up an amount."""
        if amount <= 0:
            return 0
        rounds, rest = divmod(amount, self.total)
        elapsed = rounds * self.seconds
        for number, spent in enumerate(self.buckets):
            if spent and rest <= spent:
                return elapsed + number * self.width + self.width * rest // spent
            rest -= spent
        return elapsed


def forecast(periods: Sequence[BalancePeriod], *, min_balance: int, now: int) -> Forecast | Unknown:
    """From the periods of the last week, preceded by the one before it."""
    if not periods:
        return "no balance was read yet"
    if now - periods[0].since < LEAST_HISTORY:
        return "the history is shorter than an hour"
    windows = [each for each in (spending(periods, "day", now), spending(periods, "week", now)) if each.total]
    if not windows:
        return "nothing was spent"
    balance = periods[-1].balance
    decides = min(windows, key=lambda each: (each.lasts(balance - min_balance), each.lasts(balance)))
    return Forecast(
        balance=balance,
        spent_per_hour=decides.total * 3600 // decides.seconds,
        window=decides.name,
        until_minimum=_time(windows, balance - min_balance),
        until_zero=_time(windows, balance),
    )


def spending(periods: Sequence[BalancePeriod], name: WindowName, now: int) -> Spending:
    """What was spent in the window, as far back as the history goes."""
    length, width = (DAY, 900) if name == "day" else (WEEK, 3600)
    start = max(now - length, periods[0].since)
    buckets = [0] * max(1, -(-(now - start) // width))
    for earlier, later in pairwise(periods):
        if start < later.since <= now:
            # Buckets end with their last moment: a payment that is seen now belongs to the last one.
            buckets[(later.since - start - 1) // width] += later.spent - earlier.spent
    return Spending(name, width, max(1, now - start), tuple(_without_outlier(buckets)))


def _without_outlier(buckets: list[int]) -> list[int]:
    largest = max(buckets)
    position = buckets.index(largest)
    second = max((spent for number, spent in enumerate(buckets) if number != position), default=0)
    buckets[position] = min(largest, _OUTLIER * second)
    return buckets


def _time(windows: Sequence[Spending], amount: int) -> RunwayTime:
    """The shortest of the windows, with the range that the longest of them gives."""
    expected = min(each.lasts(amount) for each in windows)
    blocks, seconds = _blocks(windows[-1])
    heaviest, lightest = max(blocks), min(blocks)
    earliest = max(0, amount) * seconds // heaviest
    latest = max(0, amount) * seconds // lightest if lightest else None
    return RunwayTime(expected, min(expected, earliest), None if latest is None else max(expected, latest))


def _blocks(window: Spending) -> tuple[list[int], int]:
    """What was spent on each whole day, or in each of a few equal parts of a shorter history, and their length."""
    days = window.seconds // DAY
    size = DAY // window.width if days > 1 else max(1, len(window.buckets) // _BLOCKS)
    count = len(window.buckets) // size
    newest = window.buckets[len(window.buckets) - count * size :]
    sums = [sum(newest[start : start + size]) for start in range(0, count * size, size)]
    # A window of one large block has no range; never divide by nothing.
    return (sums, size * window.width) if any(sums) else ([window.total], window.seconds)


def is_low(found: Forecast | Unknown, *, warn_hours: int, was_low: bool, min_balance: int, balance: int) -> bool:
    """Whether a warning is in force. Without a forecast it stays, unless nothing is spent and the balance suffices."""
    if not warn_hours:
        return False
    if isinstance(found, str):
        return was_low and not (found == "nothing was spent" and balance > min_balance)
    limit = warn_hours * 3600 * (RECOVERED if was_low else 1)
    return found.until_minimum.seconds < limit


# -- Forecasts as they are shown --

_EXAMPLE = {"seconds": 93_600, "earliest_seconds": 79_200, "latest_seconds": 108_000}


class Runway(msgspec.Struct, frozen=True, kw_only=True):
    relayer_id: Annotated[str, field("Identifier of the relayer.", example="sepolia-1")]
    name: Annotated[str, field("Its name.", example="Sepolia one")]
    address: Annotated[str, field("Its address.", example="0x2c7536E3605D9C16a7a3D7b1898e529396a65c23")]
    network: Annotated[str, field("Its network.", example="sepolia")]
    native_symbol: Annotated[str, field("Symbol of the network's native coin.", example="ETH")]
    balance: Annotated[
        Wei | None, field("The last balance that was read, in Wei; null: none yet.", example=1_250_000_000_000_000)
    ]
    balance_at: Annotated[
        Moment | None,
        field(
            "When it was last saved, in UTC: an unchanged one is saved once an hour.", example="2026-03-01T23:48:07Z"
        ),
    ]
    min_balance: Annotated[Wei, field("Its `min_balance`, in Wei.", example=0)]
    warn_hours: Annotated[Whole, field("At how many hours the monitor warns; 0: never.", example=24)]
    low: Annotated[bool, field("Whether a warning is in force.", example=False)]
    unknown: Annotated[str | None, field("Why there is no forecast; null when there is one.", example=None)]
    spent_per_hour: Annotated[
        Wei | None, field("Average in the window that decides, in Wei.", example=48_000_000_000_000)
    ]
    window: Annotated[
        WindowName | None, field("The last `day` or `week`, whichever gives the shorter runway.", example="week")
    ]
    until_minimum: Annotated[RunwayTime | None, field("Until the balance reaches `min_balance`.", example=_EXAMPLE)]
    until_zero: Annotated[RunwayTime | None, field("Until the balance is used up.", example=_EXAMPLE)]
    days: Annotated[Whole, field("The days that `needed` is for.", example=30)]
    needed: Annotated[
        Wei | None,
        field(
            "What to add for the balance to stay above `min_balance` so long, in Wei; null without a forecast.",
            example=33_310_000_000_000_000,
        ),
    ]
    top_ups: Annotated[tuple[TopUp, ...], field("Every rise of the balance in the last week.")]

    @property
    def spent_per_day(self) -> int | None:
        return None if self.spent_per_hour is None else 24 * self.spent_per_hour

    @property
    def last_top_up(self) -> TopUp | None:
        """Of the last week."""
        return self.top_ups[-1] if self.top_ups else None


class FirstRunways(msgspec.Struct, frozen=True, kw_only=True):
    runways: Annotated[tuple[Runway, ...], field("What runs out first, the first one first.")]


def read_recent(read: "ReadRows", sequence: int, now: int) -> list[BalancePeriod]:
    """The last period of each quarter of an hour of a day, and of each hour of a week, is enough for a forecast."""
    return read_last_periods(read, sequence, now - WEEK, now - DAY, now)


def read_runway(store: "Store", relayer_id: str, *, warn_hours: int, now: int, days: int = DEFAULT_DAYS) -> Runway:
    """The forecast as of now. `warn_hours` is that of the service. Raises RelayerNotFound."""
    snapshot = snapshots.find(store.database.read, store.vault, relayer_id)
    if snapshot is None:
        raise RelayerNotFound(relayer_id)
    relayer, periods = snapshot.relayer, read_recent(store.database.read, snapshot.sequence, now)
    found = forecast(periods, min_balance=relayer.policies.min_balance, now=now)
    known = found if isinstance(found, Forecast) else None
    used = known and relayer.policies.min_balance + 24 * days * known.spent_per_hour
    return Runway(
        relayer_id=relayer.id,
        name=relayer.name,
        address=relayer.address,
        network=relayer.network,
        native_symbol=snapshot.network.native_symbol,
        balance=periods[-1].balance if periods else None,
        balance_at=utc(periods[-1].until) if periods else None,
        min_balance=relayer.policies.min_balance,
        warn_hours=snapshot.warn_hours(warn_hours),
        low=snapshot.runway.low_since is not None,
        unknown=found if isinstance(found, str) else None,
        spent_per_hour=known and known.spent_per_hour,
        window=known and known.window,
        until_minimum=known and known.until_minimum,
        until_zero=known and known.until_zero,
        days=days,
        needed=None if known is None or used is None else max(0, used - known.balance),
        top_ups=tuple(top_ups(periods)),
    )


def read_first(
    store: "Store",
    count: int,
    *,
    warn_hours: int,
    now: int,
    days: int = DEFAULT_DAYS,
    where: str = "1 = 1",
    **values: Any,
) -> list[Runway]:
    """What runs out first: forecasts as of now, of the relayers that are first by their stored forecasts.

    `where`, with its values, is a condition on relayers.
    """
    rows = store.database.read(
        f"SELECT relayers.id FROM {snapshots.RUNWAYS} JOIN relayers ON seq = relayer_seq"
        f" WHERE minimum_at IS NOT NULL AND {where} ORDER BY minimum_at, relayer_seq LIMIT :count",
        values | {"count": count},
    )
    return read_runways(store, [row.id for row in rows], warn_hours=warn_hours, now=now, days=days)


def read_runways(store: "Store", relayers: Sequence[str], *, warn_hours: int, now: int, days: int) -> list[Runway]:
    """What runs out first comes first; those without a forecast come last. Deleted ones are left out."""
    found = []
    for each in relayers:
        with suppress(RelayerNotFound):
            found.append(read_runway(store, each, warn_hours=warn_hours, now=now, days=days))
    return sorted(found, key=_order)


def _order(runway: Runway) -> tuple[bool, int]:
    time = runway.until_minimum
    return (False, time.seconds) if time else (True, 0)
