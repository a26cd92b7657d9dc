"""When an attempt is repeated, and after how long."""

from dataclasses import dataclass

from relaydeck.client.calls import Repeat
from relaydeck.client.errors import ApiError, ClientError, TooManyRequests, TransportError


@dataclass(frozen=True, slots=True)
class Retry:
    """`attempts` in all, with pauses that double from `first_pause` to `longest_pause` seconds.

    Each pause is a random part of that ("full jitter"), so that clients which failed together do not return together.
    A service that asks for more than `longest_wait` seconds (`Retry-After`) is not waited for: the error is raised.

    >>> Retry(attempts=1)          # never repeat anything
    Retry(attempts=1, first_pause=0.1, longest_pause=5.0, longest_wait=30.0)
    """

    attempts: int = 4
    first_pause: float = 0.1
    longest_pause: float = 5.0
    longest_wait: float = 30.0

    def pause(self, error: ClientError, attempt: int, repeat: Repeat, share: float) -> float | None:
        """Seconds to wait before the next attempt; None: raise. `share` is a random number below 1."""
        if attempt >= self.attempts or not _may_repeat(error, repeat):
            return None
        jitter = share * min(self.longest_pause, self.first_pause * 2 ** (attempt - 1))
        wait = error.retry_after if isinstance(error, ApiError) and error.retry_after else 0.0
        return None if wait > self.longest_wait else wait + jitter


def _may_repeat(error: ClientError, repeat: Repeat) -> bool:
    if isinstance(error, TooManyRequests):
        return True  # refused before any work
    if isinstance(error, TransportError):
        return not error.sent or repeat is not Repeat.NEVER
    return isinstance(error, ApiError) and error.status >= 500 and repeat is not Repeat.NEVER
