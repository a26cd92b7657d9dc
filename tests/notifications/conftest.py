"""A home, a clock that only tests move, and deliveries from that home to receivers on loopback."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from relaydeck.log import Log
from relaydeck.notifications import delivery_queries, events, notification_changes
from relaydeck.notifications.delivery_queue import AttemptRecord
from relaydeck.notifications.dispatcher import Dispatcher
from relaydeck.notifications.model import EventKind, Notification
from relaydeck.relayers.relayer_changes import event_data
from relaydeck.secret import Secret
from relaydeck.settings.model import Settings
from relaydeck.store.database import Row
from relaydeck.store.open_store import Store
from relaydeck.store.writer import Writer
from tests.support.places import ENGINES
from tests.support.receiver import Answering, Receiver, accept
from tests.support.seeding import fill, open_home, relayer
from tests.support.stored_rows import create_row

LOOPBACK = (ip_network("127.0.0.0/8"),)
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Clock:
    """Wall clock and monotonic clock in one."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


class Scene:
    """One home with relayers `r1`…`r9`; what tests say about it reads as what happens to it."""

    def __init__(self, store: Store, writer: Writer, clock: Clock, settings: Settings) -> None:
        self.store, self.writer, self.clock, self.settings = store, writer, clock, settings
        self.receivers: list[Receiver] = []
        self.deliveries: list[Dispatcher] = []

    def process(self, **given: Any) -> Dispatcher:
        """What one more process would run."""
        log = Log(as_json=True, level="error")
        settings = replace(self.settings, **{k: v for k, v in given.items() if hasattr(self.settings, k)})
        others = {k: v for k, v in given.items() if not hasattr(self.settings, k)}
        chosen: dict[str, Any] = {"now": self.clock, "monotonic": self.clock, "random": lambda: 0.5} | others
        delivery = Dispatcher(self.store, self.writer, log, settings, **chosen)
        self.deliveries.append(delivery)
        return delivery

    async def receiver(self, name: str, answering: Answering = accept, key: str | None = KEY) -> Receiver:
        receiver = await Receiver(answering).start()
        self.receivers.append(receiver)
        self.notify(name, receiver.url, key)
        return receiver

    def notify(self, name: str, url: str, key: str | None = KEY) -> None:
        notification = Notification(name, "webhook", url, UNSET if key is None else Secret(key))
        with self.store.database.transaction() as transaction:
            create_row(notification_changes.TABLE, transaction, self.store.vault, notification)

    def happens(self, kind: EventKind, name: str | None, to: str | None) -> int:
        with self.store.database.transaction() as transaction:
            return events.record(
                transaction,
                kind,
                {"notification_id": to} if name is None else event_data(relayer(name)),
                notification_id=to,
                relayer_id=name,
                now=int(self.clock.now),
            )

    def paused(self, name: str, to: str) -> int:
        return self.happens(EventKind.RELAYER_PAUSED, name, to)

    async def deliver(self, delivery: Dispatcher) -> None:
        """Everything that is due now, and what comes forward by it."""
        for _ in range(1000):
            await delivery.turn()
            if not delivery.attempts:
                return
            await delivery.attempts.join()
        raise AssertionError("it does not come to rest")

    def delivery(self, sequence: int) -> Row:
        (row,) = delivery_queries.list_deliveries(self.store.database.read, after=sequence - 1, limit=1)
        return row

    def scheduled(self, sequence: int) -> int | None:
        """When the next attempt counts, in milliseconds."""
        sql = "SELECT coalesce(scheduled_at, due_at) AS moment FROM deliveries WHERE seq = :seq"
        found: int | None = self.store.database.read(sql, {"seq": sequence})[0].moment
        return found

    def attempts(self, sequence: int) -> list[AttemptRecord]:
        found = delivery_queries.list_attempts(self.store.database.read, self.delivery(sequence).id)
        return [
            AttemptRecord(each.at, each.duration_ms, each.status, each.problem or "", each.answer) for each in found
        ]

    def states(self) -> list[str]:
        return [row.state for row in delivery_queries.list_deliveries(self.store.database.read)]

    async def expire(self) -> None:
        """What every worker does each hour."""
        database, days = self.store.database, self.settings.event_retention_days
        await events.remove_expired(database, self.writer, days, int(self.clock.now))

    async def stop(self) -> None:
        for receiver in self.receivers:
            await receiver.stop()
        for delivery in self.deliveries:
            await delivery.close()


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, home: Path, lend: Callable[[Path, str], Path]) -> Iterator[Store]:
    fill(lend(home, request.param))
    store = open_home(home)
    yield store
    store.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def scene(store: Store, clock: Clock) -> AsyncIterator[Scene]:
    writer = Writer(store.database)
    scene = Scene(store, writer, clock, Settings(webhook_allow=LOOPBACK, webhook_timeout_seconds=5))
    yield scene
    await scene.stop()
    await writer.stop()


async def eventually(happened: Callable[[], bool]) -> None:
    """For what other tasks do by themselves, in real time."""
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0.005)
