"""A receiver that takes events in a thread of its own and verifies each with an independent implementation."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any, NamedTuple

from standardwebhooks import Webhook

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Posted(NamedTuple):
    headers: dict[str, str]
    body: str


class VerifyingReceiver:
    """`status` and `headers` are what it answers; `key` what it verifies with."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.key = KEY
        self.status = 204
        self.headers: dict[str, str] = {}
        self.posted: Queue[Posted] = Queue()

    def next(self) -> dict[str, Any]:
        """The next event that arrives, or has arrived; its signature holds."""
        posted = self.posted.get(timeout=60)
        Webhook(self.key).verify(posted.body, posted.headers)
        event: dict[str, Any] = json.loads(posted.body)
        assert posted.headers["webhook-id"] == event["id"]
        return event


@contextmanager
def verifying_receiver() -> Iterator[VerifyingReceiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            receiver.posted.put(Posted({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    receiver = VerifyingReceiver(f"http://127.0.0.1:{server.server_port}/hook")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield receiver
    server.shutdown()
    server.server_close()
