"""Replicas that share a database, a master key and a limit, and somebody who starts each one again that ended."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

from tests.support.running import COMMAND, ask, clean_environment, free_port

_LOOK_SECONDS = 0.02


class Replica:
    """Keeps its home and its port through every death. Its log may be a pipe that has a reader."""

    def __init__(self, home: Path, *arguments: str, **settings: str) -> None:
        self.port = free_port()
        self.operations_port = int(settings.get("operations_address", f":{self.port}").rpartition(":")[2])
        self.starts = 0
        self._arguments = arguments
        self.environment = clean_environment(home, **settings)
        self.log_path = home.parent / f"{home.name}.log"
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start_unless_running(self) -> None:
        with self._turn:
            if self._process is None or self._process.poll() is not None:
                self._start()

    def _start(self) -> None:
        self.starts += 1
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*COMMAND, "serve", "--port", str(self.port), *self._arguments],
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def set_environment(self, **variables: str) -> None:
        """For its next start."""
        self.environment |= variables

    def kill(self) -> None:
        """Every process of it at once."""
        with self._turn:
            assert self._process is not None
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)

    def stop(self) -> int:
        with self._turn:
            assert self._process is not None
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
            return self._process.wait(60)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def ready(self) -> bool:
        try:
            return ask(self.operations_port, "GET", "/readyz", timeout=2).status == 200
        except (OSError, HTTPException):
            return False

    @property
    def limits_alone(self) -> bool:
        """A dead one admits nothing, and asks the server of the limits before it does."""
        try:
            page = ask(self.operations_port, "GET", "/metrics", timeout=2).body.decode()
        except (ConnectionError, HTTPException):
            return False
        except TimeoutError:
            return True
        return re.search(r"^relaydeck_limits_alone 0$", page, re.MULTILINE) is None

    @property
    def log(self) -> str:
        return self.log_path.read_text("utf-8", "replace")


class Fleet:
    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.replicas = replicas
        self._over = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    def __enter__(self) -> "Fleet":
        self._supervisor.start()
        return self

    def _supervise(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            for replica in self.replicas:
                replica.start_unless_running()

    def await_ready(self, seconds: float, *, but: Replica | None = None) -> None:
        deadline = time.monotonic() + seconds
        while not all(replica.ready for replica in self.replicas if replica is not but):
            assert time.monotonic() < deadline, [replica.log[-2000:] for replica in self.replicas]
            time.sleep(_LOOK_SECONDS)

    def await_common_limits(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while any(replica.limits_alone for replica in self.replicas):
            assert time.monotonic() < deadline, "some replica still limits by itself"
            time.sleep(_LOOK_SECONDS)

    def stop(self) -> list[int]:
        """How each of them ended."""
        self._over.set()
        self._supervisor.join()
        return [replica.stop() for replica in self.replicas]

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._supervisor.join()
        for replica in self.replicas:
            replica.kill()
