"""Sends single requests to the server under test, within a budget of requests and seconds."""

import http.client
import json
import secrets
import ssl
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from relaydeck.conformance.verdicts import Differs, NotChecked

_NOTHING = object()
_LONGEST_WAIT_SECONDS = 10
_EXCERPT = 160


class Target(NamedTuple):
    """What is checked, and what the checks may use and change there."""

    url: str
    token: str
    readonly_token: str = ""
    allow_writes: bool = False
    relayer: str = ""
    notification: str = ""
    transaction: str = ""
    fee_token: str = ""

    def __repr__(self) -> str:
        return f"Target({self.url!r})"


class Budget(NamedTuple):
    requests: int = 400
    seconds: float = 120.0
    timeout: float = 10.0


class OutOfBudget(Exception):
    """No request may be sent any more."""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """None when it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def shown(self) -> str:
        text = self.body.decode("utf-8", "replace")
        return f"{self.status} {text[:_EXCERPT]}{'…' if len(text) > _EXCERPT else ''}"


class Probe:
    def __init__(self, target: Target, budget: Budget) -> None:
        self.target = target
        self._budget = budget
        self._deadline = time.monotonic() + budget.seconds
        self._parts = urlsplit(target.url)
        self._connection: http.client.HTTPConnection | None = None
        self.name = f"conform-{secrets.token_hex(4)}"  # begins the id of everything this run creates
        self.requests = 0
        self.kept: dict[str, Answer] = {}  # answers that several checks look at
        self.answers: list[Answer] = []  # of requests with the credential: some checks look at all of them
        self.secrets: list[str] = []  # that were sent, and must not come back

    def ask(
        self,
        method: str,
        path: str,
        body: object = _NOTHING,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """`body` is sent as JSON, bytes as they are; `token=""` sends no credential. Raises Differs without answer."""
        chosen = self.target.token if token is None else token
        sent = {"Accept": "application/json"} | ({"Authorization": f"Bearer {chosen}"} if chosen else {})
        content = body if isinstance(body, bytes) else None if body is _NOTHING else json.dumps(body).encode()
        if content is not None:
            sent["Content-Type"] = "application/json"
        answer = self._patient(method, path, content, sent | dict(headers or {}))
        self.answers.append(answer)
        return answer

    def write(self, method: str, path: str, body: object, **more: Any) -> Answer:
        """A request that may change something. Raises NotChecked when the caller did not allow that."""
        if not self.target.allow_writes:
            raise NotChecked("needs --allow-writes")
        return self.ask(method, path, body, **more)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @cached_property
    def signers(self) -> Answer:
        return self.ask("GET", "/api/v1/signers")

    @cached_property
    def relayers(self) -> Answer:
        return self.ask("GET", "/api/v1/relayers")

    @cached_property
    def relayer(self) -> dict[str, Any]:
        """The relayer the caller chose, or the first there is."""
        found = [each for each in _items(self.relayers) if self.target.relayer in ("", each.get("id"))]
        if not found and self.target.relayer:
            return {"id": self.target.relayer}
        if not found:
            raise NotChecked("the server lists no relayer")
        return found[0]

    @property
    def notification(self) -> str:
        """One that may be looked at: the caller's, or that of a relayer."""
        found = self.target.notification or str(self.relayer.get("notification_id") or "")
        if not found:
            raise NotChecked("no relayer names a notification; give one with --notification")
        return found

    @property
    def own_notification(self) -> str:
        """One that may be changed."""
        if not self.target.notification:
            raise NotChecked("needs --notification: it changes url and signing key")
        return self.target.notification

    def _patient(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        answer = self._once(method, path, content, headers)
        wait = answer.headers.get("retry-after", "")
        if answer.status == 429 and wait.isdecimal() and int(wait) <= _LONGEST_WAIT_SECONDS:
            time.sleep(int(wait))
            answer = self._once(method, path, content, headers)
        return answer

    def _once(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        self.requests += 1
        if self.requests > self._budget.requests or time.monotonic() > self._deadline:
            raise OutOfBudget
        try:
            return self._exchange(method, path, content, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            problem = type(error).__name__
        raise Differs("an HTTP response", f"none: {problem}")

    def _exchange(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, self._parts.path.rstrip("/") + path, content, dict(headers))
        response = self._connection.getresponse()
        body = response.read()
        if response.will_close:
            self.close()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._budget.timeout, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._budget.timeout)


def _items(answer: Answer) -> list[dict[str, Any]]:
    body = answer.json
    data = body.get("data") if isinstance(body, dict) else None
    return [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []


def reachable(target: Target, budget: Budget) -> str:
    """Why no request reaches the server; empty when one does."""
    probe = Probe(target, budget)
    try:
        probe.ask("GET", "/api/v1/signers", token="")
    except Differs as difference:
        return difference.seen.removeprefix("none: ")
    finally:
        probe.close()
    return ""
