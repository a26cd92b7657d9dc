"""The script that a limit server runs takes from a bucket exactly as the table of one machine does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

import relaydeck.http
from relaydeck.http.ratelimit import RateLimiter
from relaydeck.http.shared_limits import decisions_for
from tests.support.valkey import Valkey

SCRIPT = Path(relaydeck.http.__file__).with_name("shared_limit.lua").read_text("utf-8")
MICROSECOND, SECOND = 1_000, 1_000_000_000
ONE = 1_000_000
LARGEST = 1_000_000_000


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = Valkey(tmp_path_factory.mktemp("valkey"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def client(valkey: Valkey) -> Iterator[redis.Redis]:
    with redis.Redis(port=valkey.port) as client:
        yield client


@pytest.fixture(autouse=True)
def empty(client: redis.Redis) -> None:
    client.flushall()


def levels(client: redis.Redis, rate: int, burst: int, asked: dict[str, int], now: int | None = None) -> list[int]:
    moment = [] if now is None else [now]
    found: list[int] = client.eval(SCRIPT, len(asked), *asked, rate, burst, *asked.values(), *moment)
    return found


class Clock:
    def __init__(self) -> None:
        self.now = 5 * SECOND

    def __call__(self) -> int:
        return self.now


Schedule = list[tuple[int, int]]  # microseconds of pause, how many ask then


@settings(max_examples=150, deadline=None)
@given(
    rate=st.one_of(st.integers(1, 1000), st.integers(1, LARGEST)),
    burst=st.one_of(st.integers(1, 50), st.integers(1, LARGEST)),
    schedule=st.lists(
        st.tuples(
            st.one_of(st.integers(0, 2000), st.integers(0, 3_000_000), st.integers(0, 10**15)), st.integers(1, 30)
        ),
        min_size=1,
        max_size=20,
    ),
)
def test_it_gives_what_the_table_of_one_machine_gives(
    client: redis.Redis, tmp_path_factory: pytest.TempPathFactory, rate: int, burst: int, schedule: Schedule
) -> None:
    client.flushall()
    clock = Clock()
    table = RateLimiter(tmp_path_factory.mktemp("limits") / "limits", rate, burst, clock)
    for pause, asking in schedule:
        clock.now += pause * MICROSECOND
        level = lasting_level(client, rate, burst, asking, clock.now // MICROSECOND)
        assert list(decisions_for(level, asking, rate, burst)) == [table.take(1) for _ in range(asking)]


def lasting_level(client: redis.Redis, rate: int, burst: int, asking: int, now: int) -> int:
    """In one transaction with the bucket's persistence: the moment is ours, but its expiry would be the server's."""
    with client.pipeline(transaction=True) as together:
        together.eval(SCRIPT, 1, "b", rate, burst, asking, now)
        together.persist("b")
        level: int = together.execute()[0][0]
        return level


def test_buckets_asked_for_together_are_apart(client: redis.Redis) -> None:
    levels(client, 1, 5, {"b": 2}, ONE)
    assert levels(client, 1, 5, {"a": 9, "b": 1, "c": 1}, ONE) == [5 * ONE, 3 * ONE, 5 * ONE]


def test_no_more_is_taken_than_there_is(client: redis.Redis) -> None:
    assert [levels(client, 1, 3, {"b": 100}, ONE)[0] for _ in range(2)] == [3 * ONE, 0]


def test_a_clock_that_was_set_back_refills_nothing_and_goes_on_from_there(client: redis.Redis) -> None:
    levels(client, 1, 3, {"b": 3}, 9 * ONE)
    assert [levels(client, 1, 3, {"b": 0}, now)[0] for now in (2 * ONE, 3 * ONE)] == [0, ONE]


def test_without_a_moment_the_clock_is_the_server_s(client: redis.Redis) -> None:
    levels(client, 1, 3, {"b": 1})
    (second, _), kept = client.time(), client.get("b")
    assert kept is not None
    assert abs(int(kept.split()[0]) // ONE - second) <= 1


@pytest.mark.parametrize(
    ("rate", "burst", "taken", "milliseconds"),
    [(1, 3, 3, 3001), (1000, 3, 1, 2), (7, 50, 1, 144), (1, LARGEST, 1, 1001), (LARGEST, 1, 1, 2)],
)
def test_a_bucket_lives_until_it_is_full(
    client: redis.Redis, rate: int, burst: int, taken: int, milliseconds: int
) -> None:
    """Told by the moment of its expiry, which the server sets by the time of the command."""
    levels(client, 1, 1, {"other": 1})
    began = int(client.eval("local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)", 0))
    script = SCRIPT.replace("return levels", "return redis.call('PEXPIRETIME', KEYS[1])")
    expires = int(client.eval(script, 1, "b", rate, burst, taken))
    ended = int(client.eval("local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)", 0))
    assert began + milliseconds <= expires <= ended + milliseconds


def test_a_bucket_from_which_nothing_was_taken_goes_at_once(client: redis.Redis, valkey: Valkey) -> None:
    levels(client, 1, 3, {"b": 0})
    assert client.pttl("b") <= 1
