"""Whether the service can do its work: its database can be read and written, or was away only for a short time."""

import asyncio

from relaydeck.errors import StoreError
from relaydeck.http.health_routes import Readiness
from relaydeck.store.open_store import Store

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


def readiness_from_memory(away_seconds: float, stale_seconds: float) -> Readiness:
    away = f"the database has been away for {away_seconds:.0f} seconds"
    if away_seconds > stale_seconds:
        return Readiness(False, away)
    return Readiness(True, f"ready, from memory: {away}")
