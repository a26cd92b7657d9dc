"""Small HTTP servers on loopback that run in a thread of the demo."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"


class Handler(BaseHTTPRequestHandler):
    """Answers POST requests. A subclass implements `respond`."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, answer = self.respond(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def respond(self, body: bytes) -> tuple[int, bytes]:
        raise NotImplementedError

    def log_message(self, *_: object) -> None:
        """The output of the demo is its own."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A connection that its client breaks is no error of the demo."""


@contextmanager
def serving(handler: type[Handler]) -> Iterator[str]:
    """The URL of a server on a free port."""
    with _Server((HOST, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def answers(port: int, method: str, path: str, body: str = "") -> bool:
    """Whether a server on this port answers with 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            return response.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
