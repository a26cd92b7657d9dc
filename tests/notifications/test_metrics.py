"""The metrics of events: counted over all workers or read from the database, and absent when it cannot be read."""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from relaydeck.notifications.delivery_queries import COUNT_LIMIT, DeliveryCounts, count_deliveries
from tests.notifications.conftest import Scene
from tests.support.receiver import answer
from tests.support.running import Running
from tests.support.seeding import fill, issue
from tests.support.verifying import verifying_receiver


def reported(running: Running) -> list[str]:
    """The lines about events, with any age replaced by whether there is one."""
    scrape = running.ask("GET", "/metrics", token="")
    assert scrape.status == 200
    text = re.sub(r"(?m)^(\w+_seconds) [1-9]\d*$", r"\1 some", scrape.body.decode())
    return [line for line in text.splitlines() if re.match(r"(# TYPE )?relaydeck_(event|deliver|oldest_pending)", line)]


def expected(delivered: int, failed: int, dead: int, events: int, pending: int, still_dead: int, age: str) -> list[str]:
    return [
        "# TYPE relaydeck_event_tries_total counter",
        f'relaydeck_event_tries_total{{outcome="delivered"}} {delivered}',
        f'relaydeck_event_tries_total{{outcome="failed"}} {failed}',
        f'relaydeck_event_tries_total{{outcome="dead"}} {dead}',
        "# TYPE relaydeck_events_total counter",
        f"relaydeck_events_total {events}",
        "# TYPE relaydeck_deliveries_pending gauge",
        f"relaydeck_deliveries_pending {pending}",
        "# TYPE relaydeck_deliveries_dead gauge",
        f"relaydeck_deliveries_dead {still_dead}",
        "# TYPE relaydeck_oldest_pending_delivery_seconds gauge",
        f"relaydeck_oldest_pending_delivery_seconds {age}",
    ]


def await_lines(running: Running, lines: list[str]) -> None:
    """A count follows its try by a moment."""
    deadline = time.monotonic() + 60
    while (found := reported(running)) != lines and time.monotonic() < deadline:
        pass
    assert found == lines


def test_tries_events_and_what_is_on_its_way_over_two_workers(home: Path) -> None:
    fill(home)
    with verifying_receiver() as receiver:
        receiver.headers = {"Retry-After": "3600"}
        settings = {"webhook_allow": "127.0.0.0/8"}
        with Running(home, "--workers", "2", token=issue(home, "root", "admin"), **settings) as running:
            await_lines(running, expected(0, 0, 0, events=0, pending=0, still_dead=0, age="0"))
            pager = {"id": "pager", "type": "webhook", "url": receiver.url}
            assert running.ask("POST", "/admin/v1/notifications", pager).status == 201
            for status in (204, 410, 500):
                receiver.status = status
                assert running.ask("POST", "/admin/v1/notifications/pager/test").status == 201
                receiver.posted.get(timeout=60)
            await_lines(running, expected(1, 1, 1, events=3, pending=1, still_dead=1, age="some"))


def test_a_scrape_goes_on_while_the_store_cannot_be_read(home: Path) -> None:
    fill(home)
    with Running(home) as running:
        with without_events(home):
            assert reported(running) == expected(0, 0, 0, events=0, pending=0, still_dead=0, age="0")[:4]
        assert reported(running) == expected(0, 0, 0, events=0, pending=0, still_dead=0, age="0")


@contextmanager
def without_events(home: Path) -> Iterator[None]:
    """Takes their table away, as a damaged database would."""
    with closing(sqlite3.connect(home / "relaydeck.db", isolation_level=None)) as connection:
        connection.execute("ALTER TABLE events RENAME TO taken_away")
        yield
        connection.execute("ALTER TABLE taken_away RENAME TO events")


async def test_counting_ends_at_a_bound_however_many_deliveries_are_dead(scene: Scene) -> None:
    numbers = range(1, COUNT_LIMIT + 2)
    with scene.store.database.transaction() as transaction:
        events = [(number, f"evt_{number}", "notification.test", "{}", 0) for number in numbers]
        transaction.insert("events", ("seq", "id", "kind", "data", "created_at"), events)
        deliveries = [(number, "gone", "dead", False, 10, 0) for number in numbers]
        columns = ("seq", "notification_id", "state", "in_line", "tries", "revision")
        transaction.insert("deliveries", columns, deliveries)
    assert count_deliveries(scene.store.database.read).dead == COUNT_LIMIT == 10_000


async def test_figures(scene: Scene) -> None:
    assert count_deliveries(scene.store.database.read) == DeliveryCounts(0, 0, 0, None)
    await scene.receiver("gone", answer(410))
    await scene.receiver("broken", answer(500))
    scene.paused("r1", "gone")
    scene.clock.pass_(10)
    scene.paused("r2", "broken")
    scene.clock.pass_(10)
    scene.paused("r2", "broken")
    await scene.deliver(scene.process())
    assert count_deliveries(scene.store.database.read) == DeliveryCounts(3, 2, 1, 1_700_000_010)
