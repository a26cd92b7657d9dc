"""A database that lost its last commits: receivers learn of it, and no number of an event is used again."""

from relaydeck.notifications.events import record_database_change
from relaydeck.notifications.model import EventKind
from tests.notifications.conftest import Scene
from tests.notifications.test_sharing import on_postgresql


def lose_events(scene: Scene, after: int) -> None:
    """As a standby would lack them that is promoted."""
    with scene.store.database.transaction() as transaction:
        transaction.execute("DELETE FROM events WHERE seq > :after", {"after": after})


@on_postgresql
async def test_the_number_of_a_lost_event_is_not_used_again(scene: Scene) -> None:
    for _ in range(3):
        scene.happens(EventKind.NOTIFICATION_TEST, None, None)
    lose_events(scene, after=1)
    assert scene.happens(EventKind.NOTIFICATION_TEST, None, None) == 4


@on_postgresql
async def test_every_receiver_gets_the_event_once_however_many_processes_notice(scene: Scene) -> None:
    receivers = [await scene.receiver("pager"), await scene.receiver("night")]
    for _ in range(2):
        with scene.store.database.transaction() as transaction:
            record_database_change(transaction, problem="another server was promoted", known=7, now=1)
    await scene.deliver(scene.process())
    got = [[each.json["data"] for each in receiver.got] for receiver in receivers]
    assert got == [[{"details": {"problem": "another server was promoted"}}]] * 2
