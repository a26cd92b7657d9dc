"""A lease on a server that several machines share: the clocks of the machines do not matter."""

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.store.leases import Lease
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.write_signal import WriteSignal
from relaydeck.store.writer import Writer
from tests.postgres import PostgresServer


@pytest.fixture
async def database(postgres: PostgresServer, migrated: str, tmp_path: Path) -> AsyncIterator[PostgresDatabase]:
    with closing(PostgresDatabase(postgres.url(postgres.fresh(migrated)), WriteSignal(tmp_path / "signal"))) as made:
        yield made


@pytest.mark.parametrize("difference", [-100_000, 0, 100_000])
async def test_two_machines_with_different_clocks_do_not_hold_one_lease(
    database: PostgresDatabase, difference: float
) -> None:
    writer = Writer(database)
    ours = Lease("monitor", 30, holder="a", clock_sql=database.clock_sql)
    theirs = Lease("monitor", 30, holder="b", clock_sql=database.clock_sql, now=lambda: 1_800_000_000 + difference)
    assert await ours.hold(writer)
    assert not await theirs.hold(writer)
    assert 29 < theirs.taken_for(database.read) <= 30
    await ours.release(writer)
    assert await theirs.hold(writer)
    await writer.stop()
