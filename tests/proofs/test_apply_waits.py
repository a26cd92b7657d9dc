"""A hundred thousand relayers applied while other clients write all the time: how long these clients wait.

No write of the others may fail. The longest wait is printed: `docs/growth.md` explains what it depends on. It has a
bound, which is longer on a busy machine: there the processes get a part of the processor time that they need.
The environment variable APPLIED_RELAYERS sets another number of relayers.
"""

import resource
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.proofs.large_file import large_file
from tests.support.lengths import times
from tests.support.places import ENGINES
from tests.support.running import COMMAND, Running, ask, clean_environment, make_token, run_command

pytestmark = pytest.mark.prove

RELAYERS = times(100_000, short=25_000, setting="APPLIED_RELAYERS")
OWN_URL = 'custom_rpc_urls = [{{ url = "http://127.0.0.1:9/{number}", weight = 1 }}]\n'
LONGEST_WAIT = 5.0  # seconds, on an idle machine
MEASUREMENTS = 3  # at most: a stall of the machine may spoil one


class Client(threading.Thread):
    """Creates one signer after another until it is stopped, and notes how long each took."""

    def __init__(self, running: Running, name: str) -> None:
        super().__init__()
        self._running = running
        self._name = name
        self._ended = threading.Event()
        self.waits: list[float] = []
        self.statuses: set[int] = set()

    def run(self) -> None:
        while not self._ended.is_set():
            body = {"id": f"{self._name}-{len(self.waits)}", "type": "plain", "config": {"key": "11" * 32}}
            started = time.monotonic()
            answer = ask(self._running.port, "POST", "/api/v1/signers", body, token=self._running.token, timeout=200)
            self.waits.append(time.monotonic() - started)
            self.statuses.add(answer.status)
            self._ended.wait(0.005)

    def stop(self) -> None:
        self._ended.set()
        self.join()


class Measured(NamedTuple):
    longest_wait: float
    slowdown: float  # how many seconds a second of processor time of the command took

    @property
    def is_short(self) -> bool:
        return self.longest_wait < LONGEST_WAIT * self.slowdown


def apply_beside_clients(home: Path, running: Running, file: Path, expected: str) -> Measured:
    """Until every list shows the result. The longest wait of the others is printed."""
    clients = [Client(running, f"{time.monotonic_ns()}-{number}") for number in range(4)]
    for each in clients:
        each.start()
    started, used = time.monotonic(), processor_seconds()
    environment = clean_environment(home) | {"OPS_KEY": "11" * 32}
    command = [*COMMAND, "apply", str(file), "--prune", "--yes"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    taken, used = time.monotonic() - started, processor_seconds() - used
    wait_for_lists(running)
    for each in clients:
        each.stop()
    longest = max(max(each.waits) for each in clients)
    assert {status for each in clients for status in each.statuses} == {201}, (longest, running.log)
    measured = Measured(longest, max(taken / used, 1.0))
    writes = sum(len(each.waits) for each in clients)
    print(
        f"{expected.strip()}: {taken:.1f} s ({used:.1f} s of processor time), {writes} other writes,"
        f" the longest waited {measured.longest_wait:.2f} s"
    )
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    return measured


def processor_seconds() -> float:
    """Of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def wait_for_lists(running: Running) -> None:
    """A worker that loads a hundred thousand records from a server answers meanwhile, and states its age."""
    while any(name.lower() == "relaydeck-stale" for name in running.ask("GET", "/api/v1/relayers").headers):
        pass


@pytest.mark.parametrize("engine", ENGINES)
def test_apply_of_many_relayers_beside_other_writes(
    engine: str, tmp_path: Path, lend: Callable[[Path, str], Path]
) -> None:
    home = lend(tmp_path / "home", engine)
    whole, head = tmp_path / "relaydeck.toml", tmp_path / "head.toml"
    whole.write_text(large_file(RELAYERS, OWN_URL))
    head.write_text(large_file(0))
    token = make_token(home, "clients")
    with Running(home, token=token, monitor_interval_seconds="0", log_level="error") as running:
        apply_beside_clients(home, running, head, "created: 1 network, 1 signer\n")
        for _ in range(MEASUREMENTS):
            measured = apply_beside_clients(home, running, whole, f"created: {RELAYERS} relayers\n")
            answer = running.ask("GET", "/api/v1/relayers?per_page=1")
            assert answer.json["pagination"]["total_items"] == RELAYERS
            if measured.is_short:
                break
            apply_beside_clients(home, running, head, f"removed: {RELAYERS} relayers\n")
    assert measured.is_short, measured
    done = run_command(home, "audit", "verify")
    assert done.returncode == 0, done.stderr
