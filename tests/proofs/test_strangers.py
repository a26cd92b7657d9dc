"""5,000 connections of strangers at a limit of 1,024 open files: everybody else is served."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.lengths import times
from tests.support.running import Running, children
from tests.support.seeding import issue

pytestmark = pytest.mark.prove
STRANGERS, PROCESSES, SECONDS = 5000, 2, times(60, short=25)
LONGEST_SECONDS = 5.0
MOST_MEMORY = 512 * 1024 * 1024
SIGNERS = "/api/v1/signers?per_page=1"


@contextmanager
def strangers(port: int) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.proofs.strangers", str(port), str(STRANGERS // PROCESSES)]
    processes = [subprocess.Popen(command) for _ in range(PROCESSES)]
    try:
        yield
        assert [process.poll() for process in processes] == [None] * PROCESSES
    finally:
        for process in processes:
            process.kill()
            process.wait()


def longest_wait(list_signers: Callable[[], int]) -> float:
    """Seconds between two responses, the longest; a connection that is closed or a timeout is no response."""
    began = last = time.monotonic()
    longest = 0.0
    while last - began < SECONDS:
        try:
            assert list_signers() == 200
        except OSError:
            assert time.monotonic() - last < SECONDS
            continue
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
        time.sleep(0.1)
    return longest


def peak_memory(running: Running) -> int:
    [worker] = children(running.process.pid)
    lines = Path(f"/proc/{worker}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def judge(running: Running) -> None:
    [worker] = children(running.process.pid)
    for _ in range(3):  # again if the machine itself stood still
        with strangers(running.port):
            longest, memory = longest_wait(lambda: running.ask("GET", SIGNERS).status), peak_memory(running)
        print(f"longest wait {longest:.2f} s, peak memory {memory / 1024 / 1024:.0f} MB")
        if longest < LONGEST_SECONDS:
            break
    assert (children(running.process.pid), longest < LONGEST_SECONDS, memory < MOST_MEMORY) == ([worker], True, True)


def test_a_client_is_served_beside_5000_strangers(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Running(home, token=issue(home), files="1024") as running:
        judge(running)
