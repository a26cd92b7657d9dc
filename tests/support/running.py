"""A real `relaydeck` on a real socket: how tests start, ask, stop and kill it."""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import IO, Any, NamedTuple, Self
from urllib.parse import quote

from tests.support.fork_server import Done, Forked, fork_server
from tests.support.places import setting_of

COMMAND = (sys.executable, "-m", "relaydeck")
_PATIENCE = {"rpc_deadline_seconds": "30", "rpc_try_timeout_seconds": "15", "driver_deadline_seconds": "30"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def _own_ports() -> range:
    """Below those that outgoing connections are given. Each process of a test run has its share.

    So has one that takes the place of a process that crashed: it has the next higher number.
    """
    share = (32_768 - 20_000) // (2 * int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    first = 20_000 + share * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return range(first, first + share)


@cache
def _ports_in_turn() -> Iterator[int]:
    ports = _own_ports()
    return cycle(random.SystemRandom().sample(ports, len(ports)))  # Hypothesis seeds the common generator


def free_port() -> int:
    """One that stays free until its server starts, and while its server is down. Two calls do not return the same."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", port := next(_ports_in_turn()))):
            return port


def ask(
    port: int,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    timeout: float = 120,
) -> Answer:
    """Send JSON when `body` is given (bytes are sent as they are); whole answer back."""
    sent = dict(headers or {})
    if token:
        sent.setdefault("Authorization", f"Bearer {token}")
    content = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
    if content is not None:
        sent.setdefault("Content-Type", "application/json")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, content, {k: v for k, v in sent.items() if v})
        with connection.getresponse() as response:
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def clean_environment(home: Path, **settings: str) -> dict[str, str]:
    """This process's environment without settings of its own, plus the given ones (`max_per_page="5"`).

    Signers are not checked unless a test says so: the moment of a check would be chance. Nodes on this machine may be
    set over HTTP. Nodes and key systems have more time than a busy machine needs.
    """
    settings = {"signer_check_seconds": "0", "rpc_guard": "off"} | _PATIENCE | settings
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAYDECK_")}
    kept |= setting_of(home)
    return kept | {"RELAYDECK_HOME": str(home)} | {f"RELAYDECK_{name.upper()}": v for name, v in settings.items()}


def run_command(home: Path, *arguments: str, stdin: str = "", **settings: str) -> Done:
    """Run `relaydeck …` to its end; the caller looks at the outcome."""
    environment = clean_environment(home, **settings)
    if "COVERAGE_PROCESS_CONFIG" not in environment:
        return fork_server().run(arguments, environment, stdin, timeout=600)
    ended = subprocess.run(  # each process is measured from its start
        [*COMMAND, *arguments], input=stdin, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    return Done(ended.returncode, ended.stdout, ended.stderr)


def start_command(
    arguments: Sequence[str], environment: Mapping[str, str], log: IO[bytes], files: str = ""
) -> "Forked | subprocess.Popen[bytes]":
    """Start `relaydeck …` in a session of its own, its standard error in `log`. It may open so many `files`."""
    if "COVERAGE_PROCESS_CONFIG" not in environment and not files:
        return fork_server().start(arguments, environment, log)
    limited = ["prlimit", f"--nofile={files}:{files}"] if files else []
    return subprocess.Popen(
        [*limited, *COMMAND, *arguments], env=environment, stdout=subprocess.PIPE, stderr=log, start_new_session=True
    )


def pipes(process: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
    """Its standard input and output."""
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


def make_token(home: Path, name: str, *options: str) -> str:
    done = run_command(home, "token", "create", name, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run, or ended and were not waited for.

    The kernel lists the children of a thread too, but may leave some out while others end.
    """
    return [child for child in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(child) == pid]


def _parent(pid: int) -> int:
    """0: it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])


class Running:
    """A served home. `ask` sends one request; `token` is what it authenticates with."""

    stderr: IO[bytes] | None = None  # of the process; None: a file, which `log` reads

    def __init__(
        self, home: Path, *arguments: str, at: str = "", token: str = "", files: str = "", **settings: str
    ) -> None:
        """`at`: a port where something else expects it."""
        self.home = home
        self.port = int(at) if at else free_port()
        self.token = token
        self.log_path = home.parent / f"{home.name}-{self.port}.log"
        with self.log_path.open("wb") as log:
            self.process = start_command(
                ["serve", "--port", str(self.port), *arguments],
                clean_environment(home, **settings),
                self.stderr or log,
                files,
            )
        self.await_answer()

    def await_answer(self) -> None:
        deadline = time.monotonic() + 300
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
                    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
                    if client.recv(1):
                        return
            except OSError:
                pass
            assert self.process.poll() is None, f"it did not start: {self.log}"
            assert time.monotonic() < deadline, f"it did not answer: {self.log}"
            time.sleep(0.01)

    @property
    def log(self) -> str:
        """Its whole lines: the last one may be half written."""
        text = self.log_path.read_text("utf-8", "replace")
        return text[: text.rfind("\n") + 1]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        return ask(self.port, method, path, body, token=self.token if token is None else token, headers=headers)

    def stop(self) -> int:
        """End it the graceful way; gives its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(120)
        finally:
            self._reap()

    def kill(self) -> None:
        """End every process of it at once, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(120)
        self._reap()

    def _reap(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def eventually(seen: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < until
        time.sleep(0.01)


def in_path(identifier: str) -> str:
    return quote(identifier, safe="")
