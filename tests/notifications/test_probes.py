"""While a receiver fails, a waiting delivery is tried every minute. A receiver that recovered gets everything."""

from aiohttp import web

from relaydeck.notifications import delivery_queries
from tests.notifications.conftest import Scene
from tests.support.receiver import Received, accept, answer


async def pass_minutes(scene: Scene, count: int) -> None:
    for _ in range(count):
        scene.clock.pass_(60)
        await scene.deliver(scene.deliveries[0])


async def fail_twice(scene: Scene) -> None:
    """Then the next attempt is due in five minutes."""
    await scene.deliver(scene.deliveries[0])
    scene.clock.pass_(5)
    await scene.deliver(scene.deliveries[0])


async def test_a_failing_receiver_is_tried_every_minute_and_the_schedule_stays(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    sequence, _ = scene.paused("r1", "pager"), scene.process()
    await fail_twice(scene)
    scheduled = scene.scheduled(sequence)
    assert scene.delivery(sequence).next_try_at == int((scene.clock.now + 60) * 1000)
    await pass_minutes(scene, 4)
    assert (len(receiver.got), scene.delivery(sequence).tries) == (6, 2)
    assert scene.scheduled(sequence) == scheduled
    await pass_minutes(scene, 1)
    assert (len(receiver.got), scene.delivery(sequence).tries) == (7, 3)


async def test_a_receiver_that_recovered_gets_all_that_waits_within_a_minute(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    sequences = [scene.paused(name, "pager") for name in ("r1", "r2", "r3", "r1", "r2", "r3")]
    scene.process()
    await fail_twice(scene)
    receiver.answering, receiver.got[:] = accept, []
    await pass_minutes(scene, 1)
    assert (sorted(receiver.sequences), scene.states()) == (sequences, ["delivered"] * 6)
    assert [each for each in receiver.sequences if each in (1, 4)] == [1, 4]


async def test_of_many_that_wait_one_is_tried_a_minute_each_in_its_turn(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    for name in ("r1", "r2", "r3"):
        scene.paused(name, "pager")
    scene.process()
    await fail_twice(scene)
    receiver.got[:] = []
    await pass_minutes(scene, 4)
    assert receiver.sequences == [1, 2, 3, 1]


async def test_retry_after_postpones_the_probe(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(429, Retry_After="180"))
    scene.paused("r1", "pager")
    scene.process()
    await scene.deliver(scene.deliveries[0])
    await pass_minutes(scene, 2)
    assert len(receiver.got) == 1


async def test_an_event_that_only_is_rejected_keeps_to_its_schedule(scene: Scene) -> None:
    async def reject_the_first(received: Received) -> web.StreamResponse:
        return web.Response(status=500 if received.sequence == 1 else 204)

    receiver = await scene.receiver("pager", reject_the_first)
    scene.paused("r1", "pager")
    scene.process()
    await fail_twice(scene)
    for _ in range(4):
        scene.paused("r2", "pager")
        await pass_minutes(scene, 1)
    assert receiver.sequences.count(1) == 3  # two that count, and one probe


async def test_a_rejected_event_does_not_hold_up_the_others_that_wait(scene: Scene) -> None:
    async def reject_the_first(received: Received) -> web.StreamResponse:
        return web.Response(status=500 if received.sequence == 1 else 204)

    receiver = await scene.receiver("pager", answer(500))
    for name in ("r1", "r2", "r3"):
        scene.paused(name, "pager")
    scene.process()
    await fail_twice(scene)
    receiver.answering = reject_the_first
    await pass_minutes(scene, 2)
    assert scene.states() == ["pending", "delivered", "delivered"]


async def test_a_probe_that_is_gone_ends_its_delivery(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    scene.paused("r1", "pager")
    scene.process()
    await fail_twice(scene)
    receiver.answering = answer(410)
    await pass_minutes(scene, 1)
    assert (scene.states(), scene.delivery(1).tries) == (["dead"], 3)


async def test_a_delivery_shows_its_newest_attempts(scene: Scene) -> None:
    await scene.receiver("pager", answer(500))
    scene.paused("r1", "pager")
    scene.process()
    await scene.deliver(scene.deliveries[0])
    with scene.store.database.transaction() as transaction:
        rows = [(1, moment, 1, 500, "", "") for moment in range(1, 121)]
        transaction.insert("attempts", ("delivery", "started_at", "duration", "status", "problem", "answer"), rows)
    shown = delivery_queries.list_attempts(scene.store.database.read, scene.delivery(1).id)
    assert [each.at for each in shown] == list(range(21, 121))


async def test_what_waits_is_sent_at_once_without_counting(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    for name in ("r1", "r2", "r1"):
        scene.paused(name, "pager")
    await scene.receiver("other")
    scene.process()
    await fail_twice(scene)
    for answering, states in ((answer(500), ["pending"] * 3), (accept, ["delivered"] * 3)):
        receiver.answering = answering
        with scene.store.database.transaction() as transaction:
            assert delivery_queries.send_waiting(transaction, "other") == 0
            assert delivery_queries.send_waiting(transaction, "pager") == 2
        await scene.deliver(scene.deliveries[0])
        assert scene.states() == states
    assert [scene.delivery(sequence).tries for sequence in (1, 2, 3)] == [3, 3, 1]


async def test_the_health_of_a_receiver(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    for name in ("r1", "r2"):
        scene.paused(name, "pager")
    scene.process()
    await scene.deliver(scene.deliveries[0])
    read, began = scene.store.database.read, int(scene.clock.now)
    failing = delivery_queries.read_health(read, "pager", scene.clock.now)
    assert failing.failing == delivery_queries.FailingReceiver("pager", 2, began * 1000, began * 1000, 500, "")
    assert (failing.waiting, failing.success, failing.failure.status) == (2, None, 500)  # type: ignore[union-attr]
    receiver.answering = accept
    scene.clock.pass_(3600)
    await scene.deliver(scene.deliveries[0])
    sound = delivery_queries.read_health(read, "pager", scene.clock.now)
    hour = began // 3600 * 3600
    assert (len(sound.hours), sound.hours[-2:]) == (
        24,
        [delivery_queries.Hour(hour, 0, 2), delivery_queries.Hour(hour + 3600, 2, 0)],
    )
    assert (sound.failing, sound.waiting) == (None, 0)
    assert sound.success is not None and sound.success.finished_at == int(scene.clock.now * 1000)
