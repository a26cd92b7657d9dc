"""Several processes deliver from one database: each event once, in order, and none is lost with a process."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from relaydeck.notifications import dispatcher
from relaydeck.notifications.dispatcher import Dispatcher
from relaydeck.settings.model import Settings
from relaydeck.store.writer import Writer
from tests.notifications.conftest import LOOPBACK, Clock, Scene, eventually
from tests.support.places import ENGINES
from tests.support.postgres import PostgresServer
from tests.support.receiver import Received, Receiver, accept, hang
from tests.support.running import Running
from tests.support.seeding import fill, open_home

CLAIM_SECONDS = 35  # a lease, and the five seconds of a try
on_postgresql = pytest.mark.parametrize("store", ["postgresql"], indirect=True)


@pytest.fixture
async def elsewhere(scene: Scene, home: Path) -> AsyncIterator[Scene]:
    """The same database, as a process on another machine sees it."""
    store = open_home(home)
    other = Scene(store, Writer(store.database), scene.clock, scene.settings)
    yield other
    await other.stop()
    await other.writer.stop()
    store.close()


class Replicas:
    """Processes that run, by the real clock, each with how many tries it made."""

    def __init__(self, *scenes: Scene, **given: object) -> None:
        self.tries = [0] * len(scenes)
        self._running = [asyncio.create_task(self._run(number, each, given)) for number, each in enumerate(scenes)]

    async def _run(self, number: int, scene: Scene, given: dict[str, object]) -> None:
        def count(_outcome: str) -> None:
            self.tries[number] += 1

        await scene.process(count_try=count, now=time.time, monotonic=time.monotonic, **given).run()

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


async def dawdle(received: Received) -> web.StreamResponse:
    await asyncio.sleep(0.001 * (received.sequence % 4))
    return web.Response()


async def test_hundreds_of_events_arrive_once_and_in_order(scene: Scene, elsewhere: Scene) -> None:
    receiver = await scene.receiver("pager", dawdle)
    sequences: dict[str, list[int]] = {f"r{number}": [] for number in range(40)}
    for _ in range(10):
        for name, own in sequences.items():
            own.append(scene.paused(name, "pager"))
    replicas = Replicas(scene, elsewhere)
    async with asyncio.timeout(60):
        while scene.store.database.read("SELECT 1 FROM deliveries WHERE state = 'pending' LIMIT 1"):
            await asyncio.sleep(0.01)
    await eventually(lambda: sum(replicas.tries) >= 400)  # a try is counted after it is stored
    await replicas.stop()
    arrived: dict[str, list[int]] = {name: [] for name in sequences}
    for each in receiver.got:
        arrived[each.json["data"]["relayer"]["id"]].append(each.sequence)
    assert arrived == sequences
    assert sum(replicas.tries) == 400
    assert (0 not in replicas.tries) == scene.store.database.remote  # else one of them has all of it


@on_postgresql
async def test_a_claim_is_seen_by_who_delivers_and_by_nobody_else(scene: Scene, elsewhere: Scene) -> None:
    receiver = await scene.receiver("pager", hang)
    sequence = scene.paused("r1", "pager")
    shown = scene.delivery(sequence)
    revision = scene.store.database.read("SELECT revision FROM clock")
    await scene.process().turn()
    await eventually(lambda: len(receiver.got) == 1)
    assert await elsewhere.process().turn() == CLAIM_SECONDS  # it looks again when that has run out
    assert scene.store.database.read("SELECT revision FROM clock") == revision
    assert scene.delivery(sequence) == shown
    assert receiver.sequences == [sequence]


async def passed_over(scene: Scene, elsewhere: Scene) -> tuple[Receiver, Dispatcher, Dispatcher]:
    """`pager` hangs in the first try of one process; another, at work, has found nothing left to do there."""
    pager = await scene.receiver("pager", hang)
    await scene.receiver("other")
    one, other = scene.process(), elsewhere.process()
    scene.paused("r1", "pager")
    await one.turn()
    await eventually(lambda: len(pager.got) == 1)
    pager.answering = accept
    scene.paused("r2", "pager")
    await scene.deliver(other)  # so it looks again when that one is delivered
    scene.paused("r1", "other")
    await scene.deliver(other)
    assert scene.states() == ["pending", "delivered", "delivered"]
    return pager, one, other


@on_postgresql
async def test_a_claim_that_ran_out_is_taken_by_who_was_waiting_for_it(scene: Scene, elsewhere: Scene) -> None:
    pager, dies, heir = await passed_over(scene, elsewhere)
    await dies.attempts.cancel()  # as kill -9 does: the request left, its outcome was never written
    scene.clock.pass_(CLAIM_SECONDS - 1)
    assert await heir.turn() == 1
    assert pager.sequences == [1, 2]
    scene.clock.pass_(1)
    await scene.deliver(heir)
    assert pager.sequences == [1, 2, 1]


@on_postgresql
async def test_of_tries_written_together_only_the_lost_one_is_not(scene: Scene) -> None:
    answered = asyncio.Event()

    async def when_told(_: Received) -> web.StreamResponse:
        await answered.wait()
        return web.Response()

    receivers = [await scene.receiver(name, when_told) for name in ("one", "other")]
    lost, kept = scene.paused("r1", "one"), scene.paused("r1", "other")
    delivery = scene.process()
    await delivery.turn()
    await eventually(lambda: all(receiver.got for receiver in receivers))
    with scene.store.database.transaction() as transaction:
        transaction.execute("UPDATE deliveries SET claimed_by = 'another' WHERE seq = :seq", {"seq": lost})
    answered.set()
    await delivery.attempts.join()
    assert [each.status for each in scene.attempts(kept)] == [200]
    assert (scene.attempts(lost), scene.delivery(lost).tries) == ([], 0)
    assert scene.states() == ["pending", "delivered"]
    claimed = "SELECT claimed_by FROM deliveries ORDER BY seq"
    assert scene.store.database.read(claimed) == [("another",), (None,)]


@on_postgresql
async def test_who_stops_gives_back_what_it_cannot_finish(
    scene: Scene, elsewhere: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "_FINISH_SECONDS", 0.01)
    pager, stops, heir = await passed_over(scene, elsewhere)
    await stops.close()
    await scene.deliver(heir)  # at once: no time has passed
    assert pager.sequences == [1, 2, 1]
    assert scene.states() == ["delivered"] * 3


@on_postgresql
async def test_who_is_stopped_while_it_claims_gives_that_back_too(
    scene: Scene, elsewhere: Scene, postgres: PostgresServer
) -> None:
    receiver = await scene.receiver("pager")
    sequence, stops = scene.paused("r1", "pager"), scene.process()
    with elsewhere.store.database.transaction() as transaction:
        transaction.execute("LOCK TABLE deliveries IN EXCLUSIVE MODE")  # to be read, not to be claimed
        running = asyncio.create_task(stops.run())
        await eventually(lambda: bool(postgres.ask("SELECT 1 FROM pg_locks WHERE NOT granted")))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        closing = asyncio.create_task(stops.close())
        await asyncio.wait({closing}, timeout=0.2)
    await closing
    assert receiver.got == []
    await scene.deliver(elsewhere.process())
    assert receiver.sequences == [sequence]


@on_postgresql
async def test_who_stops_with_nothing_claimed_writes_nothing(scene: Scene) -> None:
    await scene.receiver("pager")
    scene.paused("r1", "pager")
    delivery = scene.process()
    await scene.deliver(delivery)
    revision = scene.store.database.read("SELECT revision FROM clock")
    await delivery.close()
    assert scene.store.database.read("SELECT revision FROM clock") == revision


@on_postgresql
async def test_a_dead_receiver_has_one_place_in_each_process(
    scene: Scene, elsewhere: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "_FINISH_SECONDS", 0.01)
    dead, healthy = await scene.receiver("dead", hang), await scene.receiver("healthy")
    for number in range(20):
        scene.paused(f"r{number}", "dead")
    expected = [scene.paused("r1", "healthy") for _ in range(20)]
    replicas = Replicas(scene, elsewhere, max_attempts=2, webhook_timeout_seconds=30)
    await eventually(lambda: len(healthy.got) == 20)
    await replicas.stop()
    assert (healthy.sequences, len(dead.got)) == (expected, 2)


async def test_places_that_one_receiver_did_not_need_are_another_ones(scene: Scene) -> None:
    one, other = await scene.receiver("one"), await scene.receiver("other")
    delivery: Dispatcher = scene.process(max_attempts=2)
    for name in ("one", "other"):
        scene.paused("r1", name)
    await scene.deliver(delivery)  # from now on each may have all the places there are
    one.answering = other.answering = hang
    for name in ("one", "other"):
        scene.paused("r1", name)
    for _ in range(2):
        await delivery.turn()
    await eventually(lambda: len(one.got) == len(other.got) == 2)


@pytest.mark.parametrize("engine", ENGINES)
async def test_what_a_killed_service_was_trying_another_process_delivers(
    home: Path, lend: Callable[[Path, str], Path], engine: str
) -> None:
    fill(lend(home, engine))
    store = open_home(home)
    clock = Clock(time.time())
    scene = Scene(store, Writer(store.database), clock, Settings(webhook_allow=LOOPBACK))
    receiver = await scene.receiver("pager", hang)
    numbers = [scene.paused("r1", "pager") for _ in range(2)]
    killed = await asyncio.to_thread(Running, home, webhook_allow="127.0.0.0/8")
    await eventually(lambda: len(receiver.got) == 1)
    await asyncio.to_thread(killed.kill)
    receiver.answering = accept
    heir = scene.process()
    await scene.deliver(heir)
    assert receiver.sequences == numbers[:1]  # still the other one's
    clock.pass_(60)
    await scene.deliver(heir)
    assert receiver.sequences == [numbers[0], *numbers]
    assert [len(scene.attempts(number)) for number in numbers] == [1, 1]
    await scene.stop()
    await scene.writer.stop()
    store.close()


@on_postgresql
@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_is_wrong_by_an_hour_neither_breaks_nor_extends_a_claim(
    scene: Scene, elsewhere: Scene, hours: int
) -> None:
    receiver = await scene.receiver("pager", hang)
    sequence = scene.paused("r1", "pager")
    times = {"monotonic": time.monotonic, "clock_sql": scene.store.database.clock_sql}
    claiming = scene.process(now=time.time, **times)
    await claiming.turn()
    await eventually(lambda: len(receiver.got) == 1)
    other = elsewhere.process(now=lambda: time.time() + hours * 3600, **times)
    assert 0 < await other.turn() <= CLAIM_SECONDS
    assert len(receiver.got) == 1
    claimed = "SELECT claimed_until FROM deliveries WHERE seq = :seq"
    ((until,),) = scene.store.database.read(claimed, {"seq": sequence})
    assert abs(until / 1000 - time.time() - CLAIM_SECONDS) < 30
