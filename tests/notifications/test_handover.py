"""Processes come and go: one delivers at a time, and nothing is lost when it dies."""

import asyncio
from pathlib import Path

import pytest

from relaydeck.errors import ServerFailure, StoreError
from relaydeck.notifications import events
from relaydeck.notifications.events import BATCH_EVENTS
from relaydeck.notifications.model import EventKind
from relaydeck.scheduling.leases import LeaseLost, ShardLeases
from tests.notifications.conftest import Clock, Scene, eventually
from tests.support.receiver import accept, answer, hang
from tests.support.seeding import opened
from tests.support.statements import run_statement
from tests.support.steady_loop import skip

DAY = 86_400


class OneLease(ShardLeases):
    """For work that is not divided into shards."""

    def __init__(self, scene: Scene, holder: str, seconds: float = 30) -> None:
        super().__init__("work", 1, seconds, holder=holder, now=scene.clock, monotonic=scene.clock)
        self.scene = scene

    async def hold(self) -> bool:
        await self.claim(self.scene.store.database, self.scene.writer)
        return self.held

    async def save(self) -> None:
        await self.scene.writer.write(lambda transaction: self.require(transaction, 0))


async def test_one_holds_a_lease_at_a_time(scene: Scene) -> None:
    ours, theirs = OneLease(scene, "a"), OneLease(scene, "b")
    assert await ours.hold()
    assert not await theirs.hold()
    assert (ours.held, theirs.held, theirs.until_claim()) == (True, False, 30)


async def test_a_renewed_lease_keeps_its_fence(scene: Scene) -> None:
    ours = OneLease(scene, "a")
    await ours.hold()
    scene.clock.pass_(20)
    await ours.hold()
    scene.clock.pass_(29)
    assert (ours.held, ours.fences) == (True, {0: 1})


async def test_a_lease_that_ran_out_is_taken_and_its_old_holder_can_write_no_more(scene: Scene) -> None:
    ours, theirs = OneLease(scene, "a"), OneLease(scene, "b")
    await ours.hold()
    scene.clock.pass_(30)
    assert not ours.held
    await ours.save()  # no other process took it, so this write is allowed
    assert await theirs.hold()
    assert theirs.fences == {0: 2}
    with pytest.raises(LeaseLost):
        await ours.save()


async def test_a_holder_that_comes_back_gets_a_new_fence(scene: Scene) -> None:
    ours, theirs = OneLease(scene, "a"), OneLease(scene, "b")
    for lease in (ours, theirs, ours):
        assert await lease.hold()
        scene.clock.pass_(31)
    assert ours.fences == {0: 3}


async def test_a_released_lease_is_free_at_once(scene: Scene) -> None:
    ours, theirs = OneLease(scene, "a"), OneLease(scene, "b")
    await ours.hold()
    await ours.leave(scene.writer, {})
    assert not ours.held
    assert await theirs.hold()


async def test_a_release_by_a_former_holder_changes_nothing(scene: Scene) -> None:
    ours, theirs = OneLease(scene, "a", seconds=60), OneLease(scene, "b", seconds=60)
    await ours.hold()
    with scene.store.database.transaction() as transaction:
        transaction.execute("UPDATE leases SET expires_at = 0")
    await theirs.hold()
    await ours.leave(scene.writer, {})
    assert (await ours.hold(), ours.until_claim()) == (False, 60)


async def test_a_lease_that_could_not_be_written_is_not_held(scene: Scene) -> None:
    ours = OneLease(scene, "a")
    run_statement(scene.store.database, "ALTER TABLE leases RENAME TO elsewhere")
    with pytest.raises((StoreError, ServerFailure)):
        await ours.hold()
    assert (ours.held, ours.fences) == (False, {})


async def test_a_lease_from_a_clock_that_was_far_ahead_is_taken(scene: Scene) -> None:
    ours, theirs = OneLease(scene, "a"), OneLease(scene, "b")
    scene.clock.pass_(DAY)
    await ours.hold()
    scene.clock.pass_(-DAY)
    assert await theirs.hold()


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_only_the_holder_delivers(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    one, other = scene.process(), scene.process()
    first = scene.paused("r1", "pager")
    await scene.deliver(one)
    second = scene.paused("r1", "pager")
    assert 0 < await other.turn() <= 31
    assert receiver.sequences == [first]
    await scene.deliver(one)
    assert receiver.sequences == [first, second]


async def test_another_process_takes_over_within_a_lease_period(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    dies, heir = scene.process(), scene.process()
    first, second = scene.paused("r1", "pager"), scene.paused("r1", "pager")
    await scene.deliver(dies)  # and is heard of no more
    receiver.answering = accept
    scene.clock.pass_(30)
    await scene.deliver(heir)
    assert receiver.sequences == [first, first, second]


async def test_a_restart_goes_on_where_the_last_process_stopped(scene: Scene) -> None:
    receiver = await scene.receiver("pager", hang)
    numbers = [scene.paused("r1", "pager") for _ in range(3)]
    killed = scene.process()
    await killed.turn()
    await eventually(lambda: len(receiver.got) == 1)
    await killed.attempts.cancel()  # as kill -9 does: the request left, its outcome was never written
    receiver.answering = accept
    scene.clock.pass_(35)  # a lease; where rows are claimed, and the five seconds of a try
    await scene.deliver(scene.process())
    assert receiver.sequences == [numbers[0], *numbers]
    assert scene.states() == ["delivered"] * 3


async def test_a_closed_process_lets_the_next_begin_at_once(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    scene.paused("r1", "pager")
    one = scene.process()
    await scene.deliver(one)
    await one.close()
    scene.paused("r1", "pager")
    await scene.deliver(scene.process())
    assert receiver.sequences == [1, 2]


async def test_a_try_that_ends_after_the_lease_was_lost_is_not_written_down(scene: Scene) -> None:
    receiver = await scene.receiver("pager", hang)
    sequence = scene.paused("r1", "pager")
    slow, heir = scene.process(webhook_timeout_seconds=600), scene.process()
    await slow.turn()
    await eventually(lambda: len(receiver.got) == 1)
    receiver.answering = accept
    scene.clock.pass_(631)  # its lease and the time that it gives a receiver
    await scene.deliver(heir)
    skip(600)
    await slow.attempts.join()
    assert [each.status for each in scene.attempts(sequence)] == [204]
    assert scene.delivery(sequence).state == "delivered"


def rename(home: Path, column: str, name: str) -> None:
    """Over a connection of its own: the writer may use its connection at any moment."""
    with opened(home) as store, store.database.migration() as execute:
        execute(f"ALTER TABLE attempts RENAME COLUMN {column} TO {name}")


async def test_while_the_store_takes_no_writes_nothing_is_sent_twice(
    scene: Scene, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaydeck.process.background._RETRY_SECONDS", 0.01)
    receiver = await scene.receiver("pager")
    sequence, delivery = scene.paused("r1", "pager"), scene.process()
    await delivery.turn()
    rename(home, "answer", "taken_away")
    await eventually(lambda: len(receiver.got) == 1)
    for _ in range(5):
        await delivery.turn()
        await asyncio.sleep(0.01)
    assert (len(receiver.got), scene.delivery(sequence).state) == (1, "pending")
    rename(home, "taken_away", "answer")
    await delivery.attempts.join()
    assert (len(receiver.got), scene.delivery(sequence).state) == (1, "delivered")


def old_events(scene: Scene, amount: int, to: str | None = None) -> None:
    with scene.store.database.transaction() as transaction:
        for _ in range(amount):
            events.record(
                transaction, EventKind.RELAYER_PAUSED, {}, notification_id=to, relayer_id="r1", now=int(scene.clock.now)
            )


def sequences(scene: Scene) -> list[int]:
    return [each.sequence for each in events.list_events(scene.store.database.read, limit=10_000)]


async def test_old_events_are_removed_in_batches_and_the_newest_stays(scene: Scene, clock: Clock) -> None:
    old_events(scene, 2 * BATCH_EVENTS + 10)
    clock.pass_(30 * DAY + 1)
    now, lengths = int(clock.now), []
    for _ in range(2):
        with scene.store.database.transaction() as transaction:
            lengths.append(events.remove_batch(transaction, now=now, before=now - 30 * DAY))
    await scene.expire()
    assert ([*lengths, len(sequences(scene))]) == [BATCH_EVENTS, BATCH_EVENTS, 1]
    assert events.oldest_sequence(scene.store.database.read) == 1010


async def test_an_event_removed_takes_its_delivery_and_tries_along(scene: Scene, clock: Clock) -> None:
    await scene.receiver("pager")
    old_events(scene, 3, to="pager")
    delivery = scene.process()
    await scene.deliver(delivery)
    clock.pass_(31 * DAY)
    await scene.expire()
    counts = [
        scene.store.database.read(f"SELECT count(*) FROM {t}")[0][0] for t in ("events", "deliveries", "attempts")
    ]
    assert counts == [1, 1, 1]


async def test_an_event_on_its_way_is_kept_and_so_is_what_follows(scene: Scene, clock: Clock) -> None:
    await scene.receiver("pager", answer(500))
    old_events(scene, 2)
    old_events(scene, 2, to="pager")
    old_events(scene, 2)
    delivery = scene.process()
    await scene.deliver(delivery)
    clock.pass_(31 * DAY)
    await scene.expire()
    assert sequences(scene) == [3, 4, 5, 6]


async def test_a_number_is_never_given_twice(scene: Scene, clock: Clock) -> None:
    old_events(scene, 3)
    clock.pass_(31 * DAY)
    await scene.expire()
    old_events(scene, 1)
    assert sequences(scene) == [3, 4]
