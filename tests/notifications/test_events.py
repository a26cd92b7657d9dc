"""The content of an event, and that it is written in one transaction with its change."""

import json
from functools import partial

import msgspec
import pytest
from aiohttp import web

from relaydeck.networks.model import RpcUrl
from relaydeck.notifications import delivery_queries, delivery_queue, events
from relaydeck.notifications.delivery_queue import ReceiverResponse, decide
from relaydeck.notifications.model import EventKind
from relaydeck.outgoing.http_client import requested_delay
from relaydeck.relayers.model import DisabledReason, Policies, Relayer
from relaydeck.relayers.relayer_changes import event_data
from relaydeck.store.open_store import Store
from tests.notifications.conftest import Scene
from tests.support.receiver import Received, accept, answer
from tests.support.seeding import relayer, relayer_shown

FULL = relayer(
    "r1",
    notification_id="pager",
    paused=True,
    system_disabled=True,
    disabled_reason=DisabledReason("no URL answers", "NonceSyncFailed"),
    custom_rpc_urls=(RpcUrl("https://user:password@node.example.com:8545/v3/key?token=t", 3),),
    policies=Policies(gas_price_cap=10**30, min_balance=2**70, whitelist_receivers=("0xabc",)),
)


def record(store: Store, subject: Relayer, details: dict[str, str] | None = None) -> events.Event:
    with store.database.transaction() as transaction:
        sequence = events.record(
            transaction,
            EventKind.RELAYER_PAUSED,
            event_data(subject, details),
            notification_id=None,
            relayer_id=subject.id,
            now=1_700_000_000,
        )
    return events.list_events(store.database.read, after=sequence - 1)[0]


# sentence: 6-kinds
def test_the_whole_body(store: Store) -> None:
    event = record(store, relayer("r1"), {"balance": "12"})
    assert json.loads(event.body()) == {
        "id": event.id,
        "type": "relayer.paused",
        "timestamp": "2023-11-14T22:13:20Z",
        "sequence": 1,
        "version": 1,
        "data": {"relayer": relayer_shown("r1"), "details": {"balance": "12"}},
    }


@pytest.mark.parametrize("subject", [FULL, relayer("plain")])
def test_the_relayer_is_as_the_interface_shows_it_but_for_what_its_urls_hide(store: Store, subject: Relayer) -> None:
    urls = tuple(RpcUrl("https://node.example.com:8545", each.weight) for each in subject.custom_rpc_urls)
    shown = json.loads(msgspec.json.encode(msgspec.structs.replace(subject, custom_rpc_urls=urls)))
    assert json.loads(record(store, subject).body())["data"]["relayer"] == shown


def test_no_part_of_a_url_that_may_be_secret_is_stored(store: Store) -> None:
    stored = record(store, FULL).data
    assert [word for word in ("user", "password", "v3", "key", "token") if word in stored] == []


async def test_the_test_event_tells_its_notification(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    sequence = scene.happens(EventKind.NOTIFICATION_TEST, None, "pager")
    await scene.deliver(scene.process())
    assert receiver.got[0].json["data"] == {"notification_id": "pager"}
    assert (receiver.got[0].json["type"], receiver.got[0].sequence) == ("notification.test", sequence)


async def test_what_arrives_is_what_the_log_shows(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    scene.paused("r1", "pager")
    await scene.deliver(scene.process())
    (event,) = events.list_events(scene.store.database.read)
    assert receiver.got[0].body == event.body()
    assert receiver.got[0].headers["webhook-id"] == event.id
    assert receiver.got[0].headers["content-type"] == "application/json"
    assert events.find_event(scene.store.database.read, event.id) == event


def test_an_undone_change_leaves_no_event_and_no_gap(store: Store) -> None:
    with store.database.transaction() as transaction:
        events.record(transaction, EventKind.RELAYER_PAUSED, {}, notification_id="n", relayer_id="r1", now=0)
        with pytest.raises(ZeroDivisionError), transaction.step():
            events.record(transaction, EventKind.RELAYER_RESUMED, {}, notification_id="n", relayer_id="r1", now=0)
            raise ZeroDivisionError
        events.record(transaction, EventKind.RELAYER_RESUMED, {}, notification_id="n", relayer_id="r1", now=0)
    assert [each.sequence for each in events.list_events(store.database.read)] == [1, 2]


def test_the_log_is_read_on_from_a_number(store: Store) -> None:
    for _ in range(5):
        record(store, relayer("r1"))
    read = store.database.read
    assert [each.sequence for each in events.list_events(read, after=2, limit=2)] == [3, 4]
    assert events.list_events(read, after=5) == []


async def test_deliveries_are_listed_by_what_people_look_for(scene: Scene) -> None:
    await scene.receiver("pager", answer(410))
    await scene.receiver("desk")
    scene.paused("r1", "pager"), scene.paused("r2", "desk"), scene.paused("r1", "desk")
    await scene.deliver(scene.process())
    read = scene.store.database.read
    assert [row.sequence for row in delivery_queries.list_deliveries(read, condition="d.state = 'dead'")] == [1]
    assert [
        row.sequence
        for row in delivery_queries.list_deliveries(read, condition="d.notification_id = :id", values={"id": "desk"})
    ] == [2, 3]
    found = delivery_queries.list_deliveries(read, 1, condition="d.relayer_id = :id", values={"id": "r1"})
    assert [row.sequence for row in found] == [3]
    (dead,) = delivery_queries.list_deliveries(read, condition="d.state = 'dead'")
    assert (dead.last_status, dead.last_problem) == (410, None)


def replay(scene: Scene, sequence: int) -> bool:
    with scene.store.database.transaction() as transaction:
        return delivery_queries.replay(transaction, scene.delivery(sequence).id)


@pytest.mark.parametrize("status", [410, 500], ids=["dead", "waiting after a failure"])
async def test_a_delivery_is_replayed_at_once_with_the_same_id_and_all_its_tries(scene: Scene, status: int) -> None:
    receiver = await scene.receiver("pager", answer(status))
    sequence, delivery = scene.paused("r1", "pager"), scene.process()
    await scene.deliver(delivery)
    receiver.answering = accept
    assert replay(scene, sequence)
    await scene.deliver(delivery)
    assert (scene.states(), scene.delivery(sequence).tries) == (["delivered"], 1)
    assert len({each.headers["webhook-id"] for each in receiver.got}) == 1
    assert [each.status for each in scene.attempts(sequence)] == [status, 204]


@pytest.mark.parametrize("answers", [[500, 503, 200], [500, 200], [500, 410, 200]])
async def test_a_delivery_that_is_replayed_during_an_attempt_is_sent_again_if_that_one_fails(
    scene: Scene, answers: list[int]
) -> None:
    given = iter(answers)

    async def reply(received: Received) -> web.StreamResponse:
        if len(scene.attempts(sequence)) == 1:
            assert replay(scene, sequence)
        return await answer(next(given))(received)

    await scene.receiver("pager", reply)
    sequence, delivery = scene.paused("r1", "pager"), scene.process()
    await scene.deliver(delivery)
    scene.clock.pass_(10)
    await scene.deliver(delivery)
    assert scene.states() == ["delivered"]
    assert [each.status for each in scene.attempts(sequence)] == answers


async def test_a_replayed_delivery_holds_up_no_later_event_of_its_relayer(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    first, second, delivery = scene.paused("r1", "pager"), scene.paused("r1", "pager"), scene.process()
    await scene.deliver(delivery)
    assert (scene.delivery(first).tries, scene.delivery(second).tries) == (1, 0)
    assert replay(scene, first)
    await scene.deliver(delivery)
    assert (scene.delivery(first).tries, scene.delivery(second).tries) == (1, 1)
    assert len(receiver.got) == 3


async def test_what_is_already_due_or_is_unknown_is_not_replayed(scene: Scene) -> None:
    await scene.receiver("pager")
    sequence = scene.paused("r1", "pager")
    with scene.store.database.transaction() as transaction:
        assert not delivery_queries.replay(transaction, scene.delivery(sequence).id)
        assert not delivery_queries.replay(transaction, "evt_unknown")


async def test_all_dead_deliveries_are_replayed(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(410))
    await scene.receiver("desk")
    for name in ("r1", "r2", "r3"):
        scene.paused(name, "pager"), scene.paused(name, "desk")
    delivery = scene.process()
    await scene.deliver(delivery)
    receiver.answering = accept
    with scene.store.database.transaction() as transaction:
        assert delivery_queries.replay_all_dead(transaction) == 3
    await scene.deliver(delivery)
    assert (scene.states(), len(receiver.got)) == (["delivered"] * 6, 6)


def test_the_schedule() -> None:
    spread = [(1 - delivery_queue.JITTER), 1.0, (1 + delivery_queue.JITTER)]
    for factor, dice in zip(spread, (0.0, 0.5, 1.0), strict=True):
        delays = [
            decide(ReceiverResponse(500), tries=n, in_order=True, now=0, random=partial(float, dice)).due_at
            for n in range(1, delivery_queue.MAX_ATTEMPTS)
        ]
        assert delays == [int(each * factor * 1000) for each in delivery_queue.DELAYS]
    assert sum(delivery_queue.DELAYS) / 3600 == pytest.approx(75.6, abs=0.1)
    given_up = decide(ReceiverResponse(500), tries=10, in_order=False, now=0, random=float)
    assert given_up == delivery_queue.AttemptOutcome("dead", None, False, False, 60_000)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", None),
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("999999999999999999999", 1e21),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60),
        ("Tue, 14 Nov 2023 22:14:20 -0000", 60),
        ("Tue, 14 Nov 2023 22:12:20 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("1e3", None),
        ("Tue, 99 Nov 2023 99:99:99 GMT", None),
        ("١٢", None),
    ],
)
def test_what_a_retry_after_asks_for(text: str, seconds: float | None) -> None:
    assert requested_delay(text, now=1_700_000_000) == seconds


def test_no_receiver_delays_an_event_for_more_than_a_day() -> None:
    asked = ReceiverResponse(503, retry_after="999999999999999999999")
    later = decide(asked, tries=1, in_order=True, now=0.0, random=lambda: 0.5)
    assert later == delivery_queue.AttemptOutcome("pending", 86_400_000, True, False, 86_400_000)
