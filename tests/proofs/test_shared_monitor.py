"""Two real replicas share the relayers: each is checked once in a round, by one of them, also after one was killed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from relaydeck.networks.model import RpcUrl
from relaydeck.relayers import relayer_rows
from tests.support.lengths import times
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.recording_node import RecordingNode
from tests.support.running import Running
from tests.support.seeding import fill, opened, relayer
from tests.support.stored_rows import create_row

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

RELAYERS = 300
ROUNDS = times(3, short=2)
# Longer than a busy machine stands still: a replica that loses its lease or misses a round is another proof.
SETTINGS = {"monitor_interval_seconds": "4", "lease_seconds": "10"}


def provision(home: Path, node: RecordingNode) -> None:
    fill(home)
    with opened(home) as store, store.database.transaction() as transaction:
        for number in range(RELAYERS):
            made = relayer(f"r{number}", custom_rpc_urls=(RpcUrl(node.url),), address=f"0x{number:040x}")
            create_row(relayer_rows.TABLE, transaction, store.vault, made)


@asynccontextmanager
async def replica(home: Path, key: Path) -> AsyncIterator[Running]:
    running = await asyncio.to_thread(Running, home, master_key_file=str(key), **SETTINGS)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            await asyncio.to_thread(running.stop)


async def until(condition: Callable[[], bool], within: float = 180) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.05)


async def shards(running: Running) -> int:
    answer = await asyncio.to_thread(running.ask, "GET", "/metrics")
    (line,) = [each for each in answer.body.decode().splitlines() if each.startswith("relaydeck_monitor_shards ")]
    return int(line.split()[1])


async def until_shared(*replicas: Running) -> None:
    async with asyncio.timeout(180):
        while [await shards(each) for each in replicas] != [64 // len(replicas)] * len(replicas):
            await asyncio.sleep(0.2)


async def check_rounds(node: RecordingNode) -> None:
    """Each relayer is checked as often as every other one: the counts of two differ by the round under way."""
    node.asked.clear()
    await until(lambda: len(node.asked) == RELAYERS and min(node.asked.values()) >= ROUNDS)
    assert max(node.asked.values()) - min(node.asked.values()) <= 2
    assert node.asked_twice_at_once == set()


async def test_two_replicas_check_each_relayer_once_and_take_over_from_one_another(
    tmp_path: Path, postgres: PostgresServer, migrated: str
) -> None:
    homes, name = [tmp_path / "one", tmp_path / "two"], postgres.fresh(migrated)
    for home in homes:
        choose(home, postgres.url(name))
    node = RecordingNode()
    node.delay = 0.05
    await node.start()
    provision(homes[0], node)
    key = homes[0] / "master.key"
    async with replica(homes[0], key) as one:
        async with replica(homes[1], key) as other:
            await until_shared(one, other)
            await check_rounds(node)
            await asyncio.to_thread(other.kill)
            await until_shared(one)
            await check_rounds(node)
        async with replica(homes[1], key) as again:
            await until_shared(one, again)
            await check_rounds(node)
    await node.stop()
