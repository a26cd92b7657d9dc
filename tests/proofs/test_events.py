"""Killed again and again with changes under way: every acknowledged change is told, in order, and nothing else is.

Each round a process changes relayers, each change with its event, says which ones were acknowledged, and delivers;
it is killed at a random moment. The receivers live here and survive.
"""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from ipaddress import ip_network
from pathlib import Path

import pytest

from relaydeck.log import Log
from relaydeck.notifications import events, records
from relaydeck.notifications.delivery import Delivery, DeliveryOptions
from relaydeck.notifications.records import Notification
from relaydeck.relayers import records as relayer_records
from relaydeck.secret import Secret
from relaydeck.store.home import open_store
from relaydeck.store.writer import Writer
from tests.notifications.receiver import Receiver
from tests.running import clean_environment
from tests.seeding import fill, opened, relayer

ROUNDS = 200
RELAYERS = [f"r{number}" for number in range(8)]
OPTIONS = DeliveryOptions(allow=(ip_network("127.0.0.0/8"),), lease_seconds=0.2)

PROCESS = """
import asyncio, os, sys, time
from pathlib import Path
from relaydeck.log import Log
from relaydeck.notifications import events
from relaydeck.notifications.delivery import Delivery
from relaydeck.relayers import records
from relaydeck.store.home import open_store
from relaydeck.store.writer import Writer
from tests.proofs.test_events import OPTIONS, RELAYERS

home = Path(sys.argv[1])

def toggle(store, name):
    def work(transaction):
        row = transaction.one(f"UPDATE relayers SET paused = NOT paused WHERE id = :id RETURNING {records.COLUMNS}",
                              {"id": name})
        relayer = records.from_row(row, store.vault)
        kind = "relayer.paused" if relayer.paused else "relayer.resumed"
        return events.record(transaction, kind, relayer=relayer, notification_id=relayer.notification_id,
                             now=int(time.time()))
    return work

async def change(store, writer, delivery, name):
    while True:
        sequence = await writer.write(toggle(store, name))
        os.write(1, b"%d\\n" % sequence)  # in one piece, or not at all
        delivery.wake()
        await asyncio.sleep(0.002)

async def main():
    store = open_store(home, home / "relaydeck.db", home / "master.key")
    writer = Writer(store.database)
    delivery = Delivery(store, writer, Log(as_json=True, level="error"), OPTIONS)
    await asyncio.gather(delivery.run(), *(change(store, writer, delivery, name) for name in RELAYERS))

for _ in sys.stdin:  # each line asks for one process; loading everything 200 times would be most of the time
    pid = os.fork()
    if pid == 0:
        asyncio.run(main())
    os.write(1, b"pid %d\\n" % pid)
    os.waitpid(pid, 0)
    os.write(1, b"end\\n")
"""


class Killed:
    """Starts the process, and kills it, as often as asked."""

    def __init__(self, home: Path) -> None:
        self._starter = subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(home),
        )

    def round(self, seconds: float) -> list[int]:
        """The sequence numbers that were acknowledged before the kill."""
        assert self._starter.stdin and self._starter.stdout
        self._starter.stdin.write("\n")
        self._starter.stdin.flush()
        lines: list[str] = []
        while not {"pid", "sequence"} <= {_what(line) for line in lines}:
            lines.append(self._starter.stdout.readline())
            assert lines[-1] not in ("", "end\n"), "it did not start"
        time.sleep(seconds)
        os.kill(next(int(line.split()[1]) for line in lines if _what(line) == "pid"), signal.SIGKILL)
        lines += iter(self._starter.stdout.readline, "end\n")
        return [int(line) for line in lines if _what(line) == "sequence"]

    def stop(self) -> None:
        self._starter.communicate(timeout=10)


def _what(line: str) -> str:
    return "pid" if line.startswith("pid") else "sequence"


async def deliver_the_rest(home: Path) -> None:
    store = open_store(home, home / "relaydeck.db", home / "master.key")
    writer = Writer(store.database)
    delivery = Delivery(store, writer, Log(as_json=True, level="error"), OPTIONS)
    running = asyncio.create_task(delivery.run())
    while store.database.read("SELECT 1 FROM deliveries WHERE state = 'pending' LIMIT 1"):
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await delivery.close()
    await writer.stop()
    store.close()


def prepare(home: Path, urls: list[str]) -> None:
    fill(home)
    with opened(home) as store, store.database.transaction() as transaction:
        for number, url in enumerate(urls):
            notification = Notification(f"n{number}", "webhook", url, True)
            records.create(transaction, store.vault, notification, Secret("key"), origin="api", now=0)
        for number, name in enumerate(RELAYERS):
            told = relayer(name, notification_id=f"n{number % len(urls)}")
            relayer_records.create(transaction, store.vault, told, origin="api", now=0)


@pytest.mark.prove
async def test_every_acknowledged_change_is_told_in_order_whatever_is_killed(home: Path) -> None:
    receivers = [await Receiver().start() for _ in range(2)]
    prepare(home, [receiver.url for receiver in receivers])
    dice = random.Random(4)
    acknowledged: list[int] = []
    killed = Killed(home)
    for _ in range(ROUNDS):
        acknowledged += await asyncio.to_thread(killed.round, dice.uniform(0, 0.06))
    await asyncio.to_thread(killed.stop)
    await deliver_the_rest(home)

    arrived = [received.json for receiver in receivers for received in receiver.got]
    assert len(acknowledged) > ROUNDS
    assert set(acknowledged) <= {event["sequence"] for event in arrived}

    database = sqlite3.connect(home / "relaydeck.db")
    stored = [row[0] for row in database.execute("SELECT seq FROM events ORDER BY seq")]
    assert stored == list(range(1, len(stored) + 1))
    assert {event["sequence"] for event in arrived} == set(stored)
    for name in RELAYERS:
        assert_told_in_order(name, arrived, database)
    database.close()
    for receiver in receivers:
        await receiver.stop()


def assert_told_in_order(name: str, arrived: list[dict[str, object]], database: sqlite3.Connection) -> None:
    """First arrivals follow the order of the changes, and the changes they tell of add up to what is stored."""
    told: dict[int, str] = {}
    copies: dict[int, set[str]] = defaultdict(set)
    for event in arrived:
        if event["data"]["relayer"]["id"] == name:  # type: ignore[index]
            told.setdefault(event["sequence"], event["type"])  # type: ignore[arg-type]
            copies[event["sequence"]].add(event["id"])  # type: ignore[index,arg-type]
    assert list(told) == sorted(told)
    assert all(len(ids) == 1 for ids in copies.values())
    kinds = list(told.values())
    assert kinds == ["relayer.paused" if number % 2 == 0 else "relayer.resumed" for number in range(len(kinds))]
    ((paused,),) = database.execute("SELECT paused FROM relayers WHERE id = ?", (name,)).fetchall()
    assert paused == len(kinds) % 2
    assert {row[0] for row in database.execute("SELECT kind FROM events")} <= set(events.KINDS)
