"""Two replicas with homes of their own and one Valkey: one limit between them, and what they do without it."""

import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from relaydeck.credentials.tokens import digest_of
from tests.support.running import Answer, Running, clean_environment, free_port, run_command
from tests.support.seeding import fill, relayer
from tests.support.valkey import Valkey

RELAYERS = "/api/v1/relayers"
BURST = 60


class Replicas:
    """Both know the same token. A fresh bucket is a Valkey that was emptied."""

    def __init__(self, folder: Path, valkey: Valkey, url: str, **settings: str) -> None:
        self.valkey = valkey
        self.token = secrets.token_urlsafe(40)
        token_file = folder / "token"
        token_file.write_text(self.token)
        given = {"rate_limit_per_second": "1", "rate_limit_burst": str(BURST), "limits_url": url}
        # A long time to answer: otherwise a busy machine would decide about these tests.
        given |= {"limits_timeout_seconds": "30"} | settings
        self.running: list[Running] = []
        for name, workers in (("one", "2"), ("two", "1")):
            home = folder / name
            fill(home, relayers=[relayer("one")])
            options = given | {"bootstrap_token_file": str(token_file)}
            self.running.append(Running(home, "--workers", workers, token=self.token, **options))

    def ask(self, replica: int) -> Answer:
        return self.running[replica].ask("GET", RELAYERS)

    def until_refused(self, replica: int) -> Answer:
        while (answer := self.ask(replica)).status == 200:
            pass
        return answer

    def share_a_bucket(self) -> bool:
        """Whether requests to one replica count for the other, however slow the machine is."""
        for _ in range(10):
            self.remaining(0)
        return self.remaining(1) < BURST - 1

    def remaining(self, replica: int) -> int:
        (found,) = re.findall(r"r=(\d+)", self.ask(replica).headers["ratelimit"])
        return int(found)

    def remaining_at_once(self, *replicas: int) -> list[int]:
        """What remains of a full bucket after one request to each of them, less than a second after the first.

        A bucket gains a request every second: on a machine that stalls, begin again.
        """
        for _ in range(100):
            self.valkey.ask("FLUSHALL")
            began = time.monotonic()
            found = [self.remaining(replica) for replica in replicas]
            if time.monotonic() - began < 1:
                return found
        raise AssertionError("no requests within a second")

    def alone(self, replica: int) -> int:
        """How many of a replica's workers limit by themselves."""
        page = self.running[replica].ask("GET", "/metrics").body.decode()
        (found,) = re.findall(r"^relaydeck_limits_alone (\d+)$", page, re.MULTILINE)
        return int(found)

    def await_alone(self, *expected: int) -> None:
        deadline = time.monotonic() + 60
        while [self.alone(replica) for replica in range(len(expected))] != list(expected):
            assert time.monotonic() < deadline, [running.log for running in self.running]
            time.sleep(0.02)

    def reported(self, event: str) -> list[int]:
        """How often each replica logged it. They are stopped first: a line may be a moment behind."""
        self.stop()
        return [running.log.count(event) for running in self.running]

    def stop(self) -> None:
        for running in self.running:
            running.stop()


@contextmanager
def replicas(folder: Path, valkey: Valkey, url: str, **settings: str) -> Iterator[Replicas]:
    both = Replicas(folder, valkey, url, **settings)
    try:
        yield both
    finally:
        both.stop()
        valkey.stop()


@pytest.fixture(scope="module")
def module_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    valkey = Valkey(folder)
    with replicas(folder, valkey, valkey.url) as both:
        both.await_alone(0, 0)
        yield both


@pytest.fixture
def both(module_scene: Replicas) -> Replicas:
    module_scene.valkey.ask("FLUSHALL")
    return module_scene


def test_two_replicas_admit_exactly_the_burst_and_what_the_time_adds(both: Replicas) -> None:
    answered: list[int] = []

    def ask(replica: int) -> None:
        for _ in range(20):
            answered.append(both.ask(replica).status)

    began = time.monotonic()
    threads = [threading.Thread(target=ask, args=(number % 2,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.monotonic() - began
    assert set(answered) == {200, 429}
    assert BURST <= answered.count(200) <= BURST + taken


def test_what_one_replica_admitted_is_missing_at_the_other(both: Replicas) -> None:
    assert both.remaining_at_once(0, 1, 1, 0) == [BURST - 1, BURST - 2, BURST - 3, BURST - 4]


def test_a_refusal_says_when_to_come_back(both: Replicas) -> None:
    both.until_refused(0)
    refused = both.until_refused(1)
    assert (refused.status, refused.headers["retry-after"], refused.json) == (
        429,
        "1",
        {"data": None, "message": "Too Many Requests", "success": False},
    )


def test_a_server_that_forgot_the_script_is_given_it_again(both: Replicas) -> None:
    both.ask(0)
    both.valkey.ask("SCRIPT", "FLUSH")
    assert (both.remaining_at_once(0, 1), both.alone(0)) == ([BURST - 1, BURST - 2], 0)


def test_a_bucket_expires_once_it_is_full(both: Replicas) -> None:
    for _ in range(BURST):
        both.ask(0)
    (bucket,) = both.valkey.ask("KEYS", "*")
    assert 0 < both.valkey.ask("PTTL", bucket) <= BURST * 1000 + 1


def test_the_server_is_told_neither_the_token_nor_its_digest(both: Replicas) -> None:
    for _ in range(BURST):  # the bucket expires once it is full
        both.ask(0)
    (bucket,) = both.valkey.ask("KEYS", "*")
    assert re.fullmatch(rb"\{relaydeck\}:limit:[0-9a-f]{32}", bucket)
    assert digest_of(both.token.encode()).hex()[:16].encode() not in bucket


def test_each_worker_holds_one_connection(both: Replicas) -> None:
    for _ in range(30):
        both.ask(0)
        both.ask(1)
    listed = both.valkey.ask("CLIENT", "LIST")
    connected = listed.splitlines() if isinstance(listed, bytes) else listed
    assert len(connected) == 3 + 1  # three workers and this client


@pytest.fixture
def breakable(tmp_path: Path) -> Iterator[Replicas]:
    valkey = Valkey(tmp_path)
    with replicas(tmp_path, valkey, valkey.url) as both:
        both.await_alone(0, 0)
        yield both


def test_without_the_server_each_replica_limits_by_itself_and_comes_back(breakable: Replicas) -> None:
    breakable.ask(0)
    breakable.valkey.stop()
    answered = [breakable.ask(replica).status for replica in (0, 1) for _ in range(BURST)]
    assert answered == [200] * 2 * BURST  # a bucket for each replica: the other's use does not show
    assert 429 in [breakable.ask(0).status for _ in range(BURST)]
    breakable.await_alone(2, 1)
    assert breakable.running[0].ask("GET", "/readyz").status == 200

    breakable.valkey.start()
    breakable.await_alone(0, 0)
    assert breakable.remaining_at_once(0, 1) == [BURST - 1, BURST - 2]
    assert breakable.reported(
        "the limit server cannot be used: this machine applies the limit by itself until it can"
    ) == [2, 1]
    assert breakable.reported("the limit server can be used again") == [2, 1]


def test_a_server_that_hangs_is_left_alone_until_it_answers(tmp_path: Path) -> None:
    valkey = Valkey(tmp_path)
    with replicas(tmp_path, valkey, valkey.url, limits_timeout_seconds="1") as both:
        both.ask(1)
        with valkey.frozen():
            assert [both.ask(1).status for _ in range(5)] == [200] * 5
            both.await_alone(0, 1)
        both.await_alone(0, 0)
        assert both.reported("it did not respond in time")[1] > 0  # on a busy machine also before it hangs


def test_a_read_only_replica_is_not_used_until_it_is_promoted(breakable: Replicas) -> None:
    breakable.valkey.ask("REPLICAOF", "127.0.0.1", free_port())
    assert [breakable.ask(replica).status for replica in (0, 1)] == [200, 200]
    breakable.await_alone(1, 1)
    breakable.valkey.ask("REPLICAOF", "NO", "ONE")
    breakable.await_alone(0, 0)
    assert breakable.reported("it is a read-only replica") == [1, 1]
    assert breakable.reported("the limit server can be used again") == [1, 1]


def test_a_service_that_starts_without_the_server_finds_it_later(tmp_path: Path) -> None:
    valkey = Valkey(tmp_path)
    valkey.stop()
    with replicas(tmp_path, valkey, valkey.url) as both:
        both.await_alone(2, 1)
        assert both.ask(0).status == 200
        valkey.start()
        both.await_alone(0, 0)
        assert both.remaining_at_once(0, 1) == [BURST - 1, BURST - 2]


class TestPasswords:
    PLANTED = "pl4nted-p4ssword"

    def scene(self, folder: Path, url: str, **settings: str) -> AbstractContextManager[Replicas]:
        valkey = Valkey(folder, requirepass=self.PLANTED)
        return replicas(folder, valkey, url.format(port=valkey.port, socket=valkey.socket), **settings)

    @pytest.mark.parametrize("place", ["valkey://:{{}}@127.0.0.1:{port}", "unix://:{{}}@{socket}"])
    def test_a_password_in_the_url_opens_and_is_told_nowhere(self, tmp_path: Path, place: str) -> None:
        with self.scene(tmp_path, place.replace("{{}}", self.PLANTED)) as both:
            both.await_alone(0, 0)
            assert both.share_a_bucket()
            both.valkey.stop()
            self.hunt(both)

    def test_a_wrong_password_is_a_fallback_and_is_told_nowhere(self, tmp_path: Path) -> None:
        wrong = f"wrong-{self.PLANTED}"
        with self.scene(tmp_path, f"redis://{wrong}:{wrong}@127.0.0.1:{{port}}/0") as both:
            both.await_alone(2, 1)
            self.hunt(both)
            assert both.reported("it refused the user name or password") == [2, 1]

    def test_a_password_file_opens(self, tmp_path: Path) -> None:
        file = tmp_path / "password"
        file.write_text(self.PLANTED + "\n")
        url = "redis://default@127.0.0.1:{port}/0"
        with self.scene(tmp_path, url, limits_password_file=str(file)) as both:
            both.await_alone(0, 0)
            assert both.share_a_bucket()
            self.hunt(both)

    def test_a_bad_url_is_not_quoted(self, tmp_path: Path) -> None:
        done = run_command(
            tmp_path / "home", "serve", "--port", str(free_port()), limits_url=f"redis://:{self.PLANTED}@host/x"
        )
        assert (done.returncode, done.stderr) == (
            1,
            "relaydeck: RELAYDECK_LIMITS_URL must be redis://HOST:PORT/NUMBER (or rediss, valkey, valkeys) or "
            "unix:///PATH, USER:PASSWORD@ before the host; options: db, ssl_ca_certs, ssl_certfile, ssl_keyfile\n"
            "Correct the settings and start again.\n",
        )

    def hunt(self, both: Replicas) -> None:
        answers = [both.ask(0), both.running[0].ask("GET", "/metrics"), both.running[0].ask("GET", "/readyz")]
        said = [str(answer) for answer in answers] + [running.log for running in both.running]
        said += [
            str(path.read_bytes()) for running in both.running for path in running.home.rglob("*") if path.is_file()
        ]
        assert [self.PLANTED in text for text in said] == [False] * len(said)


def test_the_client_is_loaded_only_where_limits_are_shared(tmp_path: Path) -> None:
    code = "import sys, relaydeck.worker.app, relaydeck.cli.serve; print('redis' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
