"""`relaydeck demo` tells the whole story with real processes, and leaves none of them behind."""

import json
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.node.process import HERE as HARDHAT_FOLDER
from tests.support.running import clean_environment, run_command, start_command

PORT = re.compile(r"http://127\.0\.0\.1:(\d+)")
MINIMAL = (
    "a minimal node that comes with Relaydeck: it answers estimates with fixed prices and is no blockchain "
    "(Node.js is not installed)"
)


def is_closed(port: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) != 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    return made


def test_without_node_js_a_minimal_node_answers(
    home: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run_command(home, "demo", max_per_page="a setting of another service")
    assert (done.returncode, done.stderr) == (0, "starting a node, a webhook receiver and a service …\n")
    ports = PORT.findall(done.stdout)
    shown = re.sub(r"evt_\S+,", "evt_…,", PORT.sub("URL", done.stdout)).partition("\nNext:")[0]
    assert shown == (
        "service   URL\n"
        f"node      URL, {MINIMAL}\n"
        "receiver  URL, which verifies signatures with relaydeck.client.verify_webhook\n"
        "apply     created: 1 network, 1 signer, 1 notification, 1 relayer\n"
        "fee       0.000042 ETH for a transfer through relayer local-1\n"
        "webhook   relayer.paused evt_…, signature verified by the receiver\n"
    )
    assert [is_closed(port) for port in ports] == [True] * 3
    assert (list(folder.iterdir()), home.exists()) == ([], False)


def test_with_hardhat_it_keeps_running_until_it_is_interrupted(
    home: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HARDHAT_FOLDER)
    log = tmp_path / "log"
    with log.open("wb") as errors:
        process = start_command(["demo", "--keep", "--json"], clean_environment(home), errors)
    deadline = time.monotonic() + 60
    while "Press Ctrl-C" not in log.read_text("utf-8") and time.monotonic() < deadline:
        assert process.poll() is None, log.read_text("utf-8")
        time.sleep(0.02)
    assert len(list(folder.iterdir())) == 1
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    with process.stdout as output:
        report = json.loads(output.read())
    assert process.wait(60) == 0
    assert log.read_text("utf-8") == (
        "starting a node, a webhook receiver and a service …\n"
        "Everything keeps running. Press Ctrl-C to stop it and to remove its folder.\n"
        "\nstopped; the folder is removed\n"
    )
    assert (report["node"]["kind"], report["fee"]) == ("hardhat", {"amount": "0.000039376875", "token": "ETH"})
    assert (report["webhook"]["type"], report["webhook"]["verified"]) == ("relayer.paused", True)
    ports = PORT.findall(json.dumps(report))
    assert [is_closed(port) for port in ports] == [True] * 3
    assert list(folder.iterdir()) == []
