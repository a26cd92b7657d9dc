"""Drains of replicas under load, behind a balancer that tries nothing twice: no request fails.

`RELAYDECK_DRAINS=100 make prove ARGS=tests/proofs/test_drains.py` is the long form.
"""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.proofs.balancer import balancing_without_retries, up
from tests.proofs.fleet import Replica
from tests.support import shapes
from tests.support.lengths import times
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.running import ask, eventually, run_command

pytestmark = pytest.mark.prove

DRAINS = times(10, short=4, setting="RELAYDECK_DRAINS")
CLIENTS = 6
SIGNERS = "/api/v1/signers"


class Caller(threading.Thread):
    """Keeps its connection, creates signers and lists them, and remembers every answer that is no success."""

    def __init__(self, name: str, port: int, token: str, over: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._port, self._over = port, over
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.answered = self.revision = 0
        self.created: list[str] = []
        self.failures: list[str] = []

    def run(self) -> None:
        client = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        for number in count():
            if self._over.is_set():
                break
            try:
                self._act(client, number)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                client.close()
        client.close()

    def _act(self, client: http.client.HTTPConnection, number: int) -> None:
        creates = number % 5 == 0
        identifier = f"{self.name}-{number}"
        body = json.dumps(shapes.request("plain", id=identifier)) if creates else None
        client.request("POST" if creates else "GET", SIGNERS, body, self._headers)
        answer = client.getresponse()
        text = answer.read()
        if answer.status != (201 if creates else 200):
            self.failures.append(f"{answer.status} {text[:100]!r}")
        elif creates:
            self.created.append(identifier)
            self.revision = int(answer.headers["Relaydeck-Revision"])
        self.answered += 1


class Scene:
    stored = 0  # signers, at the end

    def __init__(self, replicas: list[Replica], homes: list[Path], statistics: int, callers: list[Caller]) -> None:
        self.replicas, self.homes, self.callers = replicas, homes, callers
        self._statistics = statistics

    @property
    def answered(self) -> int:
        return sum(caller.answered for caller in self.callers)

    def await_up(self, *but: Replica) -> None:
        expected = {each.port for each in self.replicas if each not in but}
        eventually(lambda: up(self._statistics) == expected)

    @property
    def failures(self) -> list[str]:
        return [each for caller in self.callers for each in caller.failures]


@contextmanager
def load(folder: Path) -> Iterator[Scene]:
    """Two replicas with two workers each, and callers, through the balancer."""
    with ExitStack() as closing:
        server = PostgresServer()
        closing.callback(server.remove)
        homes = [folder / name for name in ("one", "other")]
        url = server.url(server.fresh())
        for home in homes:
            home.mkdir()
            choose(home, url)
        settings = {"master_key_file": str(folder / "master.key"), "rate_limit_per_second": "0"}
        replicas = [Replica(home, "--workers", "2", **settings) for home in homes]
        token = run_command(homes[0], "token", "create", "caller", **settings).stdout.strip()
        for replica in replicas:
            replica.start_unless_running()
            closing.callback(replica.kill)
        port, statistics = closing.enter_context(
            balancing_without_retries(folder / "balancer", [each.port for each in replicas])
        )
        over = threading.Event()
        callers = [Caller(f"caller-{number}", port, token, over) for number in range(CLIENTS)]
        scene = Scene(replicas, homes, statistics, callers)
        scene.await_up()
        for caller in callers:
            caller.start()
        try:
            yield scene
        finally:
            over.set()
            for caller in callers:
                caller.join()
        newest = max((caller.revision for caller in callers), default=0)  # the other replica may be behind it
        seen = ask(port, "GET", SIGNERS, token=token, headers={"Relaydeck-Min-Revision": str(newest)})
        scene.stored = seen.json["pagination"]["total_items"]


def test_no_request_fails_while_replicas_are_drained_in_turn(tmp_path: Path) -> None:
    with load(tmp_path) as scene:
        for number in range(DRAINS):
            replica, home = scene.replicas[number % 2], scene.homes[number % 2]
            before = scene.answered
            done = run_command(home, "drain", "--for", "2")
            assert (done.returncode, replica.stop()) == (0, 0), done.stderr
            assert scene.answered > before  # under load
            replica.start_unless_running()
            scene.await_up()
            assert scene.failures == []
    created = sum(len(caller.created) for caller in scene.callers)
    print(f"{DRAINS} drains: {scene.answered} requests, {created} of them writes, {len(scene.failures)} failed")
    assert (scene.failures, scene.stored) == ([], created)


def test_an_end_without_a_drain_fails_requests(tmp_path: Path) -> None:
    """The test above could fail."""
    with load(tmp_path) as scene:
        for _ in range(10):
            scene.replicas[0].kill()
            scene.await_up(scene.replicas[0])
            if scene.failures:
                return
            scene.replicas[0].start_unless_running()
            scene.await_up()
    raise AssertionError("no request failed")
