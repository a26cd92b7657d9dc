"""Without a successful write an alert fires within two minutes, whatever the lists do.

A real Prometheus with the rules as they are watches three services at once, each with a fault of its own, while each
answers twenty lists a second.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psycopg
import pytest

from relaydeck.settings.values import DatabaseUrl
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.postgres_pair import PostgresPair
from tests.support.prometheus import Prometheus
from tests.support.running import Running, eventually
from tests.support.seeding import fill, issue, relayer

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

ALERT = "RelaydeckWritesStopped"
LONGEST_SILENCE = 120.0  # seconds
READS_A_SECOND = 20
ROLE = "CREATE ROLE service LOGIN PASSWORD 'a password of tests'"  # no superuser: it ends nobody else's session
WRITES = "INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public"


class Found(NamedTuple):
    fired_after: float  # seconds, with the fault that was noticed last
    cleared_after: float
    statuses: set[int]  # of the lists meanwhile
    causes: dict[str, str]  # by fault: what `/readyz?detail` named


def owned(server: PostgresServer, name: str) -> DatabaseUrl:
    """The URL of a new database that belongs to a role without further rights."""
    server.ask(f"CREATE DATABASE {name} OWNER service")
    return DatabaseUrl(server.url(name).reveal().replace("//relaydeck:", "//service:"))


@contextmanager
def lock_held(server: PostgresServer) -> Iterator[None]:
    """By a session that the service may not end, as that of an operator who forgot it."""
    with closing(psycopg.connect(server.url("locked").reveal())) as session:
        session.execute("UPDATE clock SET revision = revision")
        yield


@contextmanager
def rights_missing(server: PostgresServer) -> Iterator[None]:
    server.ask(f"REVOKE {WRITES} FROM service", "rightless")
    yield
    server.ask(f"GRANT {WRITES} TO service", "rightless")


@contextmanager
def standby_down(pair: PostgresPair) -> Iterator[None]:
    pair.standby.stop()
    yield
    pair.standby.start()


async def read(running: Running, statuses: set[int]) -> None:
    headers = {"Authorization": f"Bearer {running.token}"}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{running.port}", headers=headers) as session:
        while True:
            async with session.get("/api/v1/relayers") as response:
                await response.read()
                statuses.add(response.status)
            await asyncio.sleep(1 / READS_A_SECOND)


def served(folder: Path, url: DatabaseUrl, name: str) -> Running:
    home = folder / name
    choose(home, url)
    fill(home, relayers=[relayer("one")])
    return Running(home, token=issue(home), rate_limit_per_second="0", monitor_interval_seconds="0")


async def observe(prometheus: Prometheus, services: dict[str, Running], fail: Callable[[], ExitStack]) -> Found:
    statuses: set[int] = set()
    ports = {each.port for each in services.values()}
    reading = [asyncio.create_task(read(each, statuses)) for each in services.values()]
    await asyncio.to_thread(
        eventually, lambda: prometheus.alerts().keys() >= {"RelaydeckBackupOld"}
    )  # they are scraped
    assert prometheus.firing(ALERT) == set()
    faults = await asyncio.to_thread(fail)
    fired_after = await _seconds_until(lambda: prometheus.firing(ALERT) == ports)
    causes = {name: each.ask("GET", "/readyz?detail").json["writes"]["cause"] for name, each in services.items()}
    await asyncio.to_thread(faults.close)
    cleared_after = await _seconds_until(lambda: prometheus.firing(ALERT) == set())
    for each in reading:
        each.cancel()
    return Found(fired_after, cleared_after, statuses, causes)


async def _seconds_until(reached: Callable[[], bool]) -> float:
    started = time.monotonic()
    while not await asyncio.to_thread(reached) and time.monotonic() - started < 2 * LONGEST_SILENCE:
        await asyncio.sleep(0.5)
    return time.monotonic() - started


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    folder = tmp_path_factory.mktemp("outages")
    with ExitStack() as stack:
        server, pair = PostgresServer(), PostgresPair()
        stack.callback(server.remove)
        stack.callback(pair.remove)
        server.ask(ROLE)
        urls = {
            "lock held": owned(server, "locked"),
            "rights missing": owned(server, "rightless"),
            "standby down": pair.url(pair.fresh()),
        }
        services = {name: stack.enter_context(served(folder, url, name)) for name, url in urls.items()}
        prometheus = Prometheus(folder, *(each.port for each in services.values()), quick=False)
        stack.callback(prometheus.stop)

        def fail() -> ExitStack:
            faults = ExitStack()
            for fault in (lock_held(server), rights_missing(server), standby_down(pair)):
                faults.enter_context(fault)
            return faults

        yield asyncio.run(observe(prometheus, services, fail))


def test_the_alert_fires_for_each_fault_within_two_minutes(found: Found) -> None:
    assert found.fired_after < LONGEST_SILENCE, found


def test_lists_were_answered_all_the_time(found: Found) -> None:
    assert found.statuses == {200}


def test_the_service_names_each_cause(found: Found) -> None:
    assert found.causes == {
        "lock held": "lock_held",
        "rights missing": "no_permission",
        "standby down": "standby_away",
    }


def test_the_alert_clears_when_writes_work_again(found: Found) -> None:
    assert found.cleared_after < LONGEST_SILENCE, found
