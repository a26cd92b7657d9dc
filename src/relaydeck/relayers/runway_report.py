"""How long the balance of a relayer lasts, as the admin API, `relaydeck relayer fuel` and a console show it."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from relaydeck.errors import RelayerNotFound
from relaydeck.fields import own_field as field
from relaydeck.relayers import relayer_rows, runway_rows
from relaydeck.relayers.balance_history import TopUp, top_ups
from relaydeck.relayers.balance_rows import BalancePeriod
from relaydeck.relayers.runway import Duration, Forecast, WindowName, forecast
from relaydeck.store.database import ReadRows, Row

_Whole = Annotated[int, Meta(ge=0)]
_EXAMPLE = {"seconds": 93_600, "earliest_seconds": 79_200, "latest_seconds": 108_000}
_relayer_columns = ", ".join(f"r.{name}" for name in relayer_rows.COLUMNS.split(", "))
_SELECT = (
    f"SELECT {_relayer_columns}, r.seq, n.native_symbol, n.runway_warn_hours AS network_warn_hours, w.low_since"
    " FROM relayers r JOIN networks n ON n.name = r.network"
    f" LEFT JOIN {runway_rows.TABLE} w ON w.relayer_seq = r.seq WHERE r.id = :id"
)


class RunwayTime(msgspec.Struct, frozen=True, kw_only=True):
    seconds: Annotated[_Whole, field("Expected seconds from now.", example=93_600)]
    earliest_seconds: Annotated[
        _Whole, field("If every day were like the heaviest one of the last week.", example=79_200)
    ]
    latest_seconds: Annotated[
        _Whole | None,
        field("If every day were like the lightest one; null: nothing was spent on that day.", example=108_000),
    ]


class Runway(msgspec.Struct, frozen=True, kw_only=True):
    relayer_id: Annotated[str, field("Identifier of the relayer.", example="sepolia-1")]
    network: Annotated[str, field("Its network.", example="sepolia")]
    native_symbol: Annotated[str, field("Symbol of the network's native coin.", example="ETH")]
    balance: Annotated[
        _Whole | None, field("The last balance that was read, in Wei; null: none yet.", example=1_250_000_000_000_000)
    ]
    min_balance: Annotated[_Whole, field("Its `min_balance`, in Wei.", example=0)]
    warn_hours: Annotated[_Whole, field("At how many hours the monitor warns; 0: never.", example=24)]
    low: Annotated[bool, field("Whether a warning is in force.", example=False)]
    unknown: Annotated[str | None, field("Why there is no forecast; null when there is one.", example=None)]
    spent_per_hour: Annotated[
        _Whole | None, field("Average in the window that decides, in Wei.", example=48_000_000_000_000)
    ]
    window: Annotated[
        WindowName | None, field("The last `day` or `week`, whichever gives the shorter runway.", example="week")
    ]
    until_minimum: Annotated[RunwayTime | None, field("Until the balance reaches `min_balance`.", example=_EXAMPLE)]
    until_zero: Annotated[RunwayTime | None, field("Until the balance is used up.", example=_EXAMPLE)]
    top_ups: Annotated[tuple[TopUp, ...], field("Every rise of the balance in the last week.")]


class FirstRunways(msgspec.Struct, frozen=True, kw_only=True):
    runways: Annotated[tuple[Runway, ...], field("What runs out first, the first one first.")]


def read_runway(read: ReadRows, relayer_id: str, *, warn_hours: int, now: int) -> Runway:
    """The forecast as of now. `warn_hours` is that of the service. Raises RelayerNotFound."""
    rows = read(_SELECT, {"id": relayer_id})
    if not rows:
        raise RelayerNotFound(relayer_id)
    return _runway(rows[0], runway_rows.read_recent(read, rows[0].seq, now), warn_hours, now)


def read_first(read: ReadRows, count: int, *, warn_hours: int, now: int) -> list[Runway]:
    """What runs out first: forecasts as of now, of the relayers that are first by their stored forecasts."""
    found = [read_runway(read, each, warn_hours=warn_hours, now=now) for each in runway_rows.read_first(read, count)]
    return sorted(found, key=_order)


def _order(runway: Runway) -> tuple[bool, int]:
    time = runway.until_minimum
    return (False, time.seconds) if time else (True, 0)


def _runway(row: Row, periods: Sequence[BalancePeriod], warn_hours: int, now: int) -> Runway:
    relayer = relayer_rows.without_urls(row)
    found = forecast(periods, min_balance=relayer.policies.min_balance, now=now)
    known = found if isinstance(found, Forecast) else None
    network_hours = warn_hours if row.network_warn_hours is None else row.network_warn_hours
    return Runway(
        relayer_id=relayer.id,
        network=relayer.network,
        native_symbol=row.native_symbol,
        balance=periods[-1].balance if periods else None,
        min_balance=relayer.policies.min_balance,
        warn_hours=network_hours if relayer.runway_warn_hours is UNSET else relayer.runway_warn_hours,
        low=row.low_since is not None,
        unknown=found if isinstance(found, str) else None,
        spent_per_hour=known and known.spent_per_hour,
        window=known and known.window,
        until_minimum=known and _time(known.until_minimum),
        until_zero=known and _time(known.until_zero),
        top_ups=tuple(top_ups(periods)),
    )


def _time(duration: Duration) -> RunwayTime:
    return RunwayTime(seconds=duration.expected, earliest_seconds=duration.earliest, latest_seconds=duration.latest)
