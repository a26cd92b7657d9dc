"""How fast and how reliably a node answered lately."""

from collections import deque

_KEPT = 64  # answers of one method
_ENOUGH = 20  # to know their 95th percentile
_RECENT = 0.2  # the weight of the newest time in the average
_ERROR_WEIGHT = 0.1
_NEGLIGIBLE = 0.01


class _Times:
    """The times of one method."""

    def __init__(self, seconds: float) -> None:
        self.average = seconds
        self._kept: deque[float] = deque((seconds,), maxlen=_KEPT)
        self._p95: float | None = None

    def add(self, seconds: float) -> None:
        self.average += _RECENT * (seconds - self.average)
        self._kept.append(seconds)
        self._p95 = None

    @property
    def p95(self) -> float | None:
        if self._p95 is None and len(self._kept) >= _ENOUGH:
            self._p95 = sorted(self._kept)[len(self._kept) * 95 // 100]
        return self._p95


class Pace:
    def __init__(self) -> None:
        self.error_rate = 0.0
        self._methods: dict[str, _Times] = {}  # of the few methods that the service uses

    def add(self, method: str, seconds: float) -> None:
        """An answer arrived."""
        if self.error_rate:
            rate = self.error_rate * (1 - _ERROR_WEIGHT)
            self.error_rate = rate if rate > _NEGLIGIBLE else 0.0
        times = self._methods.get(method)
        if times is None:
            self._methods[method] = _Times(seconds)
        else:
            times.add(seconds)

    def add_error(self) -> None:
        self.error_rate += _ERROR_WEIGHT * (1 - self.error_rate)

    def latency(self, *methods: str) -> float | None:
        """The average of the first of these methods that was asked."""
        return next((self._methods[each].average for each in methods if each in self._methods), None)

    @property
    def slowest(self) -> float | None:
        """The average of the slowest method; None before the first answer."""
        return max((each.average for each in self._methods.values()), default=None)

    def p95(self, method: str) -> float | None:
        times = self._methods.get(method)
        return times.p95 if times else None
