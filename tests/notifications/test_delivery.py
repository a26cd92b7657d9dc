"""Events reach their receivers: at least once, first tries in order, whatever fails in between."""

import asyncio

from aiohttp import web

from relaydeck.notifications import delivery_queries, delivery_queue, events
from relaydeck.notifications.delivery_queue import AttemptRecord
from relaydeck.notifications.model import EventKind
from relaydeck.provisioning.document import remove_record
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from tests.notifications.conftest import Clock, Scene, eventually
from tests.support.receiver import Received, accept, answer, hang
from tests.support.running import free_port


async def test_an_event_is_delivered_once(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    sequence = scene.paused("r1", "pager")
    delivery = scene.process()
    await scene.deliver(delivery)
    await scene.deliver(delivery)
    assert receiver.sequences == [sequence]
    assert scene.delivery(sequence)[5:9] == ("delivered", 1, None, int(scene.clock.now * 1000))


async def test_an_event_without_a_receiver_is_only_in_the_log(scene: Scene) -> None:
    sequence = scene.happens(EventKind.RELAYER_RESUMED, "r1", None)
    assert delivery_queries.list_deliveries(scene.store.database.read) == []
    assert [each.sequence for each in events.list_events(scene.store.database.read)] == [sequence]


async def test_every_try_is_recorded_with_the_first_bytes_of_the_answer(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(503, "\x1b[31mnot\nnow\x00" + "x" * 5000))
    sequence, delivery = scene.paused("r1", "pager"), scene.process()
    await scene.deliver(delivery)
    receiver.answering = accept
    scene.clock.pass_(5)
    await scene.deliver(delivery)
    first, second = scene.attempts(sequence)
    assert first == AttemptRecord(1_700_000_000_000, 0, 503, "", (" [31mnot now " + "x" * 512)[:512].strip())
    assert second == AttemptRecord(1_700_000_005_000, 0, 204, "", "")


async def test_a_redirect_is_a_failure_and_not_followed(scene: Scene) -> None:
    elsewhere = await scene.receiver("elsewhere")
    await scene.receiver("pager", answer(307, Location=elsewhere.url))
    sequence = scene.paused("r1", "pager")
    await scene.deliver(scene.process())
    assert [each.status for each in scene.attempts(sequence)] == [307]
    assert (elsewhere.got, scene.delivery(sequence).state) == ([], "pending")


async def test_410_stops(scene: Scene) -> None:
    await scene.receiver("pager", answer(410))
    sequence = scene.paused("r1", "pager")
    await scene.deliver(scene.process())
    assert scene.delivery(sequence).state == "dead"


async def test_a_receiver_that_is_not_there_is_tried_again(scene: Scene) -> None:
    scene.notify("pager", f"http://127.0.0.1:{free_port()}/")
    sequence = scene.paused("r1", "pager")
    await scene.deliver(scene.process())
    assert scene.attempts(sequence)[0][2:] == (None, "connection_refused", "")


async def test_a_receiver_that_hangs_times_out(scene: Scene) -> None:
    await scene.receiver("pager", hang)
    sequence = scene.paused("r1", "pager")
    await scene.deliver(scene.process(webhook_timeout_seconds=0.05))
    assert scene.attempts(sequence)[0][2:] == (None, "timed_out", "")


async def test_a_body_that_never_ends_does_not_undo_a_success(scene: Scene) -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        try:
            while True:
                writer.write(b"a" * 65536)
                await writer.drain()
        except ConnectionError:
            closed.set()

    closed = asyncio.Event()
    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    scene.notify("pager", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    sequence = scene.paused("r1", "pager")
    await scene.deliver(scene.process())
    assert scene.attempts(sequence) == [AttemptRecord(1_700_000_000_000, 0, 200, "", "a" * 512)]
    await asyncio.wait_for(closed.wait(), 60)
    server.close()


async def test_ten_tries_then_it_is_dead(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    sequence, delivery = scene.paused("r1", "pager"), scene.process()
    began = scene.clock.now
    for _ in range(delivery_queue.MAX_ATTEMPTS):
        await scene.deliver(delivery)
        if (due := scene.scheduled(sequence)) is not None:
            scene.clock.now = due / 1000
    assert (len(receiver.got), scene.delivery(sequence).state) == (10, "dead")
    assert 75 * 3600 < scene.clock.now - began < 76 * 3600
    assert len({each.headers["webhook-id"] for each in receiver.got}) == 1
    assert len({each.body for each in receiver.got}) == 1
    assert len({each.headers["webhook-timestamp"] for each in receiver.got}) == 10


async def test_retry_after_is_honoured(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(429, Retry_After="90"))
    sequence, delivery = scene.paused("r1", "pager"), scene.process()
    await scene.deliver(delivery)
    assert scene.delivery(sequence).next_try_at == int((scene.clock.now + 90) * 1000)
    scene.clock.pass_(89)
    await scene.deliver(delivery)
    assert len(receiver.got) == 1


async def test_a_line_is_kept_while_its_first_event_fails_twice(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    first, second, third = (scene.paused("r1", "pager") for _ in range(3))
    delivery = scene.process()
    await scene.deliver(delivery)
    scene.clock.pass_(5)
    await scene.deliver(delivery)
    assert receiver.sequences == [first, first]
    receiver.answering = accept
    scene.clock.pass_(300)
    await scene.deliver(delivery)
    assert receiver.sequences == [first, first, first, second, third]


async def test_after_three_failures_an_event_leaves_the_line_and_retries_alone(scene: Scene) -> None:
    async def only_the_first_fails(received: Received) -> web.StreamResponse:
        return web.Response(status=500 if received.sequence == first else 200)

    receiver = await scene.receiver("pager", only_the_first_fails)
    first, second, third = (scene.paused("r1", "pager") for _ in range(3))
    delivery = scene.process()
    for pause in (5, 300, 1800):
        await scene.deliver(delivery)
        scene.clock.pass_(pause)
    assert receiver.sequences == [first, first, first, second, third]
    await scene.deliver(delivery)
    assert receiver.sequences == [first, first, first, second, third, first]


async def test_an_event_that_comes_while_the_line_waits_stands_behind(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    first, delivery = scene.paused("r1", "pager"), scene.process()
    await scene.deliver(delivery)
    receiver.answering = accept
    second = scene.paused("r1", "pager")
    await scene.deliver(delivery)
    assert receiver.sequences == [first]
    scene.clock.pass_(5)
    await scene.deliver(delivery)
    assert receiver.sequences == [first, first, second]


async def test_relayers_do_not_wait_for_each_other(scene: Scene) -> None:
    async def one_relayer_fails(received: Received) -> web.StreamResponse:
        return web.Response(status=500 if received.json["data"]["relayer"]["id"] == "r1" else 200)

    receiver = await scene.receiver("pager", one_relayer_fails)
    for _ in range(3):
        scene.paused("r1", "pager"), scene.paused("r2", "pager")
    await scene.deliver(scene.process())
    assert sorted(receiver.sequences) == [1, 2, 4, 6]


async def test_first_tries_are_in_order_per_relayer_under_concurrency(scene: Scene) -> None:
    async def dawdle(received: Received) -> web.StreamResponse:
        await asyncio.sleep(0.001 * (received.sequence % 3))
        return web.Response()

    receiver = await scene.receiver("pager", dawdle)
    for _ in range(10):
        for name in ("r1", "r2", "r3", "r4", "r5"):
            scene.paused(name, "pager")
    await scene.deliver(scene.process())
    assert sorted(receiver.sequences) == list(range(1, 51))
    for line in range(5):
        own = [number for number in receiver.sequences if number % 5 == line]
        assert own == sorted(own)


async def test_connections_are_kept_alive(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    for _ in range(5):
        scene.paused("r1", "pager")
    delivery = scene.process()
    await scene.deliver(delivery)
    assert len(receiver.got) == 5
    assert receiver._runner.server.requests_count == 5  # type: ignore[union-attr]
    assert len(receiver._runner.server.connections) == 1  # type: ignore[union-attr]


async def test_a_removed_receiver_ends_its_deliveries(scene: Scene) -> None:
    await scene.receiver("pager")
    sequence = scene.paused("r1", "pager")
    with scene.store.database.transaction() as transaction:
        transaction.execute("DELETE FROM notifications WHERE id = 'pager'")
    await scene.deliver(scene.process())
    assert (scene.delivery(sequence).state, scene.attempts(sequence)[0].problem) == ("dead", "receiver_removed")


async def test_a_delivery_that_waits_ends_when_its_receiver_is_deleted(scene: Scene) -> None:
    await scene.receiver("pager", answer(500))
    sequence, delivery = scene.paused("r1", "pager"), scene.process()
    await scene.deliver(delivery)
    with scene.store.database.transaction() as transaction:
        transaction.execute("UPDATE relayers SET notification_id = NULL")
        context = ChangeContext(transaction, AuditLog(scene.store.vault), "test", int(scene.clock.now))
        remove_record(context, "notifications", "pager")
    await scene.deliver(delivery)
    assert scene.delivery(sequence).state == "dead"
    assert [each.problem for each in scene.attempts(sequence)] == ["", "receiver_removed"]


async def test_an_attempt_that_fails_after_its_receiver_was_deleted_ends_the_delivery(scene: Scene) -> None:
    async def fail_when_deleted(_: Received) -> web.StreamResponse:
        with scene.store.database.transaction() as transaction:
            transaction.execute("UPDATE relayers SET notification_id = NULL")
            context = ChangeContext(transaction, AuditLog(scene.store.vault), "test", int(scene.clock.now))
            remove_record(context, "notifications", "pager")
        return web.Response(status=500)

    await scene.receiver("pager", fail_when_deleted)
    sequence = scene.paused("r1", "pager")
    await scene.deliver(scene.process())  # without any time that passes
    assert scene.delivery(sequence).state == "dead"
    assert [each.problem for each in scene.attempts(sequence)] == ["", "receiver_removed"]


async def test_a_delivery_says_which_one_it_waits_for(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    first, second, third = (scene.paused("r1", "pager") for _ in range(3))
    other, delivery = scene.paused("r2", "pager"), scene.process()
    await scene.deliver(delivery)
    blocking = scene.delivery(first).id
    assert [scene.delivery(each).waits_for for each in (first, second, third, other)] == [
        None,
        blocking,
        blocking,
        None,
    ]
    receiver.answering = accept
    scene.clock.pass_(5)
    await scene.deliver(delivery)
    assert [scene.delivery(each).waits_for for each in (first, second, third, other)] == [None] * 4


async def test_dead_receivers_do_not_delay_a_healthy_one(scene: Scene) -> None:
    """Forty receivers hang, with more events for each than there are places in all."""
    for number in range(40):
        await scene.receiver(f"dead{number}", hang)
    healthy = await scene.receiver("healthy")
    for number in range(40):
        for name in ("r1", "r2"):
            scene.paused(name, f"dead{number}")
    delivery = scene.process(webhook_timeout_seconds=30, max_attempts=64)
    await delivery.turn()
    expected = [scene.paused(name, "healthy") for name in ("r1", "r2", "r3") for _ in range(10)]
    running = asyncio.create_task(delivery.run())
    delivery.wake()
    await eventually(lambda: len(healthy.got) == 30)
    assert sorted(healthy.sequences) == expected
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_troubled_receiver_gets_one_try_at_a_time(scene: Scene) -> None:
    receiver = await scene.receiver("pager", answer(500))
    for name in ("r1", "r2", "r3"):
        scene.paused(name, "pager")
    delivery = scene.process()
    most = 0
    while len(receiver.got) < 3:
        await delivery.turn()
        most = max(most, len(delivery.attempts))
        await delivery.attempts.join()
    assert most == 1


async def test_run_delivers_what_wake_tells_of(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    delivery = scene.process()
    running = asyncio.create_task(delivery.run())
    await asyncio.sleep(0)
    scene.paused("r1", "pager")
    delivery.wake()
    await eventually(lambda: len(receiver.got) == 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_nothing_is_written_while_nothing_is_due(scene: Scene) -> None:
    delivery = scene.process()
    before = scene.store.database.read("SELECT revision FROM clock")
    assert await delivery.turn() == 60
    assert scene.store.database.read("SELECT revision FROM clock") == before


async def test_the_pause_ends_when_the_next_try_is_due(scene: Scene, clock: Clock) -> None:
    await scene.receiver("pager", answer(500))
    scene.paused("r1", "pager")
    delivery = scene.process()
    await scene.deliver(delivery)
    assert await delivery.turn() == 5
    clock.pass_(2)
    assert await delivery.turn() == 3
