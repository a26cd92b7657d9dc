"""A process far from its PostgreSQL server: its own writes are in memory when they are answered."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.write_signal import Sent, WriteSignal
from tests.store.test_remote_follower import Machine, machine
from tests.support.postgres import PostgresServer

FAR = -1.0  # every round trip is longer

Start = Callable[[str], Machine]


@pytest.fixture
async def start(postgres: PostgresServer, migrated: str, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a process on a machine: processes on one machine share its write signal."""
    url, made = postgres.url(postgres.fresh(migrated)), list[Machine]()

    def starting(name: str) -> Machine:
        made.append(machine(PostgresDatabase(url, WriteSignal(tmp_path / name)), near_seconds=FAR))
        return made[-1]

    yield starting
    for each in made:
        await each.follower.close()
        each.database.close()


async def answered() -> None:
    """What a commit brought is applied before the write is answered: in the next iteration of the event loop."""
    await asyncio.sleep(0)


async def test_lists_on_a_replica_that_writes_do_not_wait_for_a_round_trip(start: Start) -> None:
    here = start("here")
    for number in range(3):
        revision = here.create(f"s{number}")
        await answered()
        assert here.follower.catch_up() is None
        assert here.follower.revision == revision
    assert here.names() == ["s0", "s1", "s2"]


async def test_a_commit_brings_the_writes_of_other_machines_before_it(start: Start) -> None:
    here, there = start("here"), start("there")
    there.create("theirs")
    here.create("ours")
    await answered()
    assert here.follower.catch_up() is None
    assert here.names() == ["theirs", "ours"]


async def test_a_write_of_another_process_on_the_machine_is_waited_for(start: Start, tmp_path: Path) -> None:
    first, second = start("here"), start("here")
    await first.headers()

    class Late(WriteSignal):
        """Another process commits and signals between the commit of this one and its signal."""

        def send(self, *, of_tokens: bool, wait: bool = True) -> Sent:
            second.create("second")
            return super().send(of_tokens=of_tokens)

    first.database.write_signal = Late(tmp_path / "here")
    first.create("first")
    await answered()
    assert first.names()[:1] == ["first"]
    assert await first.headers() == []
    assert first.names() == ["first", "second"]


async def test_a_removal_is_in_the_next_answer(start: Start) -> None:
    here = start("here")
    here.create("one")
    here.create("two")
    here.remove("one")
    await answered()
    assert await here.headers() == []
    assert here.names() == ["two"]


async def test_a_refresh_that_started_before_a_commit_takes_nothing_back(start: Start) -> None:
    here = start("here")
    here.create("one")
    await answered()
    apply = here.follower._fetch()
    here.create("two")
    await answered()
    apply()
    assert (here.names(), here.forks) == (["one", "two"], [])
    assert await here.headers() == []


async def test_more_changes_than_a_commit_brings_are_waited_for(start: Start) -> None:
    here, there = start("here"), start("there")
    row = "SELECT 's' || n, 'plain', '{}', '', 'api', 0, :revision FROM generate_series(1, 400) AS n"
    with there.database.transaction() as transaction:
        transaction.execute(
            f"INSERT INTO signers (id, type, open_config, sealed_config, origin, created_at, revision) {row}",
            {"revision": transaction.revision},
        )
    here.create("ours")
    await answered()
    assert await here.headers() == []
    assert (here.listing.total, here.names()[-1]) == (401, "ours")


async def test_a_row_that_cannot_be_read_does_not_fail_the_write(start: Start) -> None:
    here = start("here")
    here.create("broken")
    await answered()
    assert await here.headers() == [(b"relaydeck-stale", b"1")]
    assert here.names() == []
