"""kill -9 of the whole service with changes under way, again and again; events go to receivers that survive, and that
refuse some events the first time.

Every change carries an Idempotency-Key, and one that was cut off by a kill is sent again in the next round. So
in the end each change that was ever asked for was acknowledged, and each must have happened exactly once: with
its entry in the audit log, and with its event, which has arrived, in order.
"""

import asyncio
import http.client
import random
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from aiohttp.web import Response, StreamResponse

from tests.admin.conftest import AdminClient
from tests.support.lengths import times
from tests.support.receiver import Received, Receiver
from tests.support.running import Running, run_command
from tests.support.seeding import issue

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

ROUNDS = times(200, short=30)
LIVES, SWITCHES, TESTS = 2, 4, 2  # clients of each sort
MOST_CHANGES = 30  # of one client in one round
REFUSED_SHARE = 0.03  # of the events, by their receiver, once
SETTINGS = {"webhook_allow": "127.0.0.0/8", "log_level": "error", "max_per_page": "1000"}
STATE = """
[networks.dev]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{{ url = "http://127.0.0.1:9/rpc", weight = 1 }}]

[[signers]]
id = "ops"
type = "plain"
config = {{ key = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318" }}
"""
NOTIFICATION = """
[[notifications]]
id = "{id}"
type = "webhook"
url = "{url}"
signing_key = "a key"
"""
RELAYER = {"network": "dev", "network_type": "evm", "signer_id": "ops"}


class Change(NamedTuple):
    method: str
    path: str
    body: dict[str, str] | None
    status: int
    action: str  # in the audit log
    record: str


def switched(name: str) -> Iterator[Change]:
    """One relayer, paused and resumed for ever."""
    yield created(name, "n0")
    while True:
        yield Change("POST", f"relayers/{name}/pause", None, 200, "relayer.paused", name)
        yield Change("POST", f"relayers/{name}/resume", None, 200, "relayer.resumed", name)


def lives(name: str) -> Iterator[Change]:
    """Relayers that come, are paused, and go."""
    for number in range(1_000_000):
        one = f"{name}-{number}"
        yield created(one, "n1")
        yield Change("POST", f"relayers/{one}/pause", None, 200, "relayer.paused", one)
        yield Change("DELETE", f"relayers/{one}", None, 200, "relayer.deleted", one)


def created(name: str, notification: str) -> Change:
    body = RELAYER | {"id": name, "name": name, "notification_id": notification}
    return Change("POST", "relayers", body, 201, "relayer.created", name)


def trials(name: str) -> Iterator[Change]:
    while True:
        yield Change("POST", f"notifications/{name}/test", None, 201, "notification.tested", name)


class Changing(Protocol):
    """A client that made changes."""

    done: list[Change]
    tests: list[str]


class Client:
    """Makes its changes one after another; the one that was not answered comes first in the next round."""

    def __init__(self, name: str, changes: Iterator[Change]) -> None:
        self._name = name
        self._changes = changes
        self._open: Change | None = None
        self.done: list[Change] = []
        self.tests: list[str] = []  # events that were answered

    def go_on(self, admin: AdminClient, answered: threading.Event) -> None:
        try:
            for _ in range(MOST_CHANGES):
                self._open = self._open or next(self._changes)
                self._make(admin, self._open)
                answered.set()
        except (OSError, http.client.HTTPException):
            return

    def finish(self, admin: AdminClient) -> None:
        if self._open is not None:
            self._make(admin, self._open)

    def _make(self, admin: AdminClient, change: Change) -> None:
        key = f"{self._name}-{len(self.done)}"
        answer = admin.ask(change.method, change.path, change.body, Idempotency_Key=key)
        # A DELETE takes no key: sent again, it finds nothing left to delete.
        expected = {change.status, 404} if change.method == "DELETE" else {change.status}
        assert answer.status in expected, (change, answer)
        if change.action == "notification.tested":
            self.tests.append(answer.json["data"]["id"])
        self.done.append(change)
        self._open = None


def clients() -> list[Client]:
    sorts = [("switch", SWITCHES, switched), ("life", LIVES, lives)]
    found = [
        Client(f"{sort}{number}", make(f"{sort}{number}")) for sort, count, make in sorts for number in range(count)
    ]
    return found + [Client(f"test{number}", trials(f"n{number}")) for number in range(TESTS)]


class Signs:
    """What a round may wait for before it ends, so that some are killed at every stage."""

    def __init__(self) -> None:
        self.answered = threading.Event()
        self.arrived = threading.Event()

    def of(self, number: int) -> threading.Event | None:
        return (None, self.answered, self.arrived)[number % 3]


class Moody:
    """Refuses some events the first time, until it is set to accept; `accepted` is what it took, in order."""

    def __init__(self, arrived: threading.Event) -> None:
        self._arrived = arrived
        self._dice = random.Random(5)
        self._refused: set[str] = set()
        self.is_moody = True
        self.accepted: list[Any] = []

    async def receive(self, received: Received) -> StreamResponse:
        event = received.json
        if self.is_moody and event["id"] not in self._refused and self._dice.random() < REFUSED_SHARE:
            self._refused.add(event["id"])
            return Response(status=500)
        self.accepted.append(event)
        self._arrived.set()
        return Response(status=204)


def killed_in_the_middle(
    home: Path, token: str, everyone: list[Client], number: int, signs: Signs, seconds: float
) -> None:
    signs.answered.clear()
    signs.arrived.clear()
    running = Running(home, "--workers", str(1 + number % 2), token=token, **SETTINGS)
    with ThreadPoolExecutor(len(everyone)) as pool:
        under_way = [pool.submit(client.go_on, AdminClient(running), signs.answered) for client in everyone]
        sign = signs.of(number)
        assert sign is None or sign.wait(60)
        time.sleep(seconds)
        running.kill()
    for each in under_way:
        each.result()
    outlast_the_lease(home)


def outlast_the_lease(home: Path) -> None:
    """As if half a minute passed: a killed process holds the work of delivering for so long."""
    with closing(sqlite3.connect(home / "relaydeck.db", timeout=60)) as database, database:
        database.execute("UPDATE leases SET expires_at = 0")


def finished(home: Path, token: str, everyone: list[Client]) -> tuple[list[Any], list[Any]]:
    """Make what is left open, wait until everything is delivered; all events and all audit entries."""
    with Running(home, token=token, **SETTINGS) as running:
        admin = AdminClient(running)
        for client in everyone:
            client.finish(admin)
        deadline = time.monotonic() + 120
        while admin.get("deliveries?state=pending&per_page=1"):
            assert time.monotonic() < deadline, "deliveries do not come to an end"
            time.sleep(0.05)
        assert admin.get("deliveries?state=dead") == []
        return everything(admin, "events"), everything(admin, "audit")


def everything(admin: AdminClient, path: str) -> list[Any]:
    found: list[Any] = []
    while page := admin.get(f"{path}?per_page=1000&after={found[-1]['sequence'] if found else 0}"):
        found += page
    return found


async def test_kill_9_in_many_rounds_loses_repeats_and_reorders_no_change_and_no_event(home: Path) -> None:
    signs = Signs()
    moody = Moody(signs.arrived)
    receivers = [await Receiver(moody.receive).start() for _ in range(2)]
    document = "".join(NOTIFICATION.format(id=f"n{number}", url=each.url) for number, each in enumerate(receivers))
    assert run_command(home, "apply", "-", stdin=STATE.format() + document).returncode == 0
    token, dice, everyone = issue(home, "root", "admin"), random.Random(4), clients()
    for number in range(ROUNDS):
        seconds = dice.uniform(0, 0.15)
        await asyncio.to_thread(killed_in_the_middle, home, token, everyone, number, signs, seconds)
    moody.is_moody = False
    events, audit = await asyncio.to_thread(finished, home, token, everyone)
    for receiver in receivers:
        await receiver.stop()

    done = [change for client in everyone for change in client.done]
    assert len(done) > ROUNDS
    check_audit(audit, everyone)
    check_events(events, everyone)
    check_arrivals(events, moody.accepted)
    verified = await asyncio.to_thread(run_command, home, "audit", "verify")
    assert verified.stderr == ""
    assert verified.stdout.startswith(f"{len(audit)} entries, every link holds; head {len(audit)}:")


def check_audit(audit: list[Any], everyone: Sequence[Changing]) -> None:
    """Of each record the actions that were acknowledged, in that order, each once; and nothing else."""
    recorded: dict[str, list[str]] = defaultdict(list)
    for entry in audit:
        if entry["actor"] == "token:root":
            recorded[entry["record"]].append(entry["action"])
    expected: dict[str, list[str]] = defaultdict(list)
    for change in (change for client in everyone for change in client.done):
        expected[change.record].append(change.action)
    assert recorded == expected


def check_events(events: list[Any], everyone: Sequence[Changing]) -> None:
    """One for each pause, resume and test that was acknowledged, in that order; and no other."""
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    happened: dict[str, list[str]] = defaultdict(list)
    for event in events:
        if event["type"] != "notification.test":
            happened[event["data"]["relayer"]["id"]].append(event["type"])
            assert event["data"]["relayer"]["paused"] == (event["type"] == "relayer.paused")
    expected: dict[str, list[str]] = defaultdict(list)
    for change in (change for client in everyone for change in client.done):
        if change.action in ("relayer.paused", "relayer.resumed"):
            expected[change.record].append(change.action)
    assert happened == expected
    tests = sorted(event["id"] for event in events if event["type"] == "notification.test")
    assert tests == sorted(test for client in everyone for test in client.tests)


def check_arrivals(events: list[Any], arrived: list[Any]) -> None:
    """Every event as the log shows it, taken at least once; of each relayer for the first time in order."""
    by_id = {event["id"]: event for event in events}
    assert {each["id"] for each in arrived} == by_id.keys()
    assert [each for each in arrived if each != by_id[each["id"]]] == []
    first: dict[str, list[int]] = defaultdict(list)
    for each in arrived:
        line = each["data"].get("relayer", {}).get("id")
        if line is not None and each["sequence"] not in first[line]:
            first[line].append(each["sequence"])
    assert {sequences == sorted(sequences) for sequences in first.values()} == {True}
