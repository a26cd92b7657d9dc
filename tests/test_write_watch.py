"""A worker knows whether it can write, and says why it cannot: neither too early nor too often."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from relaydeck.errors import ServerFailure, SignerExists
from relaydeck.http.metric_counts import Metrics, Writes
from relaydeck.log import Log
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer
from relaydeck.worker.housekeeping import WriteWatch
from tests.support.seeding import opened


class Watched:
    """A watch and a writer on a real database, with a clock of their own."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.now = 1000.0
        self._read_end, write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self.metrics = Metrics(folder / "metrics-of-tests", lambda: self.now)
        self.metrics.claim_row()
        self.metrics.beat()
        log = Log(as_json=True, descriptor=write_end)
        self.watch = WriteWatch(store.database, self.metrics, log, lambda: self.now)
        self.writer = Writer(store.database, report=self.watch.note)

    async def after(self, seconds: float) -> Writes:
        """What is known when so much time has passed, and the write that is tried then is over."""
        self.now += seconds
        self.metrics.beat()
        await self.watch.look(self.writer)
        while self.writer.busy_seconds:
            await asyncio.sleep(0.01)
        await self.watch.look(self.writer)
        return self.metrics.writes()

    def logged(self) -> list[tuple[str, str | None, int]]:
        """Since the last time."""
        try:
            lines = os.read(self._read_end, 100_000).splitlines()
        except BlockingIOError:
            return []
        return [(each["event"], each.get("reason"), each["failures"]) for each in map(json.loads, lines)]

    def failures(self, cause: str) -> int:
        sample = f'relaydeck_writes_failed_total{{cause="{cause}"}} '
        return int(self.metrics.exposition().partition(sample)[2].partition("\n")[0])


@asynccontextmanager
async def watched(home: Path) -> AsyncIterator[Watched]:
    with opened(home) as store:
        found = Watched(store, home)
        yield found
        await found.writer.stop()


async def test_before_the_first_write_nothing_is_known(home: Path) -> None:
    async with watched(home) as found:
        assert found.metrics.writes() == Writes("unknown", None)
        assert "relaydeck_writes_ok" not in found.metrics.exposition()
        assert await found.after(0) == Writes("", 0)
        assert "\nrelaydeck_writes_ok 1\n" in found.metrics.exposition()


async def test_a_write_is_tried_also_between_writes_that_are_all_refused(home: Path) -> None:
    async with watched(home) as found, asyncio.TaskGroup() as clients:
        await found.after(0)
        working = [clients.create_task(write_what_is_refused(found.writer)) for _ in range(2)]
        await asyncio.sleep(0)
        found.now += 10
        async with asyncio.timeout(10):
            while found.metrics.writes() != Writes("", 0):
                await found.watch.look(found.writer)
                await asyncio.sleep(0)
        for each in working:
            each.cancel()


async def write_what_is_refused(writer: Writer) -> None:
    def refuse(_: Transaction) -> None:
        raise SignerExists("s")

    while True:
        with suppress(SignerExists):
            await writer.write(refuse)


async def test_a_write_is_tried_only_when_there_was_none_for_some_seconds(home: Path) -> None:
    async with watched(home) as found:
        await found.after(0)
        assert await found.after(3) == Writes("", 3)
        await found.writer.write(lambda transaction: None)
        assert await found.after(3) == Writes("", 3)
        assert await found.after(1) == Writes("", 0)


async def test_an_outage_is_told_when_it_begins_each_minute_and_when_it_ends(home: Path) -> None:
    async with watched(home) as found:
        await found.after(0)
        with opened(home) as other, other.database.transaction():
            assert await found.after(4) == Writes("", 4)  # it may be an apply, which takes a few seconds
            assert found.logged() == []
            assert await found.after(1) == Writes("lock_held", 5)
            assert found.logged() == [("writes fail", "lock_held", 2)]
            assert await found.after(59) == Writes("lock_held", 64)
            assert found.logged() == []
            assert await found.after(1) == Writes("lock_held", 65)
            assert found.logged() == [("writes still fail", "lock_held", 3)]
            assert (found.failures("lock_held"), found.failures("other")) == (4, 0)
        assert await found.after(1) == Writes("", 0)
        assert found.logged() == [("writes work again", None, 4)]
        assert found.failures("lock_held") == 4


async def test_a_failure_that_the_next_write_does_not_repeat_is_counted_and_nothing_else(home: Path) -> None:
    async with watched(home) as found:
        await found.after(0)
        with opened(home) as other, other.database.transaction():
            await found.after(4)
        assert await found.after(1) == Writes("", 0)
        assert (found.failures("lock_held"), found.logged()) == (1, [])


async def test_a_write_of_a_client_that_is_not_answered_is_an_outage(home: Path) -> None:
    async with watched(home) as found:
        await found.after(0)
        hanging = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wait(_transaction: Transaction) -> None:
            asyncio.run_coroutine_threadsafe(hanging.wait(), loop).result(60)

        write = asyncio.create_task(found.writer.write(wait))
        while found.writer.busy_seconds < 5:
            await asyncio.sleep(0.05)
        found.now += 5
        await found.watch.look(found.writer)
        assert found.metrics.writes() == Writes("timeout", 5)
        hanging.set()
        await write
        assert await found.after(0) == Writes("", 0)
        assert [event for event, _, _ in found.logged()] == ["writes fail", "writes work again"]


async def test_a_write_that_is_itself_at_fault_says_nothing_about_the_database(home: Path) -> None:
    def refuse(_transaction: Transaction) -> None:
        raise SignerExists

    async with watched(home) as found:
        await found.after(0)
        found.now += 3
        with pytest.raises(SignerExists):
            await found.writer.write(refuse)
        assert await found.after(0) == Writes("", 3)


async def test_a_failed_write_of_a_client_counts_with_its_cause(home: Path) -> None:
    async with watched(home) as found:
        await found.after(0)
        found.now += 60
        found.metrics.beat()
        (home / "relaydeck.db").rename(home / "elsewhere")
        with pytest.raises(ServerFailure):
            await found.writer.write(lambda transaction: None)
        await found.watch.look(found.writer)
        assert found.metrics.writes() == Writes("file_replaced", 60)
        (home / "elsewhere").rename(home / "relaydeck.db")


async def test_a_worker_that_reports_nothing_any_more_cannot_write(home: Path) -> None:
    async with watched(home) as found:
        await found.after(0)
        found.now += 31
        found.metrics.beat()
        assert found.metrics.writes() == Writes("timeout", 31)
