"""Clients that write to and read from every replica all the time, and what they saw."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from http.client import HTTPException
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.running import Answer, ask
from tests.support.seeding import opened
from tests.support.shapes import request
from tests.support.statements import column

_PATIENCE, _READERS_PATIENCE = 5.0, 2.0  # seconds that a client waits for a response
_PAUSE = 0.05
_LONGEST_RECOVERY = 120.0
_CREATORS, _READERS = 4, 3  # for each replica, and a tester: a worker that is stopped must not hold all of them
_NUMBERS = count(1)
_BEFORE_FAULT = 10  # writes that each replica accepts before it


class Client(threading.Thread):
    """Sends requests to one port. `served` has when each accepted one was sent and answered."""

    patience = _PATIENCE

    def __init__(self, name: str, port: int, token: str, over: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.port, self._token, self._over = port, token, over
        self.served: list[tuple[float, float]] = []
        self.failures = 0
        self.unexpected: list[Answer] = []  # with a status other than that of an accepted request and 500

    def run(self) -> None:
        for number in count():
            if self._over.is_set():
                return
            self.call(f"{self.name}-{number}")
            time.sleep(_PAUSE)

    def call(self, name: str) -> None:
        raise NotImplementedError

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer | None:
        """The response to an accepted request; None if it was refused, or if its outcome is unknown."""
        sent = time.monotonic()
        try:
            answer = ask(self.port, method, path, body, token=self._token, headers=headers, timeout=self.patience)
        except (OSError, HTTPException):
            self.failures += 1
            return None
        if answer.status in (200, 201):
            self.served.append((sent, time.monotonic()))
            return answer
        self.failures += 1
        if answer.status != 500:
            if not self.unexpected:  # at once: a run that ends early must not take it along
                print(f"{self.name}: {answer.status} {answer.headers} {answer.body[:1000]!r}", file=sys.stderr)
            self.unexpected.append(answer)
        return None


class Writer(Client):
    def __init__(self, name: str, port: int, token: str, over: threading.Event) -> None:
        super().__init__(name, port, token, over)
        self.acknowledged: list[str] = []


class Creator(Writer):
    """Creates signers, each once."""

    def call(self, name: str) -> None:
        if self.send("POST", "/api/v1/signers", request("plain", id=name)):
            self.acknowledged.append(name)


class Tester(Writer):
    """Records test events. It repeats each request with its Idempotency-Key until it is accepted."""

    def call(self, name: str) -> None:
        key = {"Idempotency-Key": name}
        deadline = time.monotonic() + _LONGEST_RECOVERY
        while not (answer := self.send("POST", "/admin/v1/notifications/pager/test", **key)):
            assert time.monotonic() < deadline, "the service does not recover"
            time.sleep(_PAUSE)
        self.acknowledged.append(answer.json["data"]["id"])


class Reader(Client):
    patience = _READERS_PATIENCE

    def call(self, name: str) -> None:
        self.send("GET", "/api/v1/relayers")


class Counts(NamedTuple):
    acknowledged: int
    lost: int
    doubled: int
    failed: int  # requests that were refused, or not answered
    other_statuses: str
    writes_gap: float
    reads_gap: float


def other_statuses(clients: Sequence[Client]) -> str:
    """Of the responses that were neither accepted nor 500, each with its number."""
    found = Counter(each.status for client in clients for each in client.unexpected)
    return ", ".join(f"{status} × {number}" for status, number in sorted(found.items()))


class Crowd:
    """The clients of the replicas that listen at `ports`. They end with the block."""

    def __init__(self, home: Path, ports: Sequence[int], token: str, patience: float | None = None) -> None:
        self._home, self._ports = home, ports
        name = f"crowd-{next(_NUMBERS)}"
        self._over = threading.Event()
        kinds: list[type[Client]] = [*[Creator] * _CREATORS, Tester, *[Reader] * _READERS]
        self.clients = [
            kind(f"{name}-{place}-{number}", port, token, self._over)
            for place, port in enumerate(ports)
            for number, kind in enumerate(kinds)
        ]
        for each in self.clients:
            each.patience = patience or each.patience
        self.writers = [each for each in self.clients if isinstance(each, Writer)]

    def __enter__(self) -> "Crowd":
        self._events_before = self._events()
        self._began = time.monotonic()
        for each in self.clients:
            each.start()
        for _ in range(_BEFORE_FAULT):
            self.await_accepted(time.monotonic())
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._ended = time.monotonic()
        for each in self.clients:
            each.join(_LONGEST_RECOVERY)

    def await_accepted(self, since: float) -> float:
        """Until each replica has accepted a write that was sent since then; how many seconds that took."""
        return max(self._await(port, since) for port in self._ports)

    def _await(self, port: int, since: float) -> float:
        deadline = time.monotonic() + _LONGEST_RECOVERY
        while True:
            writers = [each for each in self.writers if each.port == port]
            served = [each for writer in writers for each in writer.served[-50:]]
            if accepted := [answered for sent, answered in served if sent >= since]:
                return min(accepted) - since
            assert time.monotonic() < deadline, "the service does not recover"
            time.sleep(0.005)

    def count(self) -> Counts:
        """After the block: what the database has of what was acknowledged."""
        created = [name for each in self.writers if isinstance(each, Creator) for name in each.acknowledged]
        tested = [event for each in self.writers if isinstance(each, Tester) for event in each.acknowledged]
        with opened(self._home) as store:
            signers = Counter(column(store.database, "SELECT record FROM audit WHERE action = 'signer.created'"))
            stored = set(column(store.database, "SELECT id FROM signers"))
        new = self._events() - self._events_before
        lost = [name for name in created if name not in stored] + [event for event in tested if event not in new]
        twice = [name for name in created if signers[name] > 1 or created.count(name) > 1]
        return Counts(
            len(created) + len(tested),
            len(lost),
            len(twice) + len(new - set(tested)),
            sum(each.failures for each in self.clients),
            other_statuses(self.clients),
            self._longest_gap(Writer),
            self._longest_gap(Reader),
        )

    def _longest_gap(self, kind: type[Client]) -> float:
        """The longest time in which a replica accepted no such request of anybody."""
        gaps = []
        for port in self._ports:
            clients = [each for each in self.clients if isinstance(each, kind) and each.port == port]
            moments = sorted(answered for each in clients for _, answered in each.served if answered < self._ended)
            gaps += [after - before for before, after in pairwise([*moments, self._ended])]
        return max(gaps)

    def _events(self) -> set[str]:
        with opened(self._home) as store:
            return set(column(store.database, "SELECT id FROM events WHERE kind = 'notification.test'"))
