"""Forecasts the runway of relayers as they are checked, and warns once when one becomes short.

A forecast reads the history of a week, so it is made for one check in ten, and only when something may have changed: a
relayer that spends nothing costs no forecast.
"""

from collections.abc import Callable
from functools import partial

from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import health, relayer_changes, runway_rows
from relaydeck.relayers.balance_rows import BalancePeriod, next_period
from relaydeck.relayers.runway import Forecast, Unknown, forecast, is_low
from relaydeck.relayers.runway_rows import StoredRunway
from relaydeck.relayers.snapshots import RelayerSnapshot
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Database

EVERY_ROUNDS = 10
_REFRESH_SECONDS = 6 * 3600  # while there is a forecast, also without a change
_SHIFT = 20  # a forecast that moved by less than this part of what is left is not saved again

Decision = tuple[StoredRunway, EventKind | None, dict[str, str]]


class RunwayWatch:
    def __init__(self, database: Database, *, interval: float, warn_hours: int, now: Callable[[], float]) -> None:
        """`warn_hours` applies where neither the relayer nor its network sets it."""
        self._database = database
        self._interval, self._warn_hours, self._now = interval, warn_hours, now

    async def decide(self, checked: RelayerSnapshot, balance: int) -> Decision | None:
        """The new forecast of a relayer that is due, with the event it causes, if it is to be saved."""
        now = int(self._now())
        read = partial(runway_rows.read_recent, self._database.read, checked.sequence, now)
        periods = await self._database.run_in_reader(read)
        last = periods[-1] if periods else None
        if last is None or last.balance != balance:
            periods.append(next_period(last, balance, now))
        return self._decision(checked, periods, max(now, periods[-1].since))

    def is_due(self, checked: RelayerSnapshot, balance: int) -> bool:
        """Whether to forecast with this check."""
        now = int(self._now())
        if (int(now // self._interval) + checked.sequence) % EVERY_ROUNDS:
            return False
        stored, last = checked.runway, checked.last_balance
        if last is None or last.balance != balance or last.since > stored.computed_at or stored.low_since is not None:
            return True
        return stored.minimum_at is not None and now - stored.computed_at >= _REFRESH_SECONDS

    def _decision(self, checked: RelayerSnapshot, periods: list[BalancePeriod], now: int) -> Decision | None:
        min_balance, balance = checked.relayer.policies.min_balance, periods[-1].balance
        warn_hours, before = checked.warn_hours(self._warn_hours), checked.runway
        found = forecast(periods, min_balance=min_balance, now=now)
        low = is_low(
            found,
            warn_hours=warn_hours,
            was_low=before.low_since is not None,
            min_balance=min_balance,
            balance=balance,
        )
        after = StoredRunway(now, _minimum_at(found, now), (before.low_since or now) if low else None)
        kind = _crossing(before, after)
        if kind is None and not _moved(before, after, now):
            return None
        return after, kind, _details(found, balance, min_balance, warn_hours)


def save(context: ChangeContext, checked: RelayerSnapshot, decision: Decision) -> EventKind | None:
    """Save a forecast with its event, unless the relayer changed since the check began. Return the event's kind."""
    runway, kind, details = decision
    if not health.is_unchanged(context, checked):
        return None
    runway_rows.save(context.transaction, checked.sequence, runway)
    if kind is not None:
        relayer_changes.report_runway(context, kind, checked.relayer.id, details)
    return kind


def _minimum_at(found: Forecast | Unknown, now: int) -> int | None:
    return None if isinstance(found, str) else now + found.until_minimum.expected


def _crossing(before: StoredRunway, after: StoredRunway) -> EventKind | None:
    if (before.low_since is None) == (after.low_since is None):
        return None
    return EventKind.RELAYER_RUNWAY_RECOVERED if after.low_since is None else EventKind.RELAYER_RUNWAY_LOW


def _moved(before: StoredRunway, after: StoredRunway, now: int) -> bool:
    if before.minimum_at is None or after.minimum_at is None:
        return before.minimum_at != after.minimum_at
    return abs(after.minimum_at - before.minimum_at) * _SHIFT >= max(after.minimum_at - now, 1)


def _details(found: Forecast | Unknown, balance: int, min_balance: int, warn_hours: int) -> dict[str, str]:
    known = None if isinstance(found, str) else found
    return {
        "balance": str(balance),
        "min_balance": str(min_balance),
        "spent_per_hour": str(known.spent_per_hour) if known else "unknown",
        "seconds_until_minimum": str(known.until_minimum.expected) if known else "unknown",
        "seconds_until_zero": str(known.until_zero.expected) if known else "unknown",
        "warn_hours": str(warn_hours),
    }
