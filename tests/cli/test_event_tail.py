"""`relaydeck event tail`, and `relaydeck notification test --wait`."""

import json
import signal
from collections.abc import Iterator
from http.client import responses
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEMO
from tests.support.running import Running, clean_environment, make_token, run_command, start_command
from tests.support.verifying import verifying_receiver

UNHEARD = """
[[relayers]]
id = "unheard"
name = "Without a notification"
network = "sepolia"
network_type = "evm"
signer_id = "ops"
"""


class Scene:
    """A served home whose notifications arrive at a receiver, or nowhere."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.home = running.home

    def run(self, *arguments: str, remote: bool = False) -> Any:
        settings = {"url": f"http://127.0.0.1:{self.running.port}", "token": self.running.token} if remote else {}
        return run_command(self.home.parent / "elsewhere" if remote else self.home, *arguments, **settings)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    home: Path = tmp_path_factory.mktemp("tail") / "home"
    with verifying_receiver() as receiver:
        file = DEMO.replace("https://hooks.example.com/relaydeck", receiver.url)
        broken = '\n[[notifications]]\nid = "broken"\ntype = "webhook"\nurl = "http://127.0.0.1:1/x"\n'
        assert run_command(home, "apply", "-", stdin=file + broken + UNHEARD).returncode == 0
        token = make_token(home, "root", "--kind", "admin")
        settings = {"webhook_allow": "127.0.0.1/32", "monitor_interval_seconds": "0"}
        with Running(home, token=token, **settings) as running:
            yield Scene(running)


both_ways = pytest.mark.parametrize("remote", [False, True], ids=["home", "server"])


@both_ways
def test_a_test_event_that_arrives(scene: Scene, remote: bool) -> None:
    done = scene.run("notification", "test", "pager", "--wait", "--json", remote=remote)
    delivery = json.loads(done.stdout)
    assert (done.returncode, delivery["state"], delivery["tries"]) == (0, "delivered", 1)
    assert done.stderr == f"delivered test event {delivery['id']}\n"


@both_ways
def test_a_test_event_that_does_not_arrive(scene: Scene, remote: bool) -> None:
    done = scene.run("notification", "test", "broken", "--wait", remote=remote)
    assert (done.returncode, done.stdout) == (1, "")
    assert ": the receiver refused the connection\nThe service tries again; 'relaydeck event show evt_" in done.stderr


@pytest.mark.parametrize(
    ("status", "state", "then"),
    [(410, "dead", "The delivery was given up"), (503, "pending", "The service tries again")],
)
def test_a_test_event_that_the_receiver_refuses(home: Path, status: int, state: str, then: str) -> None:
    with verifying_receiver() as receiver:
        receiver.status = status
        file = DEMO.replace("https://hooks.example.com/relaydeck", receiver.url)
        assert run_command(home, "apply", "-", stdin=file).returncode == 0
        with Running(home, webhook_allow="127.0.0.1", monitor_interval_seconds="0") as running:
            done = run_command(home, "notification", "test", "pager", "--wait")
    assert f" failed: HTTP {status} {responses[status]}\n{then}; 'relaydeck event show evt_" in done.stderr
    assert f"status {status}" in run_command(home, "event", "deliveries", "--state", state).stdout
    logged = [json.loads(line) for line in running.log.splitlines()]
    (warned,) = [each for each in logged if each["level"] == "warning" and "status" in each]
    assert f"'relaydeck event show {warned['event_id']}'" in done.stderr
    assert (warned["event"], warned["status"]) == (
        {
            "dead": "a delivery was given up",
            "pending": "an attempt to deliver an event failed: the service tries again",
        }[state],
        status,
    )


def test_without_a_service_the_wait_ends(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    done = run_command(home, "notification", "test", "pager", "--wait", "--timeout", "1")
    assert done.returncode == 1
    assert done.stderr.endswith(" within 1 s\nCheck that a service is running.\n")


@both_ways
def test_the_latest_events_are_printed(scene: Scene, remote: bool) -> None:
    for _ in range(3):
        scene.run("notification", "test", "pager")
    whole = json.loads(scene.run("event", "list", "--order", "oldest", "--json").stdout)
    tail = scene.run("event", "tail", "--limit", "2", "--json", remote=remote).stdout
    assert [json.loads(line) for line in tail.splitlines()] == whole[-2:]
    shown = scene.run("event", "tail", "--limit", "2", remote=remote).stdout
    assert shown == "".join(
        f"{each['sequence']}  {each['timestamp']}  {each['type']}  {each['id']}\n" for each in whole[-2:]
    )


@both_ways
def test_an_event_is_printed_with_its_relayer(scene: Scene, remote: bool) -> None:
    scene.run("relayer", "pause", "sepolia-1")
    scene.run("relayer", "resume", "sepolia-1")
    (event,) = json.loads(scene.run("event", "list", "--limit", "1", "--json").stdout)
    shown = scene.run("event", "tail", "--limit", "1", remote=remote).stdout
    assert shown == f"{event['sequence']}  {event['timestamp']}  relayer.resumed  sepolia-1  {event['id']}\n"


@both_ways
def test_events_are_listed_newest_first(scene: Scene, remote: bool) -> None:
    for _ in range(3):
        scene.run("notification", "test", "pager")
    listed = json.loads(scene.run("event", "list", "--limit", "3", "--json", remote=remote).stdout)
    first, second, third = (each["sequence"] for each in listed)
    assert (second, third) == (first - 1, first - 2)
    narrowed = scene.run("event", "list", "--before", str(first), "--limit", "1", "--json", remote=remote)
    assert json.loads(narrowed.stdout) == [listed[1]]
    newer = scene.run("event", "list", "--after", str(third), "--order", "oldest", "--json", remote=remote)
    assert json.loads(newer.stdout)[:2] == [listed[1], listed[0]]


@both_ways
def test_events_and_deliveries_of_one_relayer(scene: Scene, remote: bool) -> None:
    scene.run("relayer", "pause", "sepolia-1")
    scene.run("relayer", "resume", "sepolia-1")
    scene.run("notification", "test", "pager")
    listed = json.loads(scene.run("event", "list", "--relayer-id", "sepolia-1", "--json", remote=remote).stdout)
    assert [each["type"] for each in listed][:2] == ["relayer.resumed", "relayer.paused"]
    assert {each["data"]["relayer"]["id"] for each in listed} == {"sepolia-1"}
    sent = scene.run("event", "deliveries", "--relayer-id", "sepolia-1", "--json", remote=remote).stdout
    assert [each["id"] for each in json.loads(sent)] == [each["id"] for each in listed]
    assert "sepolia-1" in scene.run("event", "list", remote=remote).stdout


@both_ways
def test_an_event_without_a_delivery_is_explained(scene: Scene, remote: bool) -> None:
    scene.run("relayer", "pause", "unheard")
    scene.run("relayer", "resume", "unheard")
    (event, *_) = json.loads(scene.run("event", "list", "--relayer-id", "unheard", "--json").stdout)
    shown = scene.run("event", "show", event["id"], remote=remote)
    assert (shown.returncode, shown.stdout, shown.stderr) == (
        1,
        "",
        "relaydeck: The event has no delivery: there was no notification to deliver it to, or the delivery has been"
        " removed since.\n",
    )


def test_no_event_is_no_line(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    done = run_command(home, "event", "tail")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_following_prints_what_comes_until_it_is_interrupted(scene: Scene, tmp_path: Path) -> None:
    scene.run("notification", "test", "pager")
    with (tmp_path / "log").open("wb") as errors:
        process = start_command(
            ["event", "tail", "--follow", "--limit", "1", "--json"], clean_environment(scene.home), errors
        )
    assert process.stdout is not None
    with process.stdout as lines:
        first = json.loads(lines.readline())
        sent = json.loads(scene.run("notification", "test", "pager", "--json").stdout)
        assert json.loads(lines.readline()) == sent
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert first["sequence"] < sent["sequence"]
    assert (tmp_path / "log").read_text("utf-8") == ""
