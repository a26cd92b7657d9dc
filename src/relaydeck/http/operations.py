"""For machines, without a credential: is it alive, is it ready, what has it counted."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from relaydeck.http.metrics import Metric, Metrics
from relaydeck.http.pipeline import Call, Reply, Route

_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_EXPOSITION = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class Readiness(NamedTuple):
    """Whether requests can be served, and what there is to say of it."""

    ready: bool
    said: str = "ready"


IsReady = Callable[[], Awaitable[Readiness]]


class OperationsRoutes:
    def __init__(
        self,
        metrics: Metrics,
        readiness: IsReady,
        samples: Callable[[], Awaitable[Mapping[Metric, int]]],
    ) -> None:
        """`samples` gives what is looked up for a scrape; nothing when that cannot be done."""
        self._metrics = metrics
        self._readiness = readiness
        self._samples = samples

    def routes(self) -> dict[str, dict[str, Route]]:
        answers = {"/healthz": self.healthz, "/readyz": self.readyz, "/metrics": self.metrics}
        return {path: {"GET": Route("operations", None, answer=answer)} for path, answer in answers.items()}

    async def healthz(self, _call: Call) -> Reply:
        """The process answers."""
        return Reply(200, b"ok\n", _TEXT)

    async def readyz(self, _call: Call) -> Reply:
        """Requests can be served too."""
        ready, said = await self._readiness()
        return Reply(200 if ready else 503, f"{said}\n".encode(), _TEXT)

    async def metrics(self, _call: Call) -> Reply:
        return Reply(200, self._metrics.exposition(await self._samples()).encode(), _EXPOSITION)
