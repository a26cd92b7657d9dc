"""A lease on a server that several machines share: the clocks of the machines do not matter."""

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.scheduling.leases import ShardLeases
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.write_signal import WriteSignal
from relaydeck.store.writer import Writer
from tests.support.postgres import PostgresServer


@pytest.fixture
async def database(postgres: PostgresServer, migrated: str, tmp_path: Path) -> AsyncIterator[PostgresDatabase]:
    with closing(PostgresDatabase(postgres.url(postgres.fresh(migrated)), WriteSignal(tmp_path / "signal"))) as made:
        yield made


@pytest.mark.parametrize("difference", [-100_000, 0, 100_000])
async def test_two_machines_with_different_clocks_do_not_hold_one_lease(
    database: PostgresDatabase, difference: float
) -> None:
    writer = Writer(database)
    ours = ShardLeases("monitor", 1, 30, holder="a", clock_sql=database.clock_sql)
    theirs = ShardLeases(
        "monitor", 1, 30, holder="b", clock_sql=database.clock_sql, now=lambda: 1_800_000_000 + difference
    )
    await ours.claim(database, writer)
    await theirs.claim(database, writer)
    assert (ours.held, theirs.held) == (True, False)
    assert 29 < theirs.until_claim() <= 30
    await ours.leave(writer, {})
    await theirs.claim(database, writer)
    assert theirs.held
    await writer.stop()
