"""The log: what its reader finds after it has fallen behind, and while something else is down."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from relaydeck.http.metric_counts import Metrics, allocate
from relaydeck.log import Log
from relaydeck.settings.model import read_settings
from relaydeck.worker.worker import Worker
from tests.conftest import DEMO
from tests.support.held_loop import Caller
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.postgres_faults import exhausted
from tests.support.running import clean_environment, run_command
from tests.support.seeding import issue
from tests.support.steady_loop import skip

LINES = 40
LONG = "x" * 1_000_000  # the queue holds eight megabytes


def test_a_line_of_text_leaves_out_what_has_no_value() -> None:
    read_end, write_end = os.pipe()
    Log(as_json=False, descriptor=write_end).event("info", "happened", status=None, problem="", tries=0)
    with open(read_end, "rb") as reader:
        line = reader.readline().decode()
    os.close(write_end)
    assert line.partition(" ")[2] == "info happened tries=0\n"


def test_a_reader_that_recovers_is_told_how_many_lines_were_dropped() -> None:
    read_end, write_end = os.pipe()
    log, dropped = Log(as_json=True, descriptor=write_end), list[int]()
    log.dropped = dropped.append
    log.write_in_thread()
    for number in range(LINES):
        log.event("info", LONG, number=number)
    kept = LINES - sum(dropped)
    with open(read_end, "rb") as reader:
        found = [json.loads(reader.readline()) for _ in range(kept + 1)]
    os.close(write_end)
    assert [line["number"] for line in found if line["event"] == LONG] == list(range(kept))
    notes = [(line["level"], line["lines"]) for line in found if line["event"] == "log lines were dropped"]
    assert (notes, 0 < kept < LINES) == ([("warning", LINES - kept)], True)


class ReadLog:
    """The log of a worker in this process, and its lines so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.file = path.open("wb")
        self.log = Log(as_json=True, descriptor=self.file.fileno())
        self.log.write_in_thread(asyncio.get_running_loop())

    def lines(self) -> list[dict[str, Any]]:
        """All of them: the log is closed."""
        self.log.close()
        return [json.loads(line) for line in self._path.read_text("utf-8").splitlines()]


@pytest.fixture
async def written(tmp_path: Path) -> AsyncIterator[ReadLog]:
    found = ReadLog(tmp_path / "log")
    yield found
    found.log.close()
    found.file.close()


async def pass_time(seconds: int) -> None:
    for _ in range(seconds):
        skip(1)
        await asyncio.sleep(0)


async def test_a_cause_has_one_line_a_minute_with_the_number_of_its_repetitions(written: ReadLog) -> None:
    for second in range(150):
        failure = f"away for {second} seconds: nothing answers on port 5432"
        written.log.event("error", "a request failed", request_id=f"{second:x}", reason=failure)
        await pass_time(1)
    first, *later = written.lines()  # the last one when the log was closed
    assert (first["request_id"], "repeated" in first) == ("0", False)
    assert (len(later), sum(line["repeated"] for line in later), later[-1]["request_id"]) == (3, 149, f"{149:x}")


async def test_a_cause_that_is_over_is_no_line_and_its_next_occurrence_is_one(written: ReadLog) -> None:
    for _ in range(2):
        written.log.event("warning", "a server is away", server="one")
        await pass_time(61)
    assert ["repeated" in line for line in written.lines()] == [False, False]


async def test_more_causes_than_are_remembered_are_written_at_once(written: ReadLog) -> None:
    log = written.log
    for _ in range(2):
        for number in range(1100):
            log.event("warning", "a receiver fails", receiver=f"r{number}")
    log.close()
    lines = written.lines()
    assert len([line for line in lines if "repeated" not in line]) == 1000 + 2 * 100
    assert len([line for line in lines if "repeated" in line]) == 1000


async def test_other_causes_have_lines_of_their_own(written: ReadLog) -> None:
    for _ in range(3):
        for server in ("one-1", "one-2"):
            written.log.event("warning", "a server is away", server=server, milliseconds=7)
        written.log.event("warning", "a relayer is disabled", cause="the node is away", relayer="r1")
        written.log.event("warning", "a relayer is disabled", cause="the node is away", relayer="r2")
        written.log.event("info", "a server is back", server="one-1")
    told = [
        (each["event"], each.get("server") or each.get("relayer"), each.get("repeated")) for each in written.lines()
    ]
    back = ("a server is back", "one-1", None)
    assert told == [
        ("a server is away", "one-1", None),
        ("a server is away", "one-2", None),
        ("a relayer is disabled", "r1", None),
        *(back, back, back),
        ("a server is away", "one-1", 2),
        ("a server is away", "one-2", 2),
        ("a relayer is disabled", "r2", 5),
    ]


async def test_a_thread_may_log_beside_the_event_loop(written: ReadLog) -> None:
    await asyncio.to_thread(written.log.event, "warning", "from a thread")
    await asyncio.sleep(0)
    assert [line["event"] for line in written.lines()] == ["from a thread"]


@pytest.fixture
def crowded_postgres() -> Iterator[PostgresServer]:
    """All of its connections can be in use."""
    server = PostgresServer("max_connections=20")
    yield server
    server.remove()


async def test_exhausted_connections_of_the_database_are_one_line_a_minute_for_each_cause(
    written: ReadLog, home: Path, crowded_postgres: PostgresServer
) -> None:
    choose(home, crowded_postgres.url(crowded_postgres.fresh()))
    token, metrics = issue(home, "root", "admin"), home / "metrics"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    allocate(metrics, 1)
    settings = read_settings(clean_environment(home, monitor_interval_seconds="1", signer_check_seconds="1"))
    worker, statuses = Worker(settings, written.log, Metrics(metrics)), Counter[int]()
    caller = Caller(worker, token)
    with exhausted(crowded_postgres):
        for number in range(118):  # half seconds
            statuses[await caller.post_json("/admin/v1/signers", _signer(number))] += 1
            skip(0.5)
        await asyncio.sleep(0)
    await worker.stop()
    failed = [line for line in written.lines() if line["level"] in ("warning", "error")]
    lines = Counter((line["event"], line.get("reason"), line.get("problem")) for line in failed if "last" not in line)
    assert (set(lines.values()), statuses[500] > 100, len(lines) > 1) == ({1}, True, True), (lines, statuses)
    repeated = {line["event"]: line["repeated"] for line in failed if "last" in line}
    assert repeated["a request failed: run 'relaydeck doctor' to check disk and database"] > 90


def _signer(number: int) -> bytes:
    return json.dumps({"id": f"s{number}", "type": "plain", "config": {"key": "11" * 32}}).encode()
