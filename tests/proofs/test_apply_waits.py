"""Ten thousand relayers applied while other clients write all the time: how long these clients wait.

The longest wait is printed: `docs/growth.md` explains what it depends on. No write of the others may fail.
The environment variable APPLIED_RELAYERS sets another number of relayers.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.places import ENGINES
from tests.proofs.large_file import large_file
from tests.running import COMMAND, Running, ask, clean_environment, make_token, run_command

pytestmark = pytest.mark.prove

RELAYERS = int(os.environ.get("APPLIED_RELAYERS", "10000"))
OWN_URL = 'custom_rpc_urls = [{{ url = "http://127.0.0.1:9/{number}", weight = 1 }}]\n'


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

    def stop(self) -> float:
        self._ended.set()
        self.join()
        assert self.statuses == {201}
        return max(self.waits)


def apply_beside_clients(home: Path, running: Running, file: Path) -> str:
    """What the command prints. The longest wait of the others is printed."""
    clients = [Client(running, f"client-{number}") for number in range(4)]
    for each in clients:
        each.start()
    started = time.monotonic()
    environment = clean_environment(home) | {"OPS_KEY": "11" * 32}
    done = subprocess.run([*COMMAND, "apply", str(file)], env=environment, capture_output=True, text=True, check=False)
    taken = time.monotonic() - started
    longest, writes = max([each.stop() for each in clients]), sum(len(each.waits) for each in clients)
    print(f"{RELAYERS} relayers: {taken:.1f} s, {writes} other writes, the longest waited {longest:.2f} s")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("engine", ENGINES)
def test_apply_of_many_relayers_beside_other_writes(
    engine: str, tmp_path: Path, lend: Callable[[Path, str], Path]
) -> None:
    home = lend(tmp_path / "home", engine)
    file = tmp_path / "relaydeck.toml"
    file.write_text(large_file(RELAYERS, OWN_URL))
    token = make_token(home, "clients")
    with Running(home, token=token, monitor_interval_seconds="0", log_level="error") as running:
        created = apply_beside_clients(home, running, file)
        assert created == f"created: 1 network, 1 signer, {RELAYERS} relayers\n"
        answer = running.ask("GET", "/api/v1/relayers?per_page=1")
        assert answer.json["pagination"]["total_items"] == RELAYERS
    done = run_command(home, "audit", "verify")
    assert done.returncode == 0, done.stderr
