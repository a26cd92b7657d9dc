"""Clients of several replicas: each remembers what it was answered, and whatever it should not have been."""

import threading
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from itertools import count
from typing import Any, NamedTuple

import msgspec

from relaydeck.errors import ServerFailure
from relaydeck.http.envelope import problem_of
from tests.admin.conftest import success
from tests.proofs.test_changes import Change
from tests.support import shapes
from tests.support.running import Answer, ask
from tests.support.shapes import failure

SIGNERS, RELAYERS = "/api/v1/signers", "/api/v1/relayers"
FAILED = failure("Internal Server Error")
TAKEN = failure("Signer with this ID already exists")
REFUSED = failure("Too Many Requests")
_AGAIN_A_SECOND = 4  # ids a second that all creators try for


class Door:
    """The balancer's port."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.token = token

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        return ask(self.port, method, path, body, token=self.token if token is None else token, headers=headers)

    def try_to(self, method: str, path: str, body: Any = None, **headers: str) -> Answer | None:
        """An answer of ours, or None: the connection broke, or the balancer answered by itself."""
        try:
            answer = self.ask(method, path, body, headers=headers)
        except (OSError, HTTPException):
            return None
        if "x-request-id" in answer.headers:
            return answer
        assert answer.status in (502, 504) and answer.headers["server"] == "nginx", answer
        return None


class Client(threading.Thread):
    def __init__(self, door: Door, over: threading.Event) -> None:
        super().__init__()
        self.door = door
        self.surprises: list[Any] = []  # answers that are not documented, and what was asked
        self.failures: list[tuple[float, float]] = []  # when each 500 was asked for and answered
        self._sent = 0.0
        self._over = over

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self.act()
        except Exception as error:
            self.surprises.append(error)

    def act(self) -> None:
        raise NotImplementedError

    def try_to(self, method: str, path: str, body: Any = None, **headers: str) -> Answer | None:
        self._sent = time.monotonic()
        return self.door.try_to(method, path, body, **headers)

    def expect(self, asked: Any, answer: Answer | None, *documented: tuple[int, Any]) -> int:
        """The status; 0 when nobody answered."""
        if answer is None:
            time.sleep(0.01)  # a balancer without replicas answers quickly
            return 0
        if (answer.status, answer.json) not in documented:
            self.surprises.append((asked, answer))
        if answer.status == 500:
            self.failures.append((self._sent, time.monotonic()))
        return answer.status


class Creator(Client):
    """Creates signers of every type. Every fourth has an id that all creators try for at that moment."""

    def __init__(self, name: str, door: Door, over: threading.Event) -> None:
        super().__init__(door, over)
        self._prefix = name
        self._numbers = count()
        self.acknowledged: dict[str, str] = {}  # id -> type
        self.accepted: list[str] = []  # the same ids, each time one was accepted
        self.said_to_exist: set[str] = set()

    def act(self) -> None:
        number = next(self._numbers)
        contested = number % 4 == 3
        identifier = f"again-{int(time.monotonic() * _AGAIN_A_SECOND)}" if contested else f"{self._prefix}-{number}"
        kind = shapes.TYPES[number % len(shapes.TYPES)]
        shown = {
            "id": identifier,
            "type": shapes.response_type(kind),
            "config": shapes.shown_config(kind),
        }
        documented = [(201, success(shown)), (500, FAILED)] + ([(409, TAKEN)] if contested else [])
        answer = self.try_to("POST", SIGNERS, shapes.request(kind, id=identifier))
        status = self.expect(identifier, answer, *documented)
        if status == 201:
            self.acknowledged[identifier] = kind
            self.accepted.append(identifier)
        elif status == 409:
            self.said_to_exist.add(identifier)


class Lister(Client):
    """Lists signers, and looks whether a page is whole."""

    def __init__(self, door: Door, over: threading.Event) -> None:
        super().__init__(door, over)
        self.pages = 0

    def act(self) -> None:
        answer = self.try_to("GET", f"{SIGNERS}?per_page=50&page={self.pages % 20 + 1}")
        if answer is not None and answer.status == 200:
            self.pages += 1
            items = answer.json["data"]
            if len({item["id"] for item in items}) != len(items) or answer.json["success"] is not True:
                self.surprises.append(("list", answer))
        else:
            self.expect("list", answer, (500, FAILED))


class Asked(NamedTuple):
    sent: float
    answered: float
    admitted: bool


class Limited(Client):
    """Asks for the limited list as often as it can."""

    def __init__(self, door: Door, over: threading.Event) -> None:
        super().__init__(door, over)
        self.asked: list[Asked] = []

    def act(self) -> None:
        answer = self.try_to("GET", f"{RELAYERS}?per_page=1")
        if answer is not None and answer.status in (200, 429):
            self.asked.append(Asked(self._sent, time.monotonic(), answer.status == 200))
        if answer is None or answer.status != 200:
            self.expect("limited list", answer, (429, REFUSED), (500, FAILED))


class Changer(Client):
    """Makes its changes one after another, each asked for until it is acknowledged."""

    def __init__(self, name: str, changes: Iterator[Change], door: Door, over: threading.Event) -> None:
        super().__init__(door, over)
        self._prefix = name
        self._changes = changes
        self.done: list[Change] = []
        self.tests: list[str] = []

    def act(self) -> None:
        change = next(self._changes)
        while not self._made(change):
            pass
        self.done.append(change)

    def _made(self, change: Change) -> bool:
        key = {"Idempotency-Key": f"{self._prefix}-{len(self.done)}"}
        answer = self.try_to(change.method, f"/admin/v1/{change.path}", change.body, **key)
        if answer is not None and answer.status == change.status:
            return True
        request_id = "" if answer is None else answer.headers.get("x-request-id", "")
        self.expect(change, answer, (500, msgspec.to_builtins(problem_of(ServerFailure(), request_id))))
        return False
