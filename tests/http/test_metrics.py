"""Metrics: no count is lost, however many processes there are and whatever they count; and each one is documented."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest

from pages import metrics as metrics_page
from relaydeck.http.access_log import AccessLog
from relaydeck.http.metric_counts import Metrics, Writes, allocate, read_writes, remove_abandoned
from relaydeck.http.metrics import (
    CREATED_BYTES,
    CREATED_RECORDS,
    DATABASE_CLOCK_AHEAD,
    DATABASE_CONNECTIONS,
    DATABASE_CONNECTIONS_LIMIT,
    DELIVERIES_DEAD,
    DELIVERIES_PENDING,
    DISK_FREE,
    ESTIMATE_SECONDS,
    EVENTS,
    LAST_BACKUP,
    LIMITS_ALONE,
    LOADING,
    LOG_LINES_DROPPED,
    LOWEST_RUNWAY,
    MASTER_KEY_AWAY,
    METRICS,
    MIGRATING,
    MONITOR_LAG,
    RECORD_BYTES,
    RECORDS,
    RELAYERS,
    WORKERS,
)
from relaydeck.http.pipeline import Call
from relaydeck.http.request import ClientAddress
from relaydeck.log import Log
from relaydeck.notifications.delivery_queries import COUNT_LIMIT
from relaydeck.settings.model import Settings
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.postgres import OPENING_LOCK
from relaydeck.worker.health_routes import HealthRoutes, Readiness
from relaydeck.worker.open_routes import StoredMetrics, home_metrics
from tests.support import shapes
from tests.support.places import place_of
from tests.support.running import Running, run_command
from tests.support.seeding import fill, issue, opened, relayer

SIGNER = json.dumps(shapes.request("plain")).encode()
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
    assert metrics_page.PAGE.read_text("utf-8") == metrics_page.page(), "run 'make docs'"


def test_every_metric_is_on_the_page_with_its_meaning() -> None:
    rows = [line for line in metrics_page.page().splitlines() if line.startswith("| `relaydeck_")]
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


async def test_readiness_says_how_many_records_workers_still_load(path: Path) -> None:
    for worker in (claimed(path), claimed(path)):
        worker.set(LOADING, 30_000)
    (_, readiness) = await probe(Metrics(path))
    assert readiness == (200, b"ready, loading 60000 records into memory\n")


async def test_readiness_says_that_a_start_would_fail(path: Path) -> None:
    claimed(path).set(MASTER_KEY_AWAY, 1)
    (_, readiness) = await probe(Metrics(path))
    assert readiness == (200, b"ready; a start would fail: the master key cannot be read again\n")


def test_a_worker_that_died_while_it_started_neither_counts_as_alive_nor_as_silent(path: Path) -> None:
    """It may be replaced a minute later."""
    now = [1000.0]
    running, died = claimed_at(path, now), claimed_at(path, now)
    died.start()
    running.set(WORKERS, 1)
    died.set(WORKERS, 1)
    died.close()  # its process is gone, and the lock of its row with it
    parent = Metrics(path, lambda: now[0])
    assert parent.a_worker_lives(5)
    parent.count_death("memory")
    assert not parent.a_worker_lives(5)
    found = samples(parent)
    assert (found['relaydeck_worker_restarts_total{reason="memory"}'], found["relaydeck_workers"]) == ("1", "1")
    running.beat()
    now[0] += 3
    assert (parent.a_worker_lives(5), parent.silent_workers(10)) == (True, 0)


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
    metrics.observe(ESTIMATE_SECONDS, [2_000_000], "failed")
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


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_what_was_created_is_counted_by_creator_and_kind(home: Path, engine: str, lend: object) -> None:
    lend(home, engine)  # type: ignore[operator]
    token = issue(home, "greedy", "admin")
    hook = {"type": "webhook", "url": "https://hooks.example.com/path", "signing_key": "k" * 100}
    with Running(home, token=token) as running:
        for _ in range(3):
            assert running.ask("POST", "/api/v1/signers", SIGNER).status == 201
        assert running.ask("POST", "/admin/v1/notifications", {"id": "pager", **hook}).status == 201
        text = running.ask("GET", "/metrics").body.decode()
    assert 'relaydeck_created_records{actor="token:greedy",kind="signers"} 3\n' in text
    assert 'relaydeck_created_records{actor="token:greedy",kind="notifications"} 1\n' in text
    found = dict(re.findall(r'relaydeck_created_bytes{actor="token:greedy",kind="(\w+)"} (\d+)\n', text))
    of_all = dict(re.findall(r'relaydeck_record_bytes{kind="(\w+)"} (\d+)\n', text))
    assert found.keys() == {"signers", "notifications"}
    assert found == {kind: of_all[kind] for kind in found}  # nobody else created one
    assert int(found["notifications"]) > len(hook["url"]) + len(hook["signing_key"])


async def test_what_is_counted_by_creator_is_bounded(home: Path) -> None:
    with opened(home) as store:
        log = AuditLog(store.vault)
        with store.database.transaction() as transaction:
            entries = [
                AuditEntry(int(time.time()), f"token:{name}", f"{kind}.created", "gone", None, "{}")
                for name in range(30)
                for kind in ("signer", "relayer")
            ]
            log.append(transaction, entries)
        counted = await StoredMetrics(store, ()).count()
    assert (len(counted[CREATED_RECORDS]), len(counted[CREATED_BYTES])) == (50, 50)  # type: ignore[arg-type]


async def test_stored_records_and_their_bytes_are_counted_by_kind(home: Path) -> None:
    fill(home, notifications={"pager": None}, relayers=[relayer("r1"), relayer("r2")])
    issue(home, "me")
    with opened(home) as store:
        found = await StoredMetrics(store, ()).count()
        (row,) = store.database.read("SELECT id, open_config, sealed_config FROM signers")
    assert found[RECORDS] == {
        ("networks",): 1,
        ("signers",): 1,
        ("notifications",): 1,
        ("relayers",): 2,
        ("tokens",): 1,
    }
    sizes = found[RECORD_BYTES]
    assert isinstance(sizes, Mapping)
    assert (sizes["tokens",], sizes["signers",]) == (len("me"), sum(map(len, row)))


# The machine and the database server


def test_the_disk_with_the_least_space_counts(tmp_path: Path) -> None:
    assert home_metrics(Settings(home=tmp_path))[DISK_FREE]
    elsewhere = Settings(home=tmp_path, database_url=DatabaseUrl("sqlite:////proc/relaydeck.db"))
    assert home_metrics(elsewhere)[DISK_FREE] == 0  # that of the kernel has none


def test_the_last_backup_is_the_one_that_was_kept(home: Path, tmp_path: Path) -> None:
    settings = Settings(home=home)
    fill(home)
    for words, is_recorded in (("drill",), False), (("create", str(tmp_path / "backup")), True):
        assert run_command(home, "backup", *words).returncode == 0
        assert (home_metrics(settings)[LAST_BACKUP] != 0) == is_recorded
    os.utime(settings.last_backup_path, (1e9, 1e9))
    assert home_metrics(settings)[LAST_BACKUP] == 1e9


def test_a_backup_that_cannot_be_recorded_says_so(home: Path, tmp_path: Path) -> None:
    fill(home)
    (home / "last-backup").symlink_to(tmp_path / "missing" / "file")
    done = run_command(home, "backup", str(tmp_path / "backup"))
    assert (done.returncode, "relaydeck_last_backup_timestamp_seconds stays as it is" in done.stderr) == (0, True)


def test_readiness_is_a_metric(service: Running) -> None:
    assert b"\nrelaydeck_ready 1\n" in service.ask("GET", "/metrics").body


@pytest.fixture
def server(home: Path, lend: Callable[[Path, str], Path]) -> str:
    where = place_of(lend(home, "postgresql"))
    assert isinstance(where, DatabaseUrl)
    return where.reveal()


async def test_the_nearest_limit_on_connections_counts(home: Path, server: str) -> None:
    with opened(home) as store, closing(psycopg.connect(server, autocommit=True)) as operator:
        stored = StoredMetrics(store, ())
        found = await stored.count()
        assert found[DATABASE_CONNECTIONS_LIMIT] == 197  # the server's 200 without the three that are reserved
        name = operator.info.dbname
        operator.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 9".encode())
        (own,) = operator.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [name]).fetchone() or ()
        found = await stored.count()
        operator.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1".encode())
        assert (found[DATABASE_CONNECTIONS], found[DATABASE_CONNECTIONS_LIMIT]) == (own, 9)


async def test_a_migration_is_seen_while_it_locks_what_is_counted(home: Path, server: str) -> None:
    with opened(home) as store, closing(psycopg.connect(server)) as migration:
        stored = StoredMetrics(store, ())
        found = await stored.count()
        assert (found[MIGRATING], EVENTS in found) == (0, True)
        migration.execute("SELECT pg_advisory_xact_lock(%s)", [OPENING_LOCK])
        migration.execute("LOCK TABLE deliveries IN ACCESS EXCLUSIVE MODE")
        found = await stored.count()
        assert (found[MIGRATING], EVENTS in found) == (1, False)
        migration.rollback()
        found = await stored.count()
        assert (found[MIGRATING], EVENTS in found) == (0, True)


async def test_the_clock_of_the_server_is_compared(home: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(home) as store:
        stored = StoredMetrics(store, ())
        assert await seconds_ahead(stored) == pytest.approx(0, abs=2)
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + 7200)  # the clock of this machine
        assert await seconds_ahead(stored) == pytest.approx(-7200, abs=2)


async def seconds_ahead(stored: StoredMetrics) -> float:
    found = (await stored.count())[DATABASE_CLOCK_AHEAD]
    assert isinstance(found, dict)
    return float(found[()])


# Whether writes work


def test_writes_work_when_they_do_in_every_worker_that_knows(path: Path) -> None:
    now = [1000.0]
    one, other, starting = (claimed_at(path, now) for _ in range(3))
    starting.start()
    for worker, written_at in ((one, 990.0), (other, 995.0)):
        worker.beat()
        worker.set_writes(written_at, "")
    assert starting.writes() == Writes("", 10)
    other.set_writes(995.0, "disk_full")
    assert starting.writes() == Writes("disk_full", 10)
    found = samples(starting)
    assert (found["relaydeck_writes_ok"], found["relaydeck_writes_last_success_seconds"]) == ("0", "10")


def test_of_a_file_of_another_version_or_of_a_service_that_ended_nothing_is_read(path: Path) -> None:
    worker = claimed(path)
    worker.beat()
    worker.set_writes(None, "disk_full")
    assert read_writes([path]) == Writes("disk_full", None)
    kept = path.read_bytes()
    with path.open("r+b") as file:
        file.write(bytes(8))
    assert read_writes([path]) == Writes("unknown", None)
    worker.close()
    path.write_bytes(kept)
    assert read_writes([path]) == Writes("unknown", None)


def test_a_worker_that_is_stopped_says_nothing_about_the_database(path: Path) -> None:
    """`/readyz` reports the worker."""
    now = [1000.0]
    stopped, other = (claimed_at(path, now) for _ in range(2))
    for worker in (stopped, other):
        worker.beat()
        worker.set_writes(now[0], "")
    now[0] += 31
    other.beat()
    other.set_writes(now[0], "")
    assert other.writes() == Writes("", 0)
    stopped.beat()
    assert other.writes() == Writes("timeout", 31)
    now[0] += 11
    assert other.writes() == Writes("no_worker", 42)
    assert samples(other)["relaydeck_writes_ok"] == "0"
