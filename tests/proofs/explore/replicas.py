"""One to three replicas on one database, each with a clock of its own: what the model test drives."""

import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conftest import DEMO
from tests.proofs.fleet import Replica
from tests.support.places import choose
from tests.support.postgres_pair import PostgresPair
from tests.support.running import Answer, ask, run_command
from tests.support.seeding import issue

HOOK = "https://127.0.0.1:9/hook"  # refused without a connection
_DOCUMENT = DEMO.replace("https://hooks.example.com/relaydeck", HOOK)
_SKEWED = Path(__file__).parent / "skewed"
_LONGEST_START = 60.0
_QUIET = {"rate_limit_per_second": "0", "monitor_interval_seconds": "3600", "log_level": "error"}


class Replicas:
    def __init__(self, server: PostgresPair | None, count: int) -> None:
        """On PostgreSQL; without a server one replica on a SQLite file."""
        self._server = server
        self._folder = Path(tempfile.mkdtemp(prefix="relaydeck-model-"))
        homes = [self._folder / f"home-{number}" for number in range(count if server is not None else 1)]
        url = None if server is None else server.url(server.fresh())
        for home in homes:
            home.mkdir()
            if url is not None:
                choose(home, url)
        assert run_command(homes[0], "apply", "-", stdin=_DOCUMENT).returncode == 0
        self.token = issue(homes[0], "root", "admin")
        for home in homes[1:]:
            shutil.copy(homes[0] / "master.key", home / "master.key")
        self._replicas = [Replica(home, **_QUIET) for home in homes]
        for each in range(self.count):
            self.restart(each)

    @property
    def count(self) -> int:
        return len(self._replicas)

    def ask(
        self, number: int, method: str, path: str, body: Any = None, *, token: str = "", revision: int = 0
    ) -> Answer:
        headers: Mapping[str, str] = {"Relaydeck-Min-Revision": str(revision)} if revision else {}
        port = self._replicas[number % self.count].port
        return ask(port, method, path, body, token=token or self.token, headers=headers)

    def restart(self, number: int, skew: float = 0.0) -> None:
        """Kill it if it runs, and start it with a clock that is wrong by `skew` seconds."""
        replica = self._replicas[number % self.count]
        if replica.starts:
            replica.kill()
        replica.set_environment(PYTHONPATH=str(_SKEWED), SKEW_SECONDS=str(skew))
        replica.start_unless_running()
        self._await(replica)

    def restart_database(self, *, crash: bool) -> None:
        if self._server is None:
            return
        self._server.crash() if crash else self._server.stop()
        self._server.start()
        self._await_all()

    def fail_over(self) -> None:
        """The primary crashes and its standby is promoted; then there is a standby again."""
        assert self._server is not None
        self._server.fail_over()
        self._await_all()
        self._server.restore_standby()

    def _await_all(self) -> None:
        for each in self._replicas:
            self._await(each)

    def _await(self, replica: Replica) -> None:
        deadline = time.monotonic() + _LONGEST_START
        while not (replica.ready and self._reaches_the_database(replica)):
            assert time.monotonic() < deadline, replica.log[-2000:]
            time.sleep(0.02)

    def _reaches_the_database(self, replica: Replica) -> bool:
        """Lists would be answered from memory; the admin API reads the database."""
        return ask(replica.port, "GET", "/admin/v1/audit/head", token=self.token).status == 200

    def end(self) -> None:
        for each in self._replicas:
            each.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
