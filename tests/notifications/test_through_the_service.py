"""End to end: a command pauses a relayer, and the running service delivers signed events in order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import DEMO
from tests.support.running import Running, make_token, run_command
from tests.support.verifying import VerifyingReceiver as Receiver
from tests.support.verifying import verifying_receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with verifying_receiver() as receiver:
        yield receiver


def test_pausing_and_resuming_reach_the_webhook_signed_and_in_order(home: Path, receiver: Receiver) -> None:
    file = DEMO.replace("https://hooks.example.com/relaydeck", receiver.url)
    assert run_command(home, "apply", "-", stdin=file).returncode == 0
    with Running(home, "--workers", "2", token=make_token(home, "t"), webhook_allow="127.0.0.0/8") as running:
        for verb in ("pause", "resume"):
            done = run_command(home, "relayer", verb, "sepolia-1")
            assert done.returncode == 0, done.stderr
        events = [receiver.next(), receiver.next()]
        assert [(event["type"], event["sequence"]) for event in events] == [
            ("relayer.paused", 1),
            ("relayer.resumed", 2),
        ]
        (relayer,) = running.ask("GET", "/api/v1/relayers").json["data"]
    assert events[1]["data"] == {"relayer": relayer | {"custom_rpc_urls": [{"url": "http://127.0.0.1:9", "weight": 3}]}}


def test_what_was_recorded_while_nothing_ran_is_delivered_by_the_next_start(home: Path, receiver: Receiver) -> None:
    file = DEMO.replace("https://hooks.example.com/relaydeck", receiver.url)
    assert run_command(home, "apply", "-", stdin=file).returncode == 0
    assert run_command(home, "relayer", "pause", "sepolia-1").returncode == 0
    with Running(home, token=make_token(home, "t"), webhook_allow="127.0.0.0/8"):
        assert receiver.next()["type"] == "relayer.paused"


def test_a_receiver_on_this_machine_is_not_connected_to_unless_allowed(home: Path, receiver: Receiver) -> None:
    file = DEMO.replace("https://hooks.example.com/relaydeck", receiver.url)
    assert run_command(home, "apply", "-", stdin=file).returncode == 0
    assert run_command(home, "relayer", "pause", "sepolia-1").returncode == 0
    with Running(home, token=make_token(home, "t", "--kind", "admin")) as running:
        tried: list[object] = []
        while not tried:
            (delivery,) = running.ask("GET", "/admin/v1/deliveries").json["data"]
            tried = [delivery] if delivery["tries"] else []
    assert receiver.posted.empty()
