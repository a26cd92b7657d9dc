"""A relayer is found as it is, also when it is changed while it is being read."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from relaydeck.errors import RelayerNotFound
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.store.open_store import Store
from tests.support.places import ENGINES
from tests.support.postgres import PostgresServer
from tests.support.seeding import fill, opened, relayer

# Until the thread that reads has asked its last question, and waits for the next one.
_HAS_READ = "SELECT 1 FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'SELECT name,%FROM networks%'"


def rename(store: Store, name: str) -> None:
    with store.database.transaction() as transaction:
        transaction.execute("UPDATE relayers SET name = :name", {"name": name})


@pytest.mark.parametrize("engine", ENGINES)
async def test_it_is_remembered_until_it_is_forgotten(
    home: Path, lend: Callable[[Path, str], Path], engine: str
) -> None:
    fill(lend(home, engine), relayers=[relayer("r1")])
    with opened(home) as store:
        directory = RelayerDirectory(store.database, store.vault)
        names = [(await directory.find("r1"))[0].name]
        rename(store, "another")
        names.append((await directory.find("r1"))[0].name)
        directory.forget()
        names.append((await directory.find("r1"))[0].name)
        with pytest.raises(RelayerNotFound):
            await directory.find("r2")
    assert names == ["Relayer r1", "Relayer r1", "another"]


async def test_what_was_read_before_a_write_is_not_remembered_after_it(
    home: Path, lend: Callable[[Path, str], Path], postgres: PostgresServer
) -> None:
    fill(lend(home, "postgresql"), relayers=[relayer("r1")])
    with opened(home) as store:
        directory = RelayerDirectory(store.database, store.vault)
        early = asyncio.create_task(directory.find("r1"))
        await asyncio.sleep(0)
        while not postgres.ask(_HAS_READ):  # the event loop stands still: what was read is not taken up yet
            pass
        rename(store, "another")
        directory.forget()
        assert (await early)[0].name == "Relayer r1"
        assert (await directory.find("r1"))[0].name == "another"
