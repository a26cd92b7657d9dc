"""The rate limit admits exactly what its settings allow, in one process and between processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relaydeck.http.ratelimit import Allowance, RateLimiter
from tests.support.running import Running, clean_environment, pipes
from tests.support.seeding import fill, issue, relayer

SECOND = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 5 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "limits"


def admitted(limiter: RateLimiter, times: int, slot: int = 1) -> int:
    return sum(limiter.take(slot)[0] for _ in range(times))


def test_the_burst_is_admitted_and_no_more(table: Path, clock: Clock) -> None:
    assert admitted(RateLimiter(table, 7, 20, clock), 1000) == 20


@pytest.mark.parametrize("rate", [1, 3, 7, 100, 999_983])
def test_exactly_the_rate_is_admitted_each_second_after_the_burst(table: Path, clock: Clock, rate: int) -> None:
    limiter = RateLimiter(table, rate, 5, clock)
    admitted(limiter, 5)
    counted = 0
    steps = min(rate * 4, 5000)
    for step in range(1, steps + 1):
        clock.now = 5 * SECOND + step * SECOND // steps
        counted += admitted(limiter, 2 if rate <= steps else rate // steps + 2)
        if rate > 5000:
            break
    assert counted == (rate if rate <= 5000 else 5)


def test_what_remains_is_a_whole_number(table: Path, clock: Clock) -> None:
    limiter = RateLimiter(table, 2, 4, clock)
    admitted(limiter, 4)
    clock.now += SECOND * 5 // 4  # two and a half requests
    assert limiter.take(1) == (True, 1, 2, 0)


def test_a_request_is_admitted_at_the_nanosecond_its_turn_comes(table: Path, clock: Clock) -> None:
    limiter = RateLimiter(table, 3, 1, clock)
    limiter.take(1)
    clock.now += SECOND // 3  # a third of a second, rounded down
    early = limiter.take(1)[0]
    clock.now += 1
    assert (early, limiter.take(1)[0]) == (False, True)


def test_a_rest_fills_the_bucket_up_to_the_burst_alone(table: Path, clock: Clock) -> None:
    limiter = RateLimiter(table, 10, 4, clock)
    admitted(limiter, 10)
    clock.now += 1000 * SECOND
    assert admitted(limiter, 100) == 4


def test_a_refusal_takes_nothing(table: Path, clock: Clock) -> None:
    limiter = RateLimiter(table, 1, 1, clock)
    admitted(limiter, 50)
    clock.now += SECOND
    assert limiter.take(1)[0] is True


def test_a_second_user_of_the_table_continues_where_a_lone_one_left_a_full_bucket(table: Path, clock: Clock) -> None:
    first = RateLimiter(table, 7, 20, clock)
    for _ in range(3):
        clock.now += SECOND
        assert first.take(1) == (True, 19, 1, 0)
    second = RateLimiter(table, 7, 20, clock)
    assert admitted(second, 100) == 19
    clock.now += SECOND
    assert admitted(first, 100) == 7


def test_requests_with_an_allowance_of_their_own_count_for_the_common_one(table: Path, clock: Clock) -> None:
    limiter, own = RateLimiter(table, 1, 10, clock), Allowance(1, 10)
    assert admitted(limiter, 1) == 1  # of a full bucket
    clock.now += 5 * SECOND
    assert sum(limiter.take(1, own)[0] for _ in range(20)) == 10
    assert admitted(limiter, 20) == 0


def test_slots_are_apart(table: Path, clock: Clock) -> None:
    limiter = RateLimiter(table, 1, 3, clock)
    assert [admitted(limiter, 10, slot) for slot in (1, 2, 4095, 4096, 70_000)] == [3] * 5


def test_a_slot_past_the_table_is_seen_by_other_users_of_it(table: Path, clock: Clock) -> None:
    ours, theirs = RateLimiter(table, 1, 3, clock), RateLimiter(table, 1, 3, clock)
    assert (admitted(ours, 2, 70_000), admitted(theirs, 5, 70_000)) == (2, 1)


def test_the_table_grows_by_steps_of_4096_slots(table: Path, clock: Clock) -> None:
    limiter = RateLimiter(table, 1, 3, clock)
    sizes = []
    for slot in (1, 4096, 8191):
        limiter.take(slot)
        sizes.append(table.stat().st_size // (4096 * 2 * 8))
    assert sizes == [1, 2, 2]


def test_the_file_that_counts_users_is_readable_by_its_owner_alone(table: Path, clock: Clock) -> None:
    RateLimiter(table, 1, 3, clock)
    assert table.with_suffix(".users").stat().st_mode & 0o777 == 0o600


def test_a_clock_that_began_anew_finds_a_full_bucket(table: Path, clock: Clock) -> None:
    admitted(RateLimiter(table, 1, 3, clock), 10)
    clock.now = 1
    assert admitted(RateLimiter(table, 1, 3, clock), 10) == 3


@pytest.mark.parametrize(
    ("taken", "decision"),
    [(0, (True, 3, 1, 0)), (1, (True, 2, 1, 0)), (3, (True, 0, 2, 1)), (4, (False, 0, 2, 1))],
)
def test_the_verdict_tells_what_remains_and_how_long_to_wait(
    table: Path, clock: Clock, taken: int, decision: tuple[bool, int, int, int]
) -> None:
    limiter = RateLimiter(table, 2, 4, clock)
    admitted(limiter, taken)
    assert limiter.take(1) == decision


def test_the_largest_settings_are_counted(table: Path, clock: Clock) -> None:
    limiter = RateLimiter(table, 1_000_000_000, 1_000_000_000, clock)
    limiter.take(1)
    clock.now += 86_400 * SECOND
    assert limiter.take(1)[:2] == (True, 999_999_999)


@settings(max_examples=60, deadline=None)
@given(
    rate=st.integers(1, 1000),
    burst=st.integers(1, 50),
    pauses=st.lists(st.integers(0, SECOND), min_size=1, max_size=150),
)
def test_no_span_of_time_admits_more_than_burst_and_rate_times_it(
    tmp_path_factory: pytest.TempPathFactory, rate: int, burst: int, pauses: list[int]
) -> None:
    clock = Clock()
    limiter = RateLimiter(tmp_path_factory.mktemp("limits") / "limits", rate, burst, clock)
    moments = []
    for pause in pauses:
        clock.now += pause
        if limiter.take(1)[0]:
            moments.append(clock.now)
    for first in range(len(moments)):
        for last in range(first, len(moments)):
            assert (last - first + 1 - burst) * SECOND <= (moments[last] - moments[first]) * rate


@settings(max_examples=60, deadline=None)
@given(rate=st.integers(1, 100_000), burst=st.integers(1, 5), requests=st.integers(1, 200))
def test_a_steady_client_at_the_rate_is_never_refused(
    tmp_path_factory: pytest.TempPathFactory, rate: int, burst: int, requests: int
) -> None:
    clock = Clock()
    limiter = RateLimiter(tmp_path_factory.mktemp("limits") / "limits", rate, burst, clock)
    for number in range(requests):
        clock.now = 5 * SECOND + number * -(-SECOND // rate)  # a whole number of nanoseconds between two
        assert limiter.take(1)[0]


HAMMER = """
import sys
from pathlib import Path
from relaydeck.http.ratelimit import Allowance, RateLimiter
limiter = RateLimiter(Path(sys.argv[1]), 1000, int(sys.argv[2]), lambda: 5_000_000_000)
print("ready", flush=True)
sys.stdin.readline()
print(sum(limiter.take(1)[0] for _ in range(int(sys.argv[3]))))
"""


def hammer(table: Path, burst: int, times: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HAMMER, str(table), str(burst), str(times)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(table.parent),
    )


def begin(*processes: "subprocess.Popen[str]") -> None:
    for process in processes:
        assert pipes(process)[1].readline() == "ready\n"
    for process in processes:
        asked, _ = pipes(process)
        asked.write("\n")
        asked.flush()


def test_processes_that_hammer_one_table_are_admitted_exactly_the_burst(table: Path) -> None:
    processes = [hammer(table, 5000, 4000) for _ in range(4)]
    begin(*processes)
    assert sum(int(process.communicate(timeout=60)[0]) for process in processes) == 5000


def test_a_process_killed_in_the_middle_does_not_wedge_the_others(table: Path) -> None:
    killed, stays = hammer(table, 1000, 1_000_000_000), hammer(table, 1000, 20_000)
    begin(killed, stays)
    killed.send_signal(signal.SIGKILL)
    killed.wait(60)
    admitted_to_it = int(stays.communicate(timeout=60)[0])
    for pipe in pipes(killed):
        pipe.close()
    assert 0 <= admitted_to_it <= 1000


def test_a_process_killed_while_it_holds_the_lock_lets_go_of_it(table: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, os, sys, time\n"
            "fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)\n"
            "print('held', flush=True)\n"
            "time.sleep(600)",
            str(table),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(60)
    holder.stdout.close()
    assert admitted(RateLimiter(table, 1, 3), 3) == 3


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Two workers, fifty at once, one a second."""
    home = tmp_path_factory.mktemp("workers") / "home"
    fill(home, relayers=[relayer("one")])
    with Running(
        home, "--workers", "2", token=issue(home), rate_limit_per_second="1", rate_limit_burst="50"
    ) as running:
        yield running


def statuses(running: Running, token: str, clients: int, each: int) -> list[int]:
    """What many clients at once are answered, each on connections of its own."""
    answered: list[int] = []

    def ask() -> None:
        for _ in range(each):
            answered.append(running.ask("GET", "/api/v1/relayers", token=token).status)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answered


def test_two_workers_admit_exactly_the_burst_and_what_the_time_adds(served: Running) -> None:
    began = time.monotonic()
    answered = statuses(served, issue(served.home, "hammer"), 8, 25)
    taken = time.monotonic() - began
    assert set(answered) == {200, 429}
    assert 50 <= answered.count(200) <= 50 + taken


def test_a_client_that_is_refused_does_not_hinder_another(served: Running) -> None:
    statuses(served, issue(served.home, "greedy"), 4, 25)
    assert set(statuses(served, issue(served.home, "modest"), 2, 10)) == {200}
