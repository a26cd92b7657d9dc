"""The shipped configuration in a real nginx: restarts, the host of a request, and the sizes of bodies."""

import http.client
import json
import re
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest

from relaydeck.settings.model import Settings
from tests.support.nginx import NGINX, with_own_places
from tests.support.running import Running, ask, free_port
from tests.support.seeding import issue
from tests.support.tls import self_signed

CONFIGURATION = Path(__file__).parent.parent.parent / "deploy" / "nginx" / "nginx.conf"
pytestmark = [pytest.mark.prove, pytest.mark.parallel]  # needs nginx, which no package of the lock file brings


class Replica(BaseHTTPRequestHandler):
    """Answers with the host and the size of the body that it received."""

    def do_GET(self) -> None:
        size = len(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        content = json.dumps({"host": self.headers["Host"], "size": size}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

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
def nginx(folder: Path, ports: tuple[int, int], listen: str = "") -> Iterator[int]:
    """`listen`: further directives of the server."""
    port = free_port()
    text = CONFIGURATION.read_text("utf-8")
    for number, upstream in enumerate(ports, 1):
        text = text.replace(f"relaydeck-{number}:8080 resolve", f"127.0.0.1:{upstream}")
    text = re.sub(r"resolver [^;]+;", "", text).replace("listen 8080", f"listen 127.0.0.1:{port}; {listen} #")
    text = text.replace("worker_processes auto", "worker_processes 1")
    (folder / "nginx.conf").write_text(with_own_places(text, folder))
    process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL)
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


@pytest.fixture(scope="module")
def balanced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    behind = free_port()
    with replica(behind), nginx(tmp_path_factory.mktemp("nginx"), (behind, behind)) as port:
        yield port


def test_the_host_keeps_its_port(balanced: int) -> None:
    assert ask(balanced, "GET", "/docs").json["host"] == f"127.0.0.1:{balanced}"


def test_a_body_of_the_documented_size_passes(balanced: int) -> None:
    settings = Settings()
    sizes = {"/api/v1/signers": settings.max_body_bytes, "/admin/v1/apply": settings.apply_max_body_bytes}
    assert sizes == {"/api/v1/signers": 1 << 20, "/admin/v1/apply": 32 << 20}
    # One byte more passes, too: Relaydeck refuses it itself.
    passed = {path: ask(balanced, "POST", path, bytes(size + 1)).json["size"] for path, size in sizes.items()}
    assert passed == {path: size + 1 for path, size in sizes.items()}
    assert ask(balanced, "POST", "/api/v1/signers", bytes(4 << 20)).status == 413


def attributes_of_cookie(port: int, context: ssl.SSLContext | None, token: str, **headers: str) -> list[str]:
    """Sign in through nginx; over TLS with a context."""
    scheme, connection = "http", http.client.HTTPConnection("localhost", port, timeout=60)
    if context is not None:
        scheme, connection = "https", http.client.HTTPSConnection("localhost", port, timeout=60, context=context)
    sent = {"Origin": f"{scheme}://localhost:{port}", "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/console/sign-in", urlencode({"token": token}), sent | headers)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (303, b"")
    connection.close()
    return (answer.getheader("Set-Cookie") or "").split("; ")[1:]


def test_the_cookie_of_the_console_is_secure_behind_tls(home: Path, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context, secure = ssl.create_default_context(cafile=certificate), free_port()
    listen = f"listen 127.0.0.1:{secure} ssl; ssl_certificate {certificate}; ssl_certificate_key {key};"
    plain = ["Path=/console", "Max-Age=43200", "HttpOnly", "SameSite=Strict"]
    with (
        Running(home, token=issue(home, "root", "admin")) as running,
        nginx(tmp_path, (running.port, running.port), listen) as port,
    ):
        assert attributes_of_cookie(secure, context, running.token) == [*plain, "Secure"]
        assert attributes_of_cookie(port, None, running.token) == plain
        outer = {"X-Forwarded-Proto": "https"}  # of a proxy in front of nginx that ends TLS
        assert attributes_of_cookie(port, None, running.token, **outer) == [*plain, "Secure"]
