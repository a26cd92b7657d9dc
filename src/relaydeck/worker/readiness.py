"""Whether the service can do its work: its database can be read and written, or was away only for a short time."""

import asyncio
from typing import TYPE_CHECKING

from relaydeck.errors import StoreError
from relaydeck.http.health_routes import Readiness
from relaydeck.store.open_store import Store

if TYPE_CHECKING:
    from relaydeck.store.remote_follower import RemoteFollower

UNREADABLE = "the store cannot be read"
READ_SECONDS = 2.0  # for a database that hangs: probes and scrapes have timeouts of their own


async def store_readiness(store: Store) -> Readiness:
    try:
        async with asyncio.timeout(READ_SECONDS):
            await store.database.run_in_reader(lambda: store.database.read("SELECT revision FROM clock", {}))
            problem = await store.database.run_in_reader(store.database.write_problem)
    except (StoreError, TimeoutError):
        return Readiness(False, UNREADABLE)
    return Readiness(not problem, problem or "ready")


def follower_readiness(follower: "RemoteFollower", stale_seconds: float) -> Readiness:
    """Of a worker that follows a database server: it asks the server all the time, so a probe need not."""
    if follower.read_only:
        return Readiness(False, "the database is a read-only standby")
    return readiness_from_memory(follower.age, stale_seconds) if follower.problem else Readiness(True)


def readiness_from_memory(away_seconds: float, stale_seconds: float) -> Readiness:
    away = f"the database has been away for {away_seconds:.0f} seconds"
    if away_seconds > stale_seconds:
        return Readiness(False, away)
    return Readiness(True, f"ready, from memory: {away}")
