"""A real proxy before a real service, which spoils chosen requests in chosen ways."""

import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tests.support.running import Answer, ask

# Fates that a request can meet without reaching the service: reset, 429, 500, html 502, html 200, redirect, problem.
# After reaching it: lose, cut, cut chunk, chunks, 500 after, slow, drip, close after.
PROBLEM = b'{"type":"about:blank","title":"Forbidden","status":403,"detail":"this kind may not use this operation"}'


class Seen(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class FaultProxy:
    """`plan` holds the fates of the next requests; without one, a request passes."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.plan: deque[str] = deque()
        self.always = ""
        self.seen: list[Seen] = []
        self.port = 0
        self.ended = threading.Event()
        self.closed = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def next_fate(self) -> str:
        return self.plan.popleft() if self.plan else self.always


def _handler(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes: the second would wait for an acknowledgement

        def _take(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            proxy.seen.append(Seen(self.command, self.path, dict(self.headers.items()), body))
            fate = proxy.next_fate()
            if fate == "reset":
                self._break()
            elif fate in ("429", "500", "html 502", "html 200", "redirect", "problem"):
                self._answer_itself(fate)
            else:
                self._forward(body, fate)

        do_GET = do_POST = do_PATCH = do_DELETE = _take  # noqa: N815

        def _answer_itself(self, fate: str) -> None:
            messages = {"429": "Too Many Requests", "500": "Internal Server Error"}
            headers = {"Retry-After": "0"} if fate == "429" else {}
            if fate == "redirect":
                headers["Location"] = "http://127.0.0.1:9/elsewhere"
            body = b"<html>Bad Gateway</html>" if fate in ("html 502", "html 200", "redirect") else PROBLEM
            if fate in messages:
                body = b'{"data":null,"message":"%b","success":false}' % messages[fate].encode()
            status = {"redirect": 307, "problem": 403}.get(fate) or int(fate.rpartition(" ")[2])
            self._send(status, headers, body)

        def _forward(self, body: bytes, fate: str) -> None:
            sent = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            sent["Content-Length"] = str(len(body))
            answer = ask(proxy.upstream, self.command, self.path, body, headers=sent)
            if fate == "lose":
                self._break()
            elif fate == "500 after":
                self._answer_itself("500")
            else:
                self._pass_on(answer, fate)

        def _pass_on(self, answer: Answer, fate: str) -> None:
            kept = {
                name: value
                for name, value in answer.headers.items()
                if name not in ("content-length", "server", "date", "transfer-encoding")
            }
            if fate == "cut":
                self._send(answer.status, kept, answer.body, length=len(answer.body) + 5)
                self._break()
            elif fate == "cut chunk":
                self._head(answer.status, kept | {"Transfer-Encoding": "chunked"})
                self.wfile.write(b"%x\r\n%b" % (len(answer.body) + 5, answer.body))
                self._break()
            elif fate == "chunks":
                self._head(answer.status, kept | {"Transfer-Encoding": "chunked"})
                self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(answer.body), answer.body))
            elif fate in ("slow", "drip"):
                self._dawdle(answer, kept, drip=fate == "drip")
            else:
                self._send(answer.status, kept, answer.body)
            if fate == "close after":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                proxy.closed.set()

        def _dawdle(self, answer: Answer, headers: dict[str, str], *, drip: bool) -> None:
            """A response that never ends: silent, or one byte at a time so that each read succeeds."""
            self._head(answer.status, headers | {"Content-Length": str(len(answer.body) + 10_000)})
            with suppress(OSError):
                while not proxy.ended.wait(0.02):
                    if drip:
                        self.wfile.write(b" ")
            self.close_connection = True

        def _send(self, status: int, headers: dict[str, str], body: bytes, length: int | None = None) -> None:
            self._head(status, headers | {"Content-Length": str(len(body) if length is None else length)})
            self.wfile.write(body)

        def _head(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.flush()

        def _break(self) -> None:
            """A reset rather than an orderly end."""
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that gives up is no news here."""


@contextmanager
def fault_proxy(upstream: int) -> Iterator[FaultProxy]:
    proxy = FaultProxy(upstream)
    server = _Server(("127.0.0.1", 0), _handler(proxy))
    proxy.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.ended.set()
        server.shutdown()
        server.server_close()
        thread.join(60)
