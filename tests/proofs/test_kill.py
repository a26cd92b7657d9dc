"""kill -9 in the middle of concurrent creates, again and again: what was acknowledged is there, whole, once."""

import http.client
import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import Config
from tests.support import shapes
from tests.support.lengths import times
from tests.support.running import Running
from tests.support.seeding import issue, opened

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

ROUNDS = times(200, short=30)
CONNECTIONS = 16
BETWEEN_KILLS = 40  # acknowledged creates of a round before it is killed


class Creator(threading.Thread):
    """One connection that creates signers of every type until the service is gone."""

    def __init__(self, running: Running, name: str, acknowledged: list[str], enough: threading.Semaphore) -> None:
        super().__init__()
        self._running = running
        self._name = name
        self._acknowledged = acknowledged
        self._enough = enough

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._running.port, timeout=60)
        try:
            for number in range(1_000_000):
                self._create(connection, f"{self._name}-{number}", shapes.TYPES[number % len(shapes.TYPES)])
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()

    def _create(self, connection: http.client.HTTPConnection, identifier: str, kind: str) -> None:
        headers = {"Authorization": f"Bearer {self._running.token}", "Content-Type": "application/json"}
        connection.request("POST", "/api/v1/signers", json.dumps(shapes.request(kind, id=identifier)), headers)
        response = connection.getresponse()
        response.read()
        assert response.status == 201
        self._acknowledged.append(identifier)
        self._enough.release()


def killed_in_the_middle(running: Running, round_number: int) -> list[str]:
    """What was acknowledged before every process of the service was killed at once."""
    acknowledged: list[str] = []
    enough = threading.Semaphore(0)
    creators = [Creator(running, f"{round_number}-{n}", acknowledged, enough) for n in range(CONNECTIONS)]
    for creator in creators:
        creator.start()
    for _ in range(BETWEEN_KILLS + round_number % 7):  # not always at the same moment of a group
        assert enough.acquire(timeout=60)
    running.kill()
    for creator in creators:
        creator.join()
    return acknowledged


def listed(running: Running) -> list[dict[str, Any]]:
    """Everything the service lists, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        answer = running.ask("GET", f"/api/v1/signers?per_page=100000&page={len(found) // 100_000 + 1}").json
        found += answer["data"]
        if len(found) >= answer["pagination"]["total_items"]:
            return found


def opened_configs(home: Path) -> dict[str, tuple[str, Config]]:
    """Every stored signer with its secrets, as its type says it must be."""
    with opened(home) as store:
        rows = store.database.read(f"SELECT {signer_changes.OPENED_COLUMNS} FROM signers")
        return {row.id: (row.type, signer_changes.opened(row, store.vault).config) for row in rows}


def test_kill_9_in_many_rounds_loses_halves_and_repeats_nothing(home: Path) -> None:
    token = issue(home)
    acknowledged: list[str] = []
    for round_number in range(ROUNDS):
        workers = ("--workers", str(1 + round_number % 2))
        running = Running(home, *workers, token=token, max_per_page="100000", log_level="error")
        shown = listed(running)
        check(shown, acknowledged, round_number)
        acknowledged += killed_in_the_middle(running, round_number)
    with Running(home, token=token, max_per_page="100000", log_level="error") as running:
        shown = listed(running)
    check(shown, acknowledged, ROUNDS)
    whole = opened_configs(home)
    assert whole.keys() == {signer["id"] for signer in shown}
    for identifier, (kind, config) in whole.items():
        number = int(identifier.rpartition("-")[2])
        assert kind == shapes.TYPES[number % len(shapes.TYPES)]
        assert set(config.__struct_fields__) >= set(shapes.CONFIGS[kind])


def check(shown: list[dict[str, Any]], acknowledged: list[str], round_number: int) -> None:
    times = Counter(signer["id"] for signer in shown)
    assert set(acknowledged) - times.keys() == set(), f"acknowledged and missing after round {round_number}"
    assert [identifier for identifier, count in times.items() if count > 1] == []
    for signer in shown:
        kind = shapes.TYPES[int(signer["id"].rpartition("-")[2]) % len(shapes.TYPES)]
        expected = {"type": shapes.response_type(kind), "config": shapes.shown_config(kind)}
        assert signer == {"id": signer["id"], **expected}
