"""Reads outside the event loop: same answers as inside it, no blocking, no shared snapshot."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.errors import StoreTrouble
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.database import Database
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.write_signal import WriteSignal
from tests.support.places import ENGINES, place_of
from tests.support.postgres import PostgresServer
from tests.support.seeding import open_home

REVISION = "SELECT revision FROM clock"


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest, home: Path, lend: Callable[[Path, str], Path]) -> Iterator[Database]:
    lend(home, request.param)
    with closing(open_home(home)) as store:
        yield store.database


@pytest.fixture
def postgresql(home: Path, tmp_path: Path, lend: Callable[[Path, str], Path]) -> Iterator[PostgresDatabase]:
    where = place_of(lend(home, "postgresql"))
    assert isinstance(where, DatabaseUrl)
    with closing(PostgresDatabase(where, WriteSignal(tmp_path / "write-signal"))) as database:
        yield database


def revision(database: Database) -> int:
    number: int = database.read(REVISION)[0][0]
    return number


def write(database: Database) -> int:
    with database.transaction() as transaction:
        return transaction.revision


async def test_it_gives_what_was_read_and_raises_what_was_raised(database: Database) -> None:
    written = write(database)
    assert await database.run_in_reader(lambda: revision(database)) == written
    with pytest.raises(StoreTrouble):
        await database.run_in_reader(lambda: database.read("SELECT 1 FROM nowhere"))


async def test_the_event_loop_goes_on_meanwhile(postgresql: PostgresDatabase) -> None:
    went_on = threading.Event()
    asyncio.get_running_loop().call_later(0, went_on.set)
    assert await postgresql.run_in_reader(lambda: went_on.wait(60))


async def test_a_snapshot_of_the_event_loop_is_not_theirs(postgresql: PostgresDatabase) -> None:
    with postgresql.snapshot():
        before = revision(postgresql)
        after = write(postgresql)
        assert await postgresql.run_in_reader(lambda: revision(postgresql)) == after
        assert revision(postgresql) == before


async def test_two_snapshots_aside_do_not_end_each_other(postgresql: PostgresDatabase) -> None:
    both, wrote = threading.Barrier(2, timeout=60), threading.Event()

    def looking_twice() -> tuple[int, int]:
        with postgresql.snapshot():
            first = revision(postgresql)
            if both.wait() == 0:
                write(postgresql)
                wrote.set()
            assert wrote.wait(60)
            return first, revision(postgresql)

    before = revision(postgresql)
    looks = await asyncio.gather(*(postgresql.run_in_reader(looking_twice) for _ in range(2)))
    assert looks == [(before, before)] * 2


async def test_a_connection_that_broke_is_made_anew(postgresql: PostgresDatabase, postgres: PostgresServer) -> None:
    def broken() -> None:
        postgres.ask(f"SELECT pg_terminate_backend({postgresql.reader.info.backend_pid}, 5000)")
        assert revision(postgresql) == 0

    await postgresql.run_in_reader(broken)
