"""What happens to a delivery after an attempt. Pure functions: the clock and the random numbers are arguments."""

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from relaydeck.notifications.outbox import AttemptOutcome

_MINUTE, _HOUR = 60, 3600
# Seconds after each failure, the schedule that Standard Webhooks suggests: ten attempts in 75.6 hours.
DELAYS = (5, 5 * _MINUTE, 30 * _MINUTE, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 14 * _HOUR, 20 * _HOUR, 24 * _HOUR)
MAX_ATTEMPTS = len(DELAYS) + 1
ATTEMPTS_IN_ORDER = 3  # after these, a failing delivery no longer holds up the events that follow it
JITTER = 0.1
MAX_RETRY_AFTER = 24 * _HOUR
_GONE = 410


class ReceiverResponse(NamedTuple):
    """A receiver's response: its status, or else the word for the problem."""

    status: int | None = None
    problem: str = ""
    text: str = ""
    retry_after: str = ""
    final: bool = False  # no later attempt can succeed

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def decide(
    response: ReceiverResponse, *, tries: int, in_order: bool, now: float, random: Callable[[], float]
) -> AttemptOutcome:
    """`tries` includes this attempt. `now` is in seconds."""
    if response.delivered:
        return AttemptOutcome("delivered", None, False)
    if response.final or response.status == _GONE or tries >= MAX_ATTEMPTS:
        return AttemptOutcome("dead", None, False)
    delay = DELAYS[tries - 1] * (1 - JITTER + 2 * JITTER * random())
    delay = max(delay, requested_delay(response.retry_after, now))
    return AttemptOutcome("pending", int((now + delay) * 1000), in_order and tries < ATTEMPTS_IN_ORDER)


def requested_delay(retry_after: str, now: float) -> float:
    """The seconds that a `Retry-After` header requests (RFC 9110: seconds, or a date): at most a day, 0 if invalid."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, OverflowError, TypeError, IndexError):
            return 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)
