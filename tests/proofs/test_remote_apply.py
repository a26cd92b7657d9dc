"""Thousands of relayers applied over HTTP, with the command or the service killed half way: nothing or everything.

The moments of the kills are spread over the time that an undisturbed apply takes here.
"""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proofs.large_file import large_file
from tests.support.lengths import times
from tests.support.running import COMMAND, Running, clean_environment, make_token, run_command

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

RELAYERS = times(10_000, short=3_000)
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of an undisturbed apply, at which a process is killed


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("apply") / "relaydeck.toml"
    path.write_text(large_file(RELAYERS))
    return path


class Target:
    """A served home with nothing in it but a token."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.token = make_token(self.home, "pipeline", "--kind", "admin")
        self.running = self.serve()

    def serve(self) -> Running:
        return Running(self.home, token=self.token, monitor_interval_seconds="0", log_level="error")

    def apply(self, file: Path) -> "subprocess.Popen[bytes]":
        """The command on another machine, started."""
        url = f"http://127.0.0.1:{self.running.port}"
        environment = clean_environment(self.home.parent / "elsewhere", url=url, token=self.token)
        command = [*COMMAND, "apply", str(file)]
        return subprocess.Popen(
            command, env=environment | {"OPS_KEY": "11" * 32}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def total(self) -> int:
        answer = self.running.ask("GET", "/admin/v1/relayers?per_page=1")
        total: int = answer.json["pagination"]["total_items"]
        return total

    def settled(self) -> int:
        """The number of relayers once the service works on nothing any more: a write waits for the one before it."""
        self.running.ask("POST", "/admin/v1/networks", {"name": "after", "network_type": "evm", "chain_id": 1})
        return self.total()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    made = Target(tmp_path)
    yield made
    made.running.stop()


@pytest.fixture(scope="module")
def seconds(file: Path, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long an undisturbed apply takes, and that it works."""
    target = Target(tmp_path_factory.mktemp("undisturbed"))
    started = time.monotonic()
    output, errors = target.apply(file).communicate(timeout=600)
    taken = time.monotonic() - started
    assert (output, errors) == (f"created: 1 network, 1 signer, {RELAYERS} relayers\n".encode(), b"")
    assert target.total() == RELAYERS
    again, _ = target.apply(file).communicate(timeout=600)
    assert again == b"nothing to change: the stored records match the file\n"
    target.running.stop()
    print(f"{RELAYERS} relayers over HTTP: {taken:.1f} s, a file of {file.stat().st_size / 1e6:.1f} MB")
    return taken


@pytest.mark.parametrize("share", SHARES)
def test_the_command_is_killed(target: Target, file: Path, seconds: float, share: float) -> None:
    command = target.apply(file)
    time.sleep(share * seconds)
    command.send_signal(signal.SIGKILL)
    command.communicate(timeout=60)
    assert target.settled() in (0, RELAYERS)
    verify(target)


@pytest.mark.parametrize("share", SHARES)
def test_the_service_is_killed(target: Target, file: Path, seconds: float, share: float) -> None:
    command = target.apply(file)
    time.sleep(share * seconds)
    target.running.kill()
    command.send_signal(signal.SIGKILL)
    command.communicate(timeout=60)
    target.running = target.serve()
    assert target.total() in (0, RELAYERS)
    verify(target)


def verify(target: Target) -> None:
    """The audit log is whole."""
    done = run_command(target.home, "audit", "verify")
    assert done.returncode == 0, done.stderr
