"""What becomes of a delivery after a try. Pure: the clock and the dice are handed in."""

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from relaydeck.notifications.outbox import AttemptOutcome

_MINUTE, _HOUR = 60, 3600
# Seconds after each failure, the schedule that Standard Webhooks suggests: ten tries in 75.6 hours.
DELAYS = (5, 5 * _MINUTE, 30 * _MINUTE, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 14 * _HOUR, 20 * _HOUR, 24 * _HOUR)
MOST_TRIES = len(DELAYS) + 1
TRIES_IN_LINE = 3
JITTER = 0.1
LONGEST_RETRY_AFTER = 24 * _HOUR
_GONE = 410


class Answer(NamedTuple):
    """How a receiver answered: a status, or the word for what went wrong instead."""

    status: int | None = None
    problem: str = ""
    text: str = ""
    retry_after: str = ""
    final: bool = False  # nothing that time could mend

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def judge(answer: Answer, *, tries: int, in_line: bool, now: float, random: Callable[[], float]) -> AttemptOutcome:
    """`tries` counts this one. `now` is in seconds."""
    if answer.delivered:
        return AttemptOutcome("delivered", None, False)
    if answer.final or answer.status == _GONE or tries >= MOST_TRIES:
        return AttemptOutcome("dead", None, False)
    delay = DELAYS[tries - 1] * (1 - JITTER + 2 * JITTER * random())
    delay = max(delay, wished_delay(answer.retry_after, now))
    return AttemptOutcome("pending", int((now + delay) * 1000), in_line and tries < TRIES_IN_LINE)


def wished_delay(retry_after: str, now: float) -> float:
    """How many seconds a `Retry-After` asks for (RFC 9110: seconds, or a date); a day at most, 0 for nonsense."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, OverflowError, TypeError, IndexError):
            return 0.0
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)
