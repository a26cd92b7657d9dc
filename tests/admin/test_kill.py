"""Killed at random points with changes under way: what was answered is there, once, with its audit entry and event."""

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.admin.conftest import Admin
from tests.conftest import DEMO
from tests.running import Running, run_command
from tests.seeding import issue

pytestmark = pytest.mark.prove
ROUNDS = 20


def change_until_killed(admin: Admin, round_number: int, answered: list[str], attempted: list[str]) -> None:
    number = 0
    while True:
        name = f"r{round_number}-{number}"
        attempted.append(name)
        body = {"id": name, "name": name, "network": "sepolia", "network_type": "evm", "signer_id": "ops"}
        try:
            if admin.ask("POST", "relayers", body, Idempotency_Key=name).status != 201:
                return
            if admin.ask("POST", f"relayers/{name}/pause", Idempotency_Key=f"{name}-pause").status != 200:
                return
        except OSError:
            return
        answered.append(name)
        number += 1


def test_nothing_answered_is_lost_and_nothing_is_done_twice(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    token = issue(home, "root", "admin")
    answered: list[str] = []
    attempted: list[str] = []
    for round_number in range(ROUNDS):
        running = Running(home, token=token)
        client = threading.Thread(target=change_until_killed, args=(Admin(running), round_number, answered, attempted))
        client.start()
        time.sleep(random.uniform(0.05, 0.4))
        running.kill()
        client.join()
    assert answered
    with Running(home, token=token) as running:
        admin = Admin(running)
        for name in attempted:  # sent again, each is there exactly once
            body = {"id": name, "name": name, "network": "sepolia", "network_type": "evm", "signer_id": "ops"}
            assert admin.ask("POST", "relayers", body, Idempotency_Key=name).status == 201
        created = [each["record"] for each in _everything(admin, "audit?action=relayer.created")]
        assert sorted(created) == sorted(["sepolia-1", *attempted])
        paused = [each["record"] for each in _everything(admin, "audit?action=relayer.paused")]
        told = [each["data"]["relayer"]["id"] for each in _events(admin)]
        assert told == paused
        assert set(answered) <= set(paused) <= set(attempted)
        assert len(paused) == len(set(paused))
    verified = run_command(home, "audit", "verify")
    assert (verified.returncode, verified.stderr) == (0, "")


def _everything(admin: Admin, path: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    while page := admin.get(f"{path}&per_page=1000&page={len(found) // 1000 + 1}"):
        found += page
        if len(page) < 1000:
            break
    return found


def _events(admin: Admin) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while page := admin.get(f"events?per_page=1000&after={found[-1]['sequence'] if found else 0}"):
        found += page
    return found
