"""2,000 connections with unfinished bodies, in waves: memory stays bounded, and lists are answered meanwhile."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.console.conftest import Operator
from tests.http.test_refused_requests import KINDS, left_behind
from tests.proofs.unfinished_bodies import OPERATIONS
from tests.support.lengths import times
from tests.support.running import Running, ask, children
from tests.support.seeding import issue

pytestmark = pytest.mark.prove
WAVES, CONNECTIONS = times(4, short=2), 2000
REFUSALS = times(10_000, short=3_000)  # of each kind
FILES = "8192"  # started as a program of its own, which has only what it needs in memory
MOST_MEMORY = 256_000_000
RECOVERY_SECONDS = 60.0
LONGEST_SECONDS = 0.25
SIGNERS = "/api/v1/signers?per_page=10"


def memory(running: Running, figure: str = "VmRSS") -> int:
    """In bytes, of the worker. `VmHWM`: the most that it ever had."""
    [worker] = children(running.process.pid)
    lines = Path(f"/proc/{worker}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(figure))


def signed_in(running: Running) -> Operator:
    """Somebody who has seen every route once, so that its code is loaded before memory is measured."""
    operator = Operator(running.port)
    operator.post("/sign-in", {"token": running.token})
    for path in ("", "/apply", "/relayers/new"):
        operator.text(path)
    for method, path in OPERATIONS:
        running.ask(method, path, None if method in ("GET", "HEAD") else {})
    return operator


def wave(running: Running, cookie: str) -> tuple[int, float]:
    """How many connections got no response, and the seconds of the slowest list meanwhile."""
    arguments = [str(running.port), str(CONNECTIONS), running.token, cookie]
    command = [sys.executable, "-m", "tests.proofs.unfinished_bodies", *arguments]
    slowest = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as clients:
        while clients.poll() is None:
            began = time.monotonic()
            assert ask(running.port, "GET", SIGNERS, token=running.token).status == 200
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.02)
        assert clients.stdout is not None
        statuses = json.loads(clients.stdout.read())
    print(f"{statuses}, slowest list {slowest * 1000:.0f} ms, now {memory(running) / 1e6:.0f} MB", flush=True)
    return statuses.get("0", 0), slowest


def calm_wave(running: Running, cookie: str) -> tuple[int, float]:
    """Another wave if the machine itself stood still."""
    for _ in range(3):
        unanswered, slowest = wave(running, cookie)
        if slowest < LONGEST_SECONDS:
            break
    return unanswered, slowest


def shrinks_to(running: Running, size: float) -> bool:
    until = time.monotonic() + RECOVERY_SECONDS
    while memory(running) > size and time.monotonic() < until:
        time.sleep(0.1)
    return memory(running) <= size


def test_unfinished_bodies_take_little_memory_and_give_it_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Running(home, token=issue(home, kind="admin"), files=FILES) as running:
        cookie, before = signed_in(running).cookie, memory(running)
        waves = [calm_wave(running, cookie) for _ in range(WAVES)]
        most, given_back = memory(running, "VmHWM"), shrinks_to(running, before * 1.2)
        print(f"{before / 1e6:.0f} MB before, {most / 1e6:.0f} at most, {memory(running) / 1e6:.0f} after")
    unanswered, slowest = sum(each[0] for each in waves), max(each[1] for each in waves)
    assert (unanswered, most < MOST_MEMORY, given_back, slowest < LONGEST_SECONDS) == (0, True, True, True)


def test_refusals_of_each_kind_leave_nothing_in_memory(tmp_path: Path) -> None:
    assert left_behind(tmp_path, REFUSALS) == {kind: [int(kind[:3]), {}] for kind in KINDS}
