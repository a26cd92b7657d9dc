"""Replicas, the database below them, and clients that write all the time: what `recovery.py` brings faults about in."""

import shutil
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from relaydeck.database_url import DatabaseUrl
from tests.conftest import DEMO
from tests.contract.shapes import request
from tests.places import choose
from tests.postgres_pair import PostgresPair
from tests.proofs.fleet import Fleet, Replica
from tests.proofs.tcp_proxy import Proxy
from tests.running import Answer, ask, run_command
from tests.seeding import issue, opened
from tests.statements import column

_SKEWED = Path(__file__).parent.parent / "explore" / "skewed"
_DOCUMENT = DEMO.replace("https://hooks.example.com/relaydeck", "https://127.0.0.1:9/hook")
_SETTINGS = {"rate_limit_per_second": "0", "monitor_interval_seconds": "3600", "log_level": "error"}
_LONGEST_START = 90.0
_LONGEST_RECOVERY = 120.0
_CREATORS = 2  # for each replica
_BETWEEN_FAULTS = 20  # writes that each replica accepts before the next fault


class Writer(threading.Thread):
    """Writes to one replica without a pause. `accepted` has when the newest accepted write was sent and answered."""

    def __init__(self, name: str, port: int, token: str, over: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.port, self._token, self._over = port, token, over
        self.acknowledged: list[str] = []
        self.accepted = (0.0, 0.0)
        self.unexpected: list[Answer] = []  # with a status other than that of an accepted write and 500

    def run(self) -> None:
        for number in count():
            if self._over.is_set():
                return
            self.write(f"{self.name}-{number}")

    def write(self, name: str) -> None:
        raise NotImplementedError

    def send(self, path: str, body: Any, status: int, **headers: str) -> Answer | None:
        """The response to an accepted write; None when nobody knows whether it was made."""
        sent = time.monotonic()
        try:
            answer = ask(self.port, "POST", path, body, token=self._token, headers=headers)
        except (OSError, HTTPException):
            time.sleep(0.02)
            return None
        if answer.status == status:
            self.accepted = sent, time.monotonic()
            return answer
        if answer.status != 500:
            self.unexpected.append(answer)
            # At once: a run that ends early must not take it along.
            print(f"{self.name}: {answer.status} {answer.headers} {answer.body[:1000]!r}", file=sys.stderr, flush=True)
        time.sleep(0.02)
        return None


class Creator(Writer):
    """Creates signers, each once."""

    def write(self, name: str) -> None:
        if self.send("/api/v1/signers", request("plain", id=name), 201):
            self.acknowledged.append(name)


class Tester(Writer):
    """Records test events. It repeats each request with its Idempotency-Key until it is accepted."""

    def write(self, name: str) -> None:
        key = {"Idempotency-Key": name}
        deadline = time.monotonic() + _LONGEST_RECOVERY
        while not (answer := self.send("/admin/v1/notifications/pager/test", None, 201, **key)):
            assert time.monotonic() < deadline, "the service does not recover"
        self.acknowledged.append(answer.json["data"]["id"])


class Counts(NamedTuple):
    acknowledged: int
    lost: int
    doubled: int
    other_statuses: str


def other_statuses(writers: Sequence[Writer]) -> str:
    """Of the responses that were neither accepted nor 500, each with its number."""
    found = Counter(each.status for writer in writers for each in writer.unexpected)
    return ", ".join(f"{status} × {number}" for status, number in sorted(found.items())) or "none"


class Stage:
    def __init__(self, folder: Path, url: DatabaseUrl | None, replicas: int) -> None:
        """On PostgreSQL; without a URL one replica on a SQLite file."""
        self.homes = [folder / f"replica-{number}" for number in range(replicas)]
        for home in self.homes:
            home.mkdir()
            if url is not None:
                choose(home, url)
        self._skew = folder / "skew"
        self.set_clock(0.0)
        done = run_command(self.homes[0], "apply", "-", stdin=_DOCUMENT)
        assert done.returncode == 0, done.stderr
        self.token = issue(self.homes[0], "root", "admin")
        key = str(self.homes[0] / "master.key")
        self.replicas = [Replica(home, **_SETTINGS, master_key_file=key) for home in self.homes]
        for each in self.replicas:
            each.set_environment(PYTHONPATH=str(_SKEWED), SKEW_FILE=str(self._skew))

    def set_clock(self, skew: float) -> None:
        with open(self._skew, "r+b" if self._skew.exists() else "wb") as file:
            file.write(struct.pack("d", skew))

    def ask_all(self, path: str) -> list[Answer]:
        return [ask(each.port, "GET", path, token=self.token) for each in self.replicas]


class Crowd:
    """The writers of one stage. They end with the block."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._over = threading.Event()
        self._stage = stage
        self.writers: list[Writer] = [
            kind(f"{name}-{replica.port}-{number}", replica.port, stage.token, self._over)
            for replica in stage.replicas
            for number, kind in enumerate([Creator] * _CREATORS + [Tester])
        ]

    def __enter__(self) -> "Crowd":
        self._events_before = _numbers_of_events(self._stage)
        for each in self.writers:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self.writers:
            each.join(_LONGEST_RECOVERY)

    def work(self) -> None:
        """Until each replica has accepted some more writes."""
        for _ in range(_BETWEEN_FAULTS):
            self.await_accepted(time.monotonic())

    def await_accepted(self, since: float) -> float:
        """Until each replica has accepted a write that was sent since then; how many seconds that took."""
        return max(self._await(replica.port, since) for replica in self._stage.replicas)

    def _await(self, port: int, since: float) -> float:
        deadline = time.monotonic() + _LONGEST_RECOVERY
        while True:
            accepted = [each.accepted for each in self.writers if each.port == port and each.accepted[0] >= since]
            if accepted:
                return min(accepted)[1] - since
            assert time.monotonic() < deadline, [each.log[-2000:] for each in self._stage.replicas]
            time.sleep(0.005)

    def count(self) -> Counts:
        """After the block: what the database has of what was acknowledged."""
        created = [name for each in self.writers if isinstance(each, Creator) for name in each.acknowledged]
        tested = [event for each in self.writers if isinstance(each, Tester) for event in each.acknowledged]
        with opened(self._stage.homes[0]) as store:
            signers = Counter(column(store.database, "SELECT record FROM audit WHERE action = 'signer.created'"))
            stored = set(column(store.database, "SELECT id FROM signers"))
            events = column(store.database, "SELECT id FROM events WHERE kind = 'notification.test'")
        new = set(events) - self._events_before
        lost = [name for name in created if name not in stored] + [event for event in tested if event not in new]
        twice = [name for name in created if signers[name] > 1 or created.count(name) > 1]
        doubled = len(twice) + len(new - set(tested))
        return Counts(len(created) + len(tested), len(lost), doubled, other_statuses(self.writers))


def _numbers_of_events(stage: Stage) -> set[str]:
    with opened(stage.homes[0]) as store:
        return set(column(store.database, "SELECT id FROM events"))


class Machines(NamedTuple):
    """What faults are brought about in; `pair` and `proxies` with PostgreSQL only."""

    stage: Stage
    pair: PostgresPair | None = None
    proxies: tuple[Proxy, ...] = ()

    @property
    def servers(self) -> PostgresPair:
        assert self.pair is not None
        return self.pair


@contextmanager
def _served(stage: Stage) -> Iterator[None]:
    with Fleet(stage.replicas) as fleet:
        fleet.await_ready(_LONGEST_START)
        yield


@contextmanager
def on_sqlite() -> Iterator[Machines]:
    folder = Path(tempfile.mkdtemp(prefix="relaydeck-recovery-"))
    try:
        stage = Stage(folder, None, 1)
        with _served(stage):
            yield Machines(stage)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def on_postgresql() -> Iterator[Machines]:
    """Two replicas, a primary and its synchronous standby, and a network between them that can be cut."""
    folder, pair = Path(tempfile.mkdtemp(prefix="relaydeck-recovery-")), PostgresPair()
    proxies = {each.port: Proxy(each.port) for each in (pair.primary, pair.standby)}
    try:
        url = pair.url(pair.fresh()).reveal()
        for port, proxy in proxies.items():
            url = url.replace(f":{port}", f":{proxy.port}")
        stage = Stage(folder, DatabaseUrl(url), 2)
        with _served(stage):
            yield Machines(stage, pair, tuple(proxies.values()))
    finally:
        for each in proxies.values():
            each.close()
        pair.remove()
        shutil.rmtree(folder, ignore_errors=True)
