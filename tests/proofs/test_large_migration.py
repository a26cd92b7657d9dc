"""A large database of an earlier version is migrated while replicas of that version serve and write.

No write waits for long, and `db migrate --plan` said before how long it takes. RELAYDECK_PROOF_RELAYERS=1000000 takes
more relayers than CI does.
"""

import json
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.proofs import fill
from tests.proofs.test_changes import STATE
from tests.support.lengths import times
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.running import ask
from tests.support.versions import TODAY, RunningVersion, environment_of, run_version

pytestmark = pytest.mark.prove

BEFORE = "cb1ec1f"
RELAYERS = times(30_000, short=10_000, setting="RELAYDECK_PROOF_RELAYERS")
LONGEST_GAP = 2.0  # seconds without a write
FACTOR, START = 2, 2.0  # of an estimate; seconds that a command takes to start on a busy machine
SETTINGS = {"monitor_interval_seconds": "0", "log_level": "warning"}


class Writer(threading.Thread):
    """Pauses and resumes a relayer, again and again; `written` is when each change was acknowledged."""

    def __init__(self, port: int, token: str, relayer: str, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._port, self._token, self._relayer, self._over = port, token, relayer, over
        self.written: list[float] = []
        self.refused: list[object] = []
        self.longest = 0.0

    def run(self) -> None:
        while not self._over.is_set():
            for change in ("resume", "pause"):
                began = time.monotonic()
                answer = ask(self._port, "POST", f"/admin/v1/relayers/{self._relayer}/{change}", token=self._token)
                self.written.append(time.monotonic())
                self.longest = max(self.longest, self.written[-1] - began)
                if answer.status != 200:
                    self.refused.append(answer)


def test_a_large_migration_lets_replicas_write(tmp_path: Path) -> None:
    server = PostgresServer("fsync=on", "full_page_writes=on", "autovacuum=on", "shared_buffers=128MB")
    homes = [tmp_path / "one", tmp_path / "two"]
    name = server.fresh()
    for home in homes:
        choose(home, server.url(name))
    try:
        settings = SETTINGS | {"master_key_file": str(homes[0] / "master.key")}
        run_version(BEFORE, homes[0], "apply", "-", stdin=STATE.format())
        token = run_version(BEFORE, homes[0], "token", "create", "root", "--kind", "admin").strip()
        filling = [sys.executable, fill.__file__, "dev", str(RELAYERS)]
        subprocess.run(filling, env=environment_of(BEFORE, homes[0]), check=True, timeout=7200)
        server.ask("ANALYZE", name)  # as the server does by itself, a minute later
        replicas = [RunningVersion(BEFORE, home, token=token, **settings) for home in homes]
        over = threading.Event()
        writers = [Writer(each.port, token, f"filled-{at}", over) for at, each in enumerate(replicas)]
        for writer in writers:
            writer.start()
        plan = json.loads(run_version(TODAY, homes[0], "db", "migrate", "--plan", "--json"))
        began = time.monotonic()
        migrated = json.loads(run_version(TODAY, homes[0], "db", "migrate", "--json"))
        ended = time.monotonic()
        over.set()
        for writer in writers:
            writer.join()
        with RunningVersion(TODAY, homes[1], token=token, **settings) as new:
            assert new.ask("GET", "/api/v1/relayers").json["pagination"]["total_items"] == RELAYERS
            assert new.ask("POST", "/admin/v1/relayers/filled-0/resume").status == 200
        assert replicas[0].ask("POST", "/admin/v1/relayers/filled-0/pause").status == 200
        assert [replica.stop() for replica in replicas] == [0, 0]
        local = server.ask("SELECT count(*) FROM signers WHERE set_locally AND id LIKE 'filled-%'", name)
        valid = server.ask("SELECT indisvalid FROM pg_index WHERE indexrelid = 'audit_console'::regclass", name)
    finally:
        server.remove()
    written = sorted([began, *(each for writer in writers for each in writer.written if began < each < ended), ended])
    gap = max(after - before for before, after in pairwise(written))
    longest = max(writer.longest for writer in writers)
    print(
        f"{RELAYERS} relayers: estimated {plan['seconds']} s, took {migrated['seconds']} s; {len(written) - 2} writes"
        f" meanwhile, longest gap {gap:.2f} s, longest write {longest:.2f} s; planned {plan['work']}"
    )
    assert [writer.refused for writer in writers] == [[], []]
    assert (local, valid, plan["beside_services"]) == ([(RELAYERS,)], [(True,)], True)
    assert gap < LONGEST_GAP
    assert plan["seconds"] < FACTOR * migrated["seconds"] + START
    assert migrated["seconds"] < FACTOR * plan["seconds"] + START
