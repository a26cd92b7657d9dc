"""A service that needs more memory than its cgroup may have says so while it loads, and ends with the reason."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from relaydeck.process.figures import own_process
from tests.support.running import COMMAND, ask, children, clean_environment, free_port, run_command
from tests.support.seeding import fill, relayer
from tests.test_serve import is_worker

pytestmark = pytest.mark.prove

RELAYERS = 200_000
LIMIT = 160_000_000  # enough for a service without records, and too little for one with these
SHARED = 60_000_000  # what a worker has in common with its parent
COPY = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {amount})
INSERT INTO relayers ({columns}) SELECT {copied} FROM relayers, numbers WHERE id = 'r'
"""


@pytest.fixture
def large_home(home: Path) -> Path:
    fill(home, relayers=[relayer("r")])
    with closing(sqlite3.connect(home / "relaydeck.db")) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(relayers)") if row[1] != "seq"]
        copied = ", ".join("'r' || n" if each == "id" else each for each in columns)
        connection.execute(COPY.format(amount=RELAYERS, columns=", ".join(columns), copied=copied))
    return home


@pytest.fixture
def group() -> Iterator[Path | None]:
    """A cgroup below that of this process. None where this user or this machine may not make one."""
    own = Path("/proc/self/cgroup").read_text()
    older = re.search(r"^\d+:memory:/(.*)$", own, re.MULTILINE)
    newer = re.search(r"^0::/(.*)$", own, re.MULTILINE)
    mount, name = ("memory", older[1]) if older else ("", newer[1] if newer else "")
    folder = Path("/sys/fs/cgroup", mount, name, f"relaydeck-{os.getpid()}")
    try:
        if not older:  # refused unless this is the topmost one: others with processes have none below them
            (folder.parent / "cgroup.subtree_control").write_text("+memory")
        folder.mkdir()
    except OSError:
        yield None
        return
    (folder / ("memory.limit_in_bytes" if older else "memory.max")).write_text(str(LIMIT))
    with suppress(OSError):  # without it a machine that swaps kills nothing
        (folder / ("memory.memsw.limit_in_bytes" if older else "memory.swap.max")).write_text(
            str(LIMIT if older else 0)
        )
    yield folder
    deadline = time.monotonic() + 60
    while (folder / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    folder.rmdir()


def kill_above_limit(service: int) -> None:
    """As a daemon does that watches the memory of processes, in place of a cgroup."""
    for worker in filter(is_worker, children(service)):
        with suppress(OSError):
            if own_process(Path(f"/proc/{worker}")).resident_bytes > LIMIT + SHARED:
                os.kill(worker, signal.SIGKILL)


def test_a_service_that_needs_more_memory_than_it_may_have_says_so_and_ends(
    large_home: Path, group: Path | None
) -> None:
    port, readiness, findings = free_port(), set[str](), list[dict[str, str]]()
    into_group = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"] if group else []
    log_path = large_home.parent / "log"
    with (
        log_path.open("wb") as log,
        subprocess.Popen(
            [*into_group, *COMMAND, "serve", "--port", str(port)],
            env=clean_environment(large_home, monitor_interval_seconds="0"),
            stderr=log,
            stdout=subprocess.DEVNULL,
        ) as service,
    ):
        deadline = time.monotonic() + 300
        while service.poll() is None:
            assert time.monotonic() < deadline, log_path.read_text()
            with suppress(OSError):
                readiness.add(ask(port, "GET", "/readyz", timeout=5).body.decode())
                findings = findings or json.loads(run_command(large_home, "doctor", "--json").stdout)
            if group is None:
                kill_above_limit(service.pid)
            time.sleep(0.05)
    lines = [json.loads(line) for line in log_path.read_text().splitlines()]
    died = [line for line in lines if "died_of" in line]
    assert service.returncode == 1
    memory = f": out of memory, in a cgroup with a limit of {LIMIT // 4096 * 4096} bytes" if group else ""
    assert {line["died_of"] for line in died} == {f"SIGKILL{memory}"}
    assert [line["deaths"] for line in died] == [1, 2, 3, 4, 5]
    assert died[-1]["event"] == "the workers do not stay alive: the service ends"
    assert {re.sub(r"\d+", "N", each) for each in readiness} == {"ready, loading N records into memory\n"}
    shown = [each["result"] for each in findings if "the kernel will kill workers" in each["remark"]]
    assert shown == (["FAIL"] if group else [])
