"""Sends requests to a server, within a budget of requests and seconds.

The server may answer anything. Each request has a connection of its own, so a dropped connection is never the end of
an idle one; a response is read up to a number of bytes; and each request runs in a thread, so that nobody waits longer
than the budget allows, however slowly the server sends.
"""

import http.client
import json
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from relaydeck.conformance.shapes import TOO_MANY_REQUESTS, UNAUTHORIZED, Answer, Differs, NotChecked, field

_NOTHING = object()
_LONGEST_WAIT_SECONDS = 10
_MOST_BYTES = 4 * 2**20  # of a response
_MOST_BYTES_KEPT = 2**16  # of a response that checks look back at
_IN_WORDS = {
    "BadStatusLine": "it does not speak HTTP",
    "BrokenPipeError": "it closed the connection",
    "ConnectionRefusedError": "it refused the connection",
    "ConnectionResetError": "it closed the connection",
    "IncompleteRead": "its response was cut off",
    "RemoteDisconnected": "it closed the connection",
    "SSLCertVerificationError": "its certificate is not valid",
    "TimeoutError": "it took too long",
    "gaierror": "its name has no address",
}


class Target(NamedTuple):
    """What is checked, and what the checks may use and change there."""

    url: str
    token: str
    readonly_token: str = ""
    allow_writes: bool = False
    relayer: str = ""
    notification: str = ""
    replace_signing_key: bool = False
    transaction: str = ""
    fee_token: str = ""

    def __repr__(self) -> str:
        return f"Target({self.url!r})"


class Budget(NamedTuple):
    requests: int = 400
    seconds: float = 120.0

    @property
    def timeout(self) -> float:
        """The longest that one request takes. The same time is reserved for putting things back."""
        return min(10.0, self.seconds / 4)


class OutOfBudget(Exception):
    """No request may be sent any more; the argument is the option that allows more."""


class Unreachable(Exception):
    """The first request got no HTTP response."""


class Refused(Exception):
    """The first request was answered with the message Unauthorized."""


class Requests:
    def __init__(self, target: Target, budget: Budget) -> None:
        self.target = target
        self._timeout = budget.timeout
        self._requests_left = budget.requests
        self._deadline = time.monotonic() + budget.seconds - budget.timeout
        self._parts = urlsplit(target.url)
        self.name = f"conform-{secrets.token_hex(4)}"  # begins the id of everything this run creates
        self.basis = ""  # of the check that runs
        self.requests = 0
        self.unanswered = 0  # requests without a readable HTTP response
        self.answers: list[Answer] = []  # some checks look at all of them
        self.created_ids: list[str] = []  # of signers
        self._used: set[tuple[str, ...]] = set()  # operations that the caller's credential may use

    def ask(
        self,
        method: str,
        path: str,
        body: object = _NOTHING,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """`body` is sent as JSON, bytes as they are; `token=""` sends no credential.

        Raises Differs without an answer, and NotChecked when the answer is that the rate limit is exceeded or that the
        caller's own credential may not use the operation.
        """
        chosen = self.target.token if token is None else token
        sent = {"Accept": "application/json", "Connection": "close"}
        sent |= {"Authorization": f"Bearer {chosen}"} if chosen else {}
        content = body if isinstance(body, bytes) else None if body is _NOTHING else json.dumps(body).encode()
        if content is not None:
            sent["Content-Type"] = "application/json"
        answer = self._patient(method, path, content, sent | dict(headers or {}))
        if token is None:
            self._require_permission((method, *path.partition("?")[0].split("/")[:4]), answer)
        return answer

    def _require_permission(self, operation: tuple[str, ...], answer: Answer) -> None:
        """What a credential may do is open. After an operation answered it otherwise once, Unauthorized is wrong."""
        if answer.error != UNAUTHORIZED:
            self._used.add(operation)
        elif operation not in self._used:
            raise NotChecked("this credential may not use the operation", "--token-file FILE")

    def write(self, method: str, path: str, body: object, **more: Any) -> Answer:
        """A request that may change something. Raises NotChecked when the caller did not allow that."""
        if not self.target.allow_writes:
            raise NotChecked.without("--allow-writes")
        return self.ask(method, path, body, **more)

    def put_back_time(self) -> None:
        """Two more requests, in the time that was reserved for them: the first may be lost."""
        self._requests_left = 2
        self._deadline += self._timeout

    def _patient(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        answer = self._once(method, path, content, headers)
        wait = answer.headers.get("retry-after", "")
        if answer.is_limited and wait.isdecimal() and len(wait) < 3 and int(wait) <= _LONGEST_WAIT_SECONDS:
            time.sleep(max(0.0, min(int(wait), self._deadline - time.monotonic())))
            answer = self._once(method, path, content, headers)
        if answer.error == TOO_MANY_REQUESTS and path.startswith("/api/v1/relayers"):
            raise NotChecked(f"the server answered {TOO_MANY_REQUESTS}; give it a higher limit")
        return answer

    def _once(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        seconds = min(self._timeout, self._deadline - time.monotonic())
        if not self._requests_left or seconds <= 0:
            raise OutOfBudget("--max-seconds N" if self._requests_left else "--max-requests N")
        self.requests += 1
        self._requests_left -= 1
        exchange = _Exchange(self._connect(seconds), method, self._parts.path.rstrip("/") + path, content, headers)
        answer = exchange.wait(seconds)
        if isinstance(answer, str):
            self.unanswered += 1
            raise Differs("an HTTP response", f"none: {_IN_WORDS.get(answer, answer)}")
        if method == "POST" and path == "/api/v1/signers" and field(answer.json, "success") is True:
            self.created_ids.append(str(field(answer.json, "data", "id")))
        if len(answer.body) <= _MOST_BYTES_KEPT:
            self.answers.append(replace(answer, basis=self.basis))
        return answer

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=seconds)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()


class _Exchange(threading.Thread):
    """One request and its response. A socket's timeout starts anew with each byte; waiting for a thread does not."""

    def __init__(self, connection: http.client.HTTPConnection, method: str, path: str, *sent: Any) -> None:
        super().__init__(daemon=True)
        self._connection = connection
        self._request: tuple[Any, ...] = (method, path, *sent)
        self._outcome: Answer | str = "TimeoutError"

    def wait(self, seconds: float) -> Answer | str:
        try:
            self.start()
            self.join(seconds)
        except KeyboardInterrupt:
            self.join(min(seconds, 1))  # so that what is put back comes after what was sent
            raise
        outcome = self._outcome
        if self.is_alive() and isinstance(self._connection.sock, socket.socket):
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)  # ends the thread
        return outcome

    def run(self) -> None:
        try:
            self._outcome = self._exchange()
        except Exception as error:  # whatever http.client makes of a response that is not HTTP
            self._outcome = type(error).__name__
        finally:
            self._connection.close()

    def _exchange(self) -> Answer | str:
        self._connection.request(*self._request)
        response = self._connection.getresponse()
        body = response.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            return f"a response of more than {_MOST_BYTES} bytes"
        if response.length:
            return "IncompleteRead"
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, body, " ".join(self._request[:2]))
