"""Metrics: no count is lost, however many processes there are and whatever they count; and each one is documented."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from relaydeck.http.access_log import AccessLog
from relaydeck.http.clients import ClientAddress
from relaydeck.http.health_routes import HealthRoutes, Readiness
from relaydeck.http.metric_counts import Metrics, allocate, remove_abandoned
from relaydeck.http.metrics import (
    DELIVERIES_DEAD,
    DELIVERIES_PENDING,
    ESTIMATE_SECONDS,
    EVENTS,
    LIMITS_ALONE,
    LOG_LINES_DROPPED,
    LOWEST_RUNWAY,
    METRICS,
    MONITOR_LAG,
    RECORDS,
    RELAYERS,
    WORKERS,
)
from relaydeck.http.metrics_page import metrics_page
from relaydeck.http.pipeline import Call
from relaydeck.log import Log
from relaydeck.notifications.deliveries import COUNT_LIMIT
from relaydeck.worker.stored_metrics import StoredMetrics
from tests.running import Running
from tests.seeding import fill, issue, opened, relayer

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "metrics.md"
HOLD_ROWS = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, int(sys.argv[2]), 0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics"


def claimed(path: Path) -> Metrics:
    metrics = Metrics(path)
    metrics.claim_row()
    return metrics


def samples(metrics: Metrics) -> dict[str, str]:
    rows = [line.rpartition(" ") for line in metrics.exposition().splitlines() if not line.startswith("#")]
    return {name: value for name, _, value in rows}


@contextmanager
def rows_held_by_others(path: Path, amount: int) -> Iterator[None]:
    """The first rows are locked, as by so many other processes."""
    Metrics(path)
    command = [sys.executable, "-c", HOLD_ROWS, str(path), str(amount)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield
        process.kill()


def test_a_process_beside_64_others_is_counted(path: Path) -> None:
    with rows_held_by_others(path, 64):
        metrics = claimed(path)
        metrics.requests("operations", 200, [1])
        assert samples(metrics)['relaydeck_requests_total{route="operations",status="200"}'] == "1"


def test_only_the_files_of_services_that_ended_are_removed(tmp_path: Path) -> None:
    ended, held = tmp_path / "metrics-4194305", tmp_path / "metrics-4194306"  # Linux gives no process such a number
    starting = tmp_path / f"metrics-{os.getpid()}"
    for path in (ended, held, starting):
        allocate(path, 2)
    with rows_held_by_others(held, 2):
        remove_abandoned([ended, held, starting, tmp_path / "metrics-4194307"])
        assert sorted(tmp_path.iterdir()) == sorted([held, starting])


def test_a_scrape_sees_rows_that_were_added_after_it_opened_the_file(path: Path) -> None:
    scraped = claimed(path)
    for _ in range(3):
        claimed(path).count(LOG_LINES_DROPPED)
    assert samples(scraped)["relaydeck_log_lines_dropped_total"] == "3"


def test_the_next_process_of_a_row_goes_on_counting_and_resets_its_gauges(path: Path) -> None:
    first = claimed(path)
    first.count(LOG_LINES_DROPPED, by=2)
    first.set(LIMITS_ALONE, 1)
    os.close(first._file)  # as when the process ends
    second = claimed(path)
    second.count(LOG_LINES_DROPPED)
    found = samples(second)
    assert (found["relaydeck_log_lines_dropped_total"], found["relaydeck_limits_alone"]) == ("3", "0")


def test_a_status_and_a_route_that_are_not_declared_are_counted_as_other(path: Path) -> None:
    metrics = claimed(path)
    metrics.requests("admin", 418, [1])
    metrics.requests("admin", 200, [1])
    metrics.requests("teapot", 200, [1])
    found = {name: value for name, value in samples(metrics).items() if name.startswith("relaydeck_requests_total")}
    assert found == {
        'relaydeck_requests_total{route="admin",status="200"}': "1",
        'relaydeck_requests_total{route="admin",status="other"}': "1",
        'relaydeck_requests_total{route="other",status="200"}': "1",
    }


def test_a_status_that_is_not_declared_costs_no_log_line(path: Path) -> None:
    read_end, write_end = os.pipe()
    loop = asyncio.new_event_loop()
    access_log = AccessLog(Log(as_json=True, descriptor=write_end), claimed(path), ClientAddress(()), loop)
    for status in (200, 418, 200):
        access_log.add((0.0, "admin", status, 1000, b"id", '"-"', None, None, "", 0))
    access_log.flush()
    loop.close()
    os.close(write_end)
    with open(read_end, "rb") as written:
        assert [json.loads(line)["status"] for line in written] == [200, 418, 200]


def test_a_metric_that_could_not_be_looked_up_is_left_out(path: Path) -> None:
    metrics = claimed(path)
    assert "relaydeck_events_total" not in metrics.exposition()
    assert "\nrelaydeck_events_total 7\n" in metrics.exposition({EVENTS: 7})


def test_the_page_of_metrics_is_current() -> None:
    assert PAGE.read_text("utf-8") == metrics_page(), "run 'make docs'"


def test_every_metric_is_on_the_page_with_its_meaning() -> None:
    rows = [line for line in metrics_page().splitlines() if line.startswith("| `relaydeck_")]
    assert len(rows) == len(METRICS) == len({metric.name for metric in METRICS})
    assert all(metric.help in row for metric, row in zip(METRICS, rows, strict=True))


@pytest.mark.parametrize("metric", [DELIVERIES_PENDING, DELIVERIES_DEAD], ids=lambda metric: metric.name)
def test_a_bounded_count_names_its_bound(metric: object) -> None:
    assert f"counted up to {COUNT_LIMIT}." in metric.help  # type: ignore[attr-defined]


# Workers that stop responding


async def probe(metrics: Metrics) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    """What `/healthz` and `/readyz` answer on a port that none of the workers serves."""

    async def ready() -> Readiness:
        return Readiness(True)

    routes = HealthRoutes(metrics, ready)
    call = Call("", {}, b"", b"", None)
    health, readiness = await routes.healthz(call), await routes.readyz(call)
    return (health.status, health.body), (readiness.status, readiness.body)


async def test_workers_that_no_longer_beat_are_seen_by_liveness_and_readiness(path: Path) -> None:
    now = [1000.0]
    workers = [Metrics(path, lambda: now[0]) for _ in range(2)]
    for worker in workers:
        worker.claim_row()
    observer = claimed_at(path, now)
    assert await probe(observer) == ((200, b"ok\n"), (200, b"ready\n"))  # none has started yet
    for worker in workers:
        worker.beat()
    now[0] += 11
    workers[0].beat()
    one = b"1 worker does not respond\n"
    assert await probe(observer) == ((200, b"ok\n"), (503, one))
    now[0] += 20
    workers[0].beat()
    assert await probe(observer) == ((503, one), (503, one))
    now[0] += 31
    two = b"2 workers do not respond\n"
    assert await probe(observer) == ((503, two), (503, two))
    for worker in workers:
        worker.beat()
    assert await probe(observer) == ((200, b"ok\n"), (200, b"ready\n"))


async def test_a_worker_that_does_not_finish_its_start_is_seen(path: Path) -> None:
    now = [1000.0]
    working, hanging = claimed_at(path, now), claimed_at(path, now)
    hanging.start()
    observer = claimed_at(path, now)
    assert not observer.a_worker_has_started
    now[0] += 599
    working.beat()
    assert observer.a_worker_has_started
    assert await probe(observer) == ((200, b"ok\n"), (200, b"ready\n"))
    now[0] += 2
    one = b"1 worker does not respond\n"
    assert await probe(observer) == ((503, one), (503, one))
    hanging.beat()
    assert await probe(observer) == ((200, b"ok\n"), (200, b"ready\n"))


async def test_a_worker_that_replaces_a_silent_one_takes_its_place(path: Path) -> None:
    now = [1000.0]
    ended = claimed_at(path, now)
    ended.beat()
    os.close(ended._file)  # its process is gone, and the lock of its row with it
    now[0] += 60
    claimed_at(path, now)
    assert Metrics(path, lambda: now[0]).silent_workers(10) == 0


def claimed_at(path: Path, now: list[float]) -> Metrics:
    metrics = Metrics(path, lambda: now[0])
    metrics.claim_row()
    return metrics


def test_a_metric_by_network_has_a_sample_for_each_and_escapes_its_name(path: Path) -> None:
    text = claimed(path).exposition({RELAYERS: {('a"b\\c\nd', "paused"): 2}, LOWEST_RUNWAY: {("dev",): 7}})
    assert '\nrelaydeck_relayers{network="a\\"b\\\\c\\nd",state="paused"} 2\n' in text
    assert '\nrelaydeck_lowest_runway_seconds{network="dev"} 7\n' in text


def test_of_some_gauges_the_largest_of_all_processes_counts(path: Path) -> None:
    one, other = claimed(path), claimed(path)
    for metrics, lag in ((one, 7), (other, 5)):
        metrics.set(MONITOR_LAG, lag)
        metrics.set(WORKERS, 1)
    found = samples(one)
    assert (found["relaydeck_monitor_lag_seconds"], found["relaydeck_workers"]) == ("7", "2")


def test_one_value_of_a_histogram_is_observed(path: Path) -> None:
    metrics = claimed(path)
    metrics.observe(ESTIMATE_SECONDS, 2_000_000, "failed")
    found = samples(metrics)
    assert found['relaydeck_estimate_seconds_bucket{outcome="failed",le="0.001"}'] == "0"
    assert found['relaydeck_estimate_seconds_bucket{outcome="failed",le="0.0025"}'] == "1"
    assert found['relaydeck_estimate_seconds_sum{outcome="failed"}'] == "0.002000000"


def test_a_relayer_that_the_setting_names_has_metrics_of_its_own(service: Running) -> None:
    page = service.ask("GET", "/metrics").body.decode()
    states = [line for line in page.splitlines() if line.startswith("relaydeck_relayer_state{")]
    assert [line.partition("} ")[0] for line in states] == [
        f'relaydeck_relayer_state{{network="sepolia",relayer="sepolia-1",state="{state}"'
        for state in ("paused", "disabled", "low_balance", "low_runway")
    ]


@pytest.mark.parametrize(("milliseconds", "counts"), [(5, 3), (10, 2)])
async def test_a_count_that_takes_long_is_kept_for_twenty_times_as_long(
    home: Path, milliseconds: int, counts: int
) -> None:
    used, now = count(0, milliseconds), [0.0]  # one more each time it is read
    with opened(home) as store:
        stored = StoredMetrics(store, (), monotonic=lambda: now[0], timer=lambda: next(used) / 1000)
        for now[0] in (0.0, 0.199, 0.2):
            assert EVENTS in await stored.count()
    assert next(used) == 2 * counts * milliseconds


async def test_stored_records_are_counted_by_kind(home: Path) -> None:
    fill(home, notifications={"pager": None}, relayers=[relayer("r1"), relayer("r2")])
    issue(home)
    with opened(home) as store:
        counted = (await StoredMetrics(store, ()).count())[RECORDS]
    assert counted == {("networks",): 1, ("signers",): 1, ("notifications",): 1, ("relayers",): 2, ("tokens",): 1}
