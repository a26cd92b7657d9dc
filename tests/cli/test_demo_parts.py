"""What the demo is made of, where it goes wrong: each failure is reported in words, and nothing keeps running."""

import http.client
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from relaydeck.cli import demo
from relaydeck.cli.demo import HOST, MinimalNode, child, running_receiver, serving, wait_until
from relaydeck.errors import OperatorError

WAIT = "import signal; signal.pause()"


def post(url: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, int(url.rpartition(":")[2]), timeout=60)
    try:
        connection.request("POST", "/", body, headers or {})
        with connection.getresponse() as response:
            return response.status, response.read()
    finally:
        connection.close()


def ask(url: str, method: str, *params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return json.loads(post(url, json.dumps(body).encode())[1])


def test_the_minimal_node_counts_the_gas_of_data() -> None:
    with serving(MinimalNode) as url:
        transfer = ask(url, "eth_estimateGas", {"to": "0x" + "11" * 20}, "latest")
        with_data = ask(url, "eth_estimateGas", {"data": "0x0001"}, "latest")
    assert transfer == {"jsonrpc": "2.0", "id": 7, "result": hex(21_000)}
    assert with_data["result"] == hex(21_000 + 4 + 16)


def test_the_minimal_node_answers_a_batch() -> None:
    batch: list[Any] = [{"jsonrpc": "2.0", "id": n, "method": "eth_chainId", "params": []} for n in (1, 2)]
    with serving(MinimalNode) as url:
        status, body = post(url, json.dumps(batch).encode())
    assert (status, [each["result"] for each in json.loads(body)]) == (200, ["0x7a69", "0x7a69"])


def test_the_minimal_node_says_what_it_has_not() -> None:
    with serving(MinimalNode) as url:
        refused = ask(url, "eth_sendRawTransaction", "0x")
        assert post(url, b"not JSON") == (400, b"{}")
    assert refused["error"] == {"code": -32601, "message": "the minimal node of the demo has no such method"}


def test_a_webhook_that_nobody_signed_fails_the_demo() -> None:
    with running_receiver() as received:
        assert post(received.url, b"{}")[0] == 401
        with pytest.raises(OperatorError) as error:
            received.next_event()
    assert (
        error.value.problem == "a webhook failed verification: the message does not have exactly one header webhook-id"
    )


def test_a_webhook_that_does_not_arrive_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_WAIT_SECONDS", 0.01)
    with running_receiver() as received, pytest.raises(OperatorError) as error:
        received.next_event()
    assert error.value.problem == f"no webhook arrived at {received.url} within 0.01 s"


def test_a_child_that_ends_is_reported_with_its_last_output(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with child([sys.executable, "-c", "raise SystemExit('out of memory')"], log) as started:
        started.wait(60)
        with pytest.raises(OperatorError) as error:
            wait_until(lambda: False, started, "the service", log)
    assert error.value.problem == "the service ended. Its last output:\nout of memory"


def test_a_child_that_does_not_answer_is_reported_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_START_SECONDS", 0.05)
    log = tmp_path / "log"
    with pytest.raises(OperatorError) as error, child([sys.executable, "-c", WAIT], log) as started:
        wait_until(lambda: False, started, "the node", log)
    assert error.value.problem == "the node does not answer after 0.05 s. Its last output:\n"
    assert started.poll() is not None


def test_a_child_that_ignores_the_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_STOP_SECONDS", 0.05)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    log = tmp_path / "log"
    with child([sys.executable, "-c", deaf], log) as started:
        wait_until(lambda: log.read_text("utf-8") == "ready\n", started, "it", log)
    assert started.poll() == -9
