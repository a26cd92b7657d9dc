"""A proxy before a real service that changes one thing: a server that is wrong in exactly one way."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support.running import Answer, ask


class Asked(NamedTuple):
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def with_json(self, body: Any) -> "Asked":
        return self._replace(body=json.dumps(body).encode())


Before = Callable[[Asked], Asked | Answer | None]
After = Callable[[Asked, Answer], Answer]


class Mutation(NamedTuple):
    """`before` may change the request, answer it, or drop its connection; `after` may change the answer."""

    before: Before = lambda asked: asked
    after: After = lambda _, answer: answer


def answer_json(status: int, body: Any) -> Answer:
    return Answer(status, {"content-type": "application/json"}, json.dumps(body).encode())


def _handler(port: int, mutation: Mutation) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes: the second would wait for an acknowledgement

        def _take(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path, _, query = self.path.partition("?")
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, path, query, headers, body)
            changed = mutation.before(asked)
            if changed is None:
                self.close_connection = True
                return
            answer = changed if isinstance(changed, Answer) else mutation.after(asked, _forwarded(port, changed))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name not in ("content-length", "server", "date"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PATCH = do_PUT = _take  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _forwarded(port: int, asked: Asked) -> Answer:
    headers = {name.title(): value for name, value in asked.headers.items() if name not in ("host", "content-length")}
    target = f"{asked.path}?{asked.query}" if asked.query else asked.path
    return ask(port, asked.method, target, asked.body or None, headers=headers)


@contextmanager
def mutated(port: int, mutation: Mutation) -> Iterator[str]:
    """The URL of the service on that port, changed in one way."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(port, mutation))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
