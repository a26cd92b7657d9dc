"""How long a balance lasts: a forecast from what was spent in the last day and in the last week.

The forecast assumes that the next day is like the last one, and the next week like the last one: it replays what was
spent, at the same times of the day or week, until the balance is used up. The shorter of both results counts. Only
what was spent enters, so a top-up does not hide it. The largest amount in a window counts for at most twice the second
largest: one exceptional payment does not decide, and a payment that repeats does.

This module reads no clock and no database. Amounts are Wei, times are seconds.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from relaydeck.relayers.balance_rows import BalancePeriod

DAY = 86_400
WEEK = 7 * DAY
LEAST_HISTORY = 3600
RECOVERED = 1.5  # a warning ends when the runway is this many times the warning's limit
_OUTLIER = 2
_BLOCKS = 6  # of a history that is shorter than two days

WindowName = Literal["day", "week"]
Unknown = Literal["no balance was read yet", "the history is shorter than an hour", "nothing was spent"]


class Duration(NamedTuple):
    """`earliest`: if every day were like the heaviest one. `latest`: like the lightest one; None if nothing was spent
    on that day."""

    expected: int
    earliest: int
    latest: int | None


class Forecast(NamedTuple):
    balance: int
    spent_per_hour: int
    window: WindowName  # the one that decides
    until_minimum: Duration
    until_zero: Duration


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
        until_minimum=_duration(windows, balance - min_balance),
        until_zero=_duration(windows, balance),
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


def _duration(windows: Sequence[Spending], amount: int) -> Duration:
    """The shortest of the windows, with the range that the longest of them gives."""
    expected = min(each.lasts(amount) for each in windows)
    blocks, seconds = _blocks(windows[-1])
    heaviest, lightest = max(blocks), min(blocks)
    earliest = max(0, amount) * seconds // heaviest
    latest = max(0, amount) * seconds // lightest if lightest else None
    return Duration(expected, min(expected, earliest), None if latest is None else max(expected, latest))


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
    return found.until_minimum.expected < limit
