"""Servers as processes: started in a session of their own, measured from /proc, ended by their ids."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Server:
    """A server process and its children, listening on a port of this machine."""

    def __init__(self, port: int, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None):
        self.port = port
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=dict(os.environ if environment is None else environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches the bench alone, which then ends what it started
            )

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def require_alive(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"a server ended by itself: {self._log.read_text('utf-8', 'replace')[-2000:]}")

    def cpu_seconds(self) -> float:
        """CPU time spent so far by the server and all its children."""
        return sum(_cpu_ticks(pid) for pid in self._family()) / _TICKS_PER_SECOND

    def worker_megabytes(self) -> float:
        """Resident memory of the one worker: the child that answers, not the parent that watches it."""
        _parent, *children = self._family()
        return max(_resident_megabytes(pid) for pid in children)

    def halt(self) -> None:
        """Stop it, background work included, until it is resumed."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it gracefully; after a while, not so gracefully."""
        family = self._family()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self.go_on()  # a halted one hears nothing
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        for pid in family:
            _kill_if_ours(pid, self._process.pid)

    def _family(self) -> list[int]:
        """The process and its descendants, itself first."""
        children: dict[int, list[int]] = {}
        for pid in _all_processes():
            children.setdefault(_parent_of(pid), []).append(pid)
        family = [self._process.pid]
        for pid in family:  # grows while it is walked
            family += children.get(pid, [])
        return family


def _all_processes() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; none when the process is gone."""
    try:
        # The second field is the command in brackets, which may hold blanks and brackets itself.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent_of(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _cpu_ticks(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _resident_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _kill_if_ours(pid: int, session: int) -> None:
    """End a child that outlived its parent; the session tells it from a stranger that got the same id."""
    try:
        if os.getsid(pid) == session:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
