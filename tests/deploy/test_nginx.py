"""The shipped configuration in a real nginx: a rolling restart is not noticed."""

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.running import ask, free_port

CONFIGURATION = Path(__file__).parent.parent.parent / "deploy" / "nginx" / "nginx.conf"
pytestmark = pytest.mark.prove  # needs nginx, which no package of the lock file brings


class Replica(BaseHTTPRequestHandler):
    """Answers as a replica would: nginx only looks at connections."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return None


@contextmanager
def replica(port: int) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", port), Replica)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def nginx(folder: Path, ports: tuple[int, int]) -> Iterator[int]:
    program, port = shutil.which("nginx") or "/usr/sbin/nginx", free_port()
    text = CONFIGURATION.read_text("utf-8")
    for number, upstream in enumerate(ports, 1):
        text = text.replace(f"relaydeck-{number}:8080 resolve", f"127.0.0.1:{upstream}")
    text = re.sub(r"resolver [^;]+;", "", text).replace("listen 8080", f"listen 127.0.0.1:{port}")
    text = text.replace("/tmp/nginx.pid", str(folder / "pid")).replace("worker_processes auto", "worker_processes 1")
    (folder / "nginx.conf").write_text(f"daemon off;\n{text}")
    process = subprocess.Popen(
        [program, "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(OSError):
                ask(port, "GET", "/")
                break
        yield port
    finally:
        process.terminate()
        process.wait(60)


def statuses(port: int, times: int = 20) -> set[int]:
    return {ask(port, "GET", "/").status for _ in range(times)}


def test_a_rolling_restart_behind_nginx_has_no_outage(tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    with nginx(tmp_path, (first, second)) as port:
        with replica(second):
            assert statuses(port) == {200}  # the first one is restarting
        with replica(first):
            assert statuses(port) == {200}  # it is back, and the second one restarts at once
