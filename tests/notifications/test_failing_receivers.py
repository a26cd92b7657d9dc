"""Receivers with deliveries that wait after a failed attempt."""

from relaydeck.api.list_filters import FILTERS, conditions
from relaydeck.notifications.delivery_queries import COUNT_LIMIT, FailingReceiver, failing_receivers
from relaydeck.notifications.model import EventKind
from tests.notifications.conftest import Scene
from tests.support.receiver import answer

START = 1_700_000_000_000


def found(scene: Scene, most: int = 9) -> list[FailingReceiver]:
    """Also compares the filter of the list."""
    read = scene.store.database.read
    where, values = conditions(FILTERS["notifications"], {"problem": "any"})
    listed = [row.id for row in read(f"SELECT id FROM notifications WHERE {where} ORDER BY seq", values)]
    failing = failing_receivers(read, most)
    assert listed[:most] == [each.notification_id for each in failing]
    return failing


async def test_a_receiver_is_failing_from_its_first_failed_attempt_on(scene: Scene) -> None:
    await scene.receiver("sound")
    await scene.receiver("broken", answer(500))
    await scene.receiver("gone", answer(410))
    for receiver in ("sound", "broken", "gone"):
        scene.paused("r1", receiver)
    assert found(scene) == []  # none was attempted yet
    await scene.deliver(scene.process())
    assert scene.states() == ["delivered", "pending", "dead"]
    assert found(scene) == [
        FailingReceiver("broken", 1, START, START, 500, ""),
        FailingReceiver("gone", 0, START, START, 410, ""),
    ]


async def test_a_receiver_that_recovered_is_not_failing_while_an_earlier_delivery_waits(scene: Scene) -> None:
    process, receiver = scene.process(), await scene.receiver("broken", answer(500))
    scene.paused("r1", "broken")
    await scene.deliver(process)
    receiver.answering = answer(204)
    scene.clock.pass_(1)
    scene.happens(EventKind.NOTIFICATION_TEST, None, "broken")
    await scene.deliver(process)
    assert (scene.states(), found(scene)) == (["pending", "delivered"], [])


async def test_all_that_wait_are_counted_with_the_latest_error(scene: Scene) -> None:
    process = scene.process()
    receiver = await scene.receiver("broken", answer(500))
    for name in ("r1", "r1", "r2", "r2", "r2"):  # the first of each relayer is attempted, the others wait behind it
        scene.paused(name, "broken")
    await scene.deliver(process)
    scene.clock.pass_(4)
    scene.happens(EventKind.NOTIFICATION_TEST, None, "broken")
    await receiver.stop()
    await scene.deliver(process)
    assert found(scene) == [FailingReceiver("broken", 6, START, START + 4000, None, "connection_refused")]


async def test_a_receiver_that_gets_everything_again_is_not_failing(scene: Scene) -> None:
    process = scene.process()
    receiver = await scene.receiver("broken", answer(500))
    scene.paused("r1", "broken")
    await scene.deliver(process)
    receiver.answering = answer(204)
    scene.clock.pass_(10)
    await scene.deliver(process)
    assert (scene.states(), found(scene)) == (["delivered"], [])


async def test_at_most_so_many_are_named(scene: Scene) -> None:
    for name in ("a", "b", "c"):
        await scene.receiver(name, answer(500))
        scene.paused("r1", name)
    await scene.deliver(scene.process())
    assert [each.notification_id for each in found(scene, most=2)] == ["a", "b"]


async def test_counting_ends_at_a_bound_however_many_deliveries_wait(scene: Scene) -> None:
    await scene.receiver("broken")
    numbers = range(1, COUNT_LIMIT + 2)
    with scene.store.database.transaction() as transaction:
        transaction.insert(
            "events",
            ("seq", "id", "kind", "data", "created_at"),
            [(each, f"evt_{each}", "notification.test", "{}", 0) for each in numbers],
        )
        transaction.insert(
            "deliveries",
            ("seq", "notification_id", "state", "in_line", "tries", "due_at", "revision"),
            [(each, "broken", "pending", False, 4, START + each, 0) for each in numbers],
        )
        transaction.insert(
            "attempts",
            ("delivery", "started_at", "duration", "status", "problem", "answer"),
            [(each, each, 1, None, "timed_out", "") for each in numbers],
        )
    assert found(scene) == [FailingReceiver("broken", COUNT_LIMIT, 1, 1000, None, "timed_out", more_wait=True)]
