"""The whole way: a relayer is paused by a command, a running service tells the webhook, signed and in order."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from typing import NamedTuple

import pytest
from standardwebhooks import Webhook

from tests.conftest import DEMO
from tests.running import Running, make_token, run_command

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Posted(NamedTuple):
    headers: dict[str, str]
    body: str


class Receiver(NamedTuple):
    url: str
    posted: "Queue[Posted]"

    def next(self) -> dict[str, object]:
        """The next event, its signature verified by an independent implementation."""
        posted = self.posted.get(timeout=30)
        Webhook(KEY).verify(posted.body, posted.headers)
        event: dict[str, object] = json.loads(posted.body)
        return event


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    posted: Queue[Posted] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            posted.put(Posted({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Receiver(f"http://127.0.0.1:{server.server_port}/hook", posted)
    server.shutdown()
    server.server_close()


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
