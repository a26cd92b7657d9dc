"""Health and readiness, for machines, without a credential."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from relaydeck.http.metric_counts import Metrics
from relaydeck.http.pipeline import Call, Reply, Route

_TEXT = (b"content-type", b"text/plain; charset=utf-8")


_SILENT_SECONDS, _DEAD_SECONDS = 10.0, 30.0


def _silence(workers: int) -> bytes:
    return f"{workers} worker{'s do' if workers > 1 else ' does'} not respond\n".encode()


class Readiness(NamedTuple):
    """Whether the service can serve requests, and the text that says so."""

    ready: bool
    text: str = "ready"


IsReady = Callable[[], Awaitable[Readiness]]


class HealthRoutes:
    def __init__(self, metrics: Metrics, readiness: IsReady) -> None:
        self._metrics = metrics
        self._readiness = readiness

    def routes(self) -> dict[str, dict[str, Route]]:
        answers = {"/healthz": self.healthz, "/readyz": self.readyz}
        return {path: {"GET": Route("operations", None, answer=answer)} for path, answer in answers.items()}

    async def healthz(self, _call: Call) -> Reply:
        """Every worker responds: one that is stuck is not repaired by waiting."""
        if silent := self._metrics.silent_workers(_DEAD_SECONDS):
            return Reply(503, _silence(silent), _TEXT)
        return Reply(200, b"ok\n", _TEXT)

    async def readyz(self, _call: Call) -> Reply:
        """Every worker responds and can serve requests."""
        if silent := self._metrics.silent_workers(_SILENT_SECONDS):
            return Reply(503, _silence(silent), _TEXT)
        ready, text = await self._readiness()
        return Reply(200 if ready else 503, f"{text}\n".encode(), _TEXT)
