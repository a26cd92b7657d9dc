"""Health and readiness, for machines, without a credential."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from relaydeck.errors import StoreError
from relaydeck.http.metric_counts import SILENT_SECONDS, Metrics, silence
from relaydeck.http.metrics import LOADING, MASTER_KEY_AWAY
from relaydeck.http.pipeline import Call, Reply, Route
from relaydeck.store.database import Database
from relaydeck.store.follower import RemoteFollower

_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_DEAD_SECONDS = 30.0
_MANY_RECORDS = 10_000
UNREADABLE = "the store cannot be read"
READ_SECONDS = 2.0  # for a database that hangs: probes and scrapes have timeouts of their own


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
        answers = {"/healthz": self.healthz, "/readyz": self.readyz, "/writez": self.writez}
        return {path: {"GET": Route("operations", None, answer=answer)} for path, answer in answers.items()}

    async def healthz(self, _call: Call) -> Reply:
        """Every worker responds: one that is stuck is not repaired by waiting."""
        if silent := self._metrics.silent_workers(_DEAD_SECONDS):
            return _reply(Readiness(False, silence(silent)))
        return _reply(Readiness(True, "ok"))

    async def readyz(self, call: Call) -> Reply:
        """Every worker responds and can serve lists, and the service is not about to end.

        Whether it can write is a detail: what stops its writes stops those of other replicas, too.
        """
        found = await self._found()
        if call.query.partition(b"=")[0] != b"detail":
            return _reply(found)
        cause, seconds = writes = self._metrics.writes()
        told = {"ok": not cause, "cause": cause or None, "text": writes.text, "last_success_seconds": seconds}
        details = {"writes": told, "loading_records": self._metrics.total(LOADING), "can_restart": not self._key_away}
        return Reply(200 if found.ready else 503, msgspec.json.encode({**found._asdict(), **details}))

    async def _found(self) -> Readiness:
        if self._metrics.is_draining():
            return Readiness(False, "draining")
        if silent := self._metrics.silent_workers(SILENT_SECONDS):
            return Readiness(False, silence(silent))
        found = await self._readiness()
        if self._key_away:
            found = found._replace(text=f"{found.text}; a start would fail: the master key cannot be read again")
        if (loading := self._metrics.total(LOADING)) < _MANY_RECORDS:
            return found
        return found._replace(text=f"{found.text}, loading {loading} records into memory")

    @property
    def _key_away(self) -> bool:
        return self._metrics.total(MASTER_KEY_AWAY) > 0

    async def writez(self, _call: Call) -> Reply:
        """Every worker that responds can write to the database."""
        writes = self._metrics.writes()
        return _reply(Readiness(not writes.cause, writes.text))


def _reply(found: Readiness) -> Reply:
    return Reply(200 if found.ready else 503, f"{found.text}\n".encode(), _TEXT)


async def store_readiness(database: Database) -> Readiness:
    try:
        async with asyncio.timeout(READ_SECONDS):
            await database.run_in_reader(lambda: database.read("SELECT revision FROM clock", {}))
            problem = await database.run_in_reader(database.write_problem)
    except (StoreError, TimeoutError):
        return Readiness(False, UNREADABLE)
    return Readiness(not problem, problem or "ready")


def follower_readiness(follower: RemoteFollower, stale_seconds: float) -> Readiness:
    """Of a worker that follows a database server: it asks the server all the time, so a probe need not."""
    if follower.read_only:
        return Readiness(False, "the database is a read-only standby")
    return readiness_from_memory(follower.age, stale_seconds) if follower.problem else Readiness(True)


def readiness_from_memory(away_seconds: float, stale_seconds: float) -> Readiness:
    away = f"the database has been away for {away_seconds:.0f} seconds"
    if away_seconds > stale_seconds:
        return Readiness(False, away)
    return Readiness(True, f"ready, from memory: {away}")
