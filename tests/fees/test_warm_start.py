"""A service connects to its nodes after its start, so that the first estimate takes no longer than the next."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from tests.fees.test_through_the_service import HOME
from tests.support.fault_node import FaultNode
from tests.support.running import Running, make_token, run_command

SECONDS = 60


class Node(ThreadingHTTPServer):
    """A node that counts what it is asked: the service is another process."""

    def __init__(self) -> None:
        self.answers = FaultNode()
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Node

    def do_POST(self) -> None:
        body = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
        _, raw, _ = self.server.answers._response("healthy", body)
        self.server.asked += [call["method"] for call in (body if isinstance(body, list) else [body])]
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def node() -> Iterator[Node]:
    server = Node()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_fee_data_are_read_before_the_first_estimate(node: Node, tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = run_command(home, "apply", "-", stdin=HOME.format(node=node.url))
    assert done.returncode == 0, done.stderr
    with Running(home, token=make_token(home, "tests")):
        until = time.monotonic() + SECONDS
        while "eth_feeHistory" not in node.asked and time.monotonic() < until:
            time.sleep(0.01)
    assert "eth_feeHistory" in node.asked
