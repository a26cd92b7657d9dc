"""`python -m tests.proofs.generated_requests`: requests for every operation, each answer held against its document.

Request number n depends on the seed and n alone, so a run can be resumed with `--first` and a request can be repeated.
"""

import argparse
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from jsonschema_rs import Draft202012Validator

from pages.openapi.admin import document as admin_document
from pages.openapi.admin_schemas import examples
from pages.openapi.contract import document as contract_document
from tests.conftest import DEMO
from tests.support.places import choose
from tests.support.postgres import PostgresServer
from tests.support.promises import TRANSPORT, Promises
from tests.support.running import Answer, Running, run_command
from tests.support.seeding import issue
from tests.test_end_to_end import TRANSFER

_NAMES = tuple(f"name-{number}" for number in range(12))  # few: the records do not grow in number
_ODD_NAMES = ("a/b", "ü ñ", "%", "..", "x" * 256, "a\tb", "🦆")
_RARE = {"/admin/v1/doctor", "/admin/v1/audit/verify", "/admin/v1/export", "/metrics"}  # they read everything
_RARELY = 500
_SCALARS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1 << 70,
    1.5,
    "",
    "x",
    "0x00",
    "ü" * 40,
    "\u202e",
    [],
    {},
    [[]],
    {"a": {"b": 1}},
)
_EXAMPLES = {name: each for name, each in examples().items() if isinstance(each, dict)}
_FIELDS = sorted({field for each in _EXAMPLES.values() for field in each} | {"url", "weight", "unknown"})
_STEPS = 20  # in which memory is measured
_ANSWER_SECONDS = 300  # generous: the machine may be busy, and one operation reads the whole audit log
_PRINTED = 20  # problems
# A client on a busy machine takes long to send a request and to come to its answer.
_PATIENCE = {"header_timeout_seconds": "600", "write_timeout_seconds": "600"}
_IN_FLIGHT = 12  # requests, each on a connection of its own


class Operation(NamedTuple):
    promises: Promises
    method: str
    path: str
    described: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    def __hash__(self) -> int:
        return hash((self.method, self.path))


class Request(NamedTuple):
    operation: Operation
    target: str
    body: bytes | None
    token: str


def operations() -> list[Operation]:
    found = []
    for document in (contract_document(), json.loads(json.dumps(admin_document()))):
        promises = Promises(document)
        for path, methods in document["paths"].items():
            found += [Operation(promises, method.upper(), path, each) for method, each in methods.items()]
    return found


class Generator:
    def __init__(self, seed: int, tokens: Sequence[str]) -> None:
        self._seed, self._tokens = seed, tokens
        found = operations()
        self._often = [each for each in found if each.path not in _RARE]
        self._all = found

    def request(self, number: int) -> Request:
        dice = random.Random((self._seed << 40) + number)
        operation = dice.choice(self._often if dice.randrange(_RARELY) else self._all)
        body = self._body(dice, operation) if operation.method in ("POST", "PATCH") else None
        token = dice.choices(self._tokens, (90, 6, 2, 2))[0]
        return Request(operation, self._target(dice, operation), body, token)

    def _target(self, dice: random.Random, operation: Operation) -> str:
        path = operation.path
        for name in ("{id}", "{relayer_id}", "{notification_id}"):
            path = path.replace(name, _quoted(_name(dice)))
        given = [
            f"{each['name']}={_quoted(_query_value(dice, each))}"
            for each in operation.described.get("parameters", [])
            if each["in"] == "query" and not dice.randrange(3)
        ]
        return path + ("?" + "&".join(given) if given else "")

    def _body(self, dice: random.Random, operation: Operation) -> bytes:
        if operation.path.endswith("/rpc"):
            document: Any = _rpc_call(dice)
        elif operation.path.endswith("/estimate"):
            document = {"transaction": TRANSFER}
        else:
            document = _document(dice, operation.path)
        if isinstance(document, dict):
            for _ in range(dice.choice((0, 0, 0, 1, 2))):
                document[dice.choice(_FIELDS)] = dice.choice(_SCALARS)
        body = json.dumps(document).encode()
        return body[: dice.randrange(len(body))] if not dice.randrange(50) else body


def _name(dice: random.Random) -> str:
    return dice.choice(_ODD_NAMES) if not dice.randrange(20) else dice.choice(_NAMES)


def _quoted(text: object) -> str:
    return quote(str(text), safe="")


def _query_value(dice: random.Random, parameter: dict[str, Any]) -> object:
    allowed = parameter["schema"].get("enum") or [1, 2, 10]
    return dice.choice([*allowed, *allowed, _name(dice), -1, 0, 1 << 64, "", "2030-01-31T00:00:00Z"])


def _rpc_call(dice: random.Random) -> dict[str, Any]:
    params = {"fee_token": dice.choice(("ETH", "USDC", "")), "network": "sepolia", "transaction": TRANSFER}
    return {"jsonrpc": "2.0", "id": dice.choice((1, "a", None, 1.5)), "method": "feeEstimate", "params": params}


_OF_COLLECTIONS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "signers": lambda dice: {
        "id": _name(dice),
        "type": "plain",
        "config": {"key": "0x" + f"{dice.getrandbits(255):064x}"},
    },
    "networks": lambda dice: {
        "name": _name(dice),
        "network_type": "evm",
        "chain_id": dice.randrange(1, 1 << 40),
        "native_symbol": "ETH",
        "rpc_urls": [{"url": "http://127.0.0.1:9/rpc", "weight": 1}],
    },
    "notifications": lambda dice: {"id": _name(dice), "type": "webhook", "url": "https://127.0.0.1:9/hook"},
    "relayers": lambda dice: {
        "id": _name(dice),
        "name": _name(dice),
        "network": _name(dice),
        "network_type": "evm",
        "signer_id": _name(dice),
        "notification_id": _name(dice),
    },
    "tokens": lambda dice: {"name": _name(dice), "kind": dice.choice(("api", "readonly", "admin"))},
}


def _document(dice: random.Random, path: str) -> dict[str, Any]:
    words = path.split("/")
    if path.endswith("/apply"):
        signers = [_OF_COLLECTIONS["signers"](dice)]
        return {"document": {"signers": signers}, "plan": bool(dice.randrange(2))}
    if words[3] not in _OF_COLLECTIONS:
        return {}
    whole = _OF_COLLECTIONS[words[3]](dice)
    if len(words) == 4:
        return whole
    kept = dice.sample(sorted(whole), dice.randrange(3))  # a change of some fields
    return {field: whole[field] for field in kept if field not in ("id",)}


class Connection:
    """HTTP/1.1 on one connection that stays open; opens another one when the service closes it.

    `send` and `receive` take turns. The service works on a request while other connections are used.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._read = b""

    def send(self, request: Request) -> None:
        head = f"{request.operation.method} {request.target} HTTP/1.1\r\nHost: test\r\n"
        head += f"Authorization: Bearer {request.token}\r\n" if request.token else ""
        if request.body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(request.body)}\r\n"
        if self._socket is None:
            self._socket, self._read = socket.create_connection(("127.0.0.1", self._port), timeout=_ANSWER_SECONDS), b""
        self._socket.sendall(head.encode() + b"\r\n" + (request.body or b""))

    def receive(self) -> Answer:
        answer = self._answer()
        if answer.headers.get("connection", "").lower() == "close":
            self.close()
        return answer

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _answer(self) -> Answer:
        while b"\r\n\r\n" not in self._read:
            self._more()
        head, _, rest = self._read.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length, self._read = int(headers["content-length"]), rest
        while len(self._read) < length:
            self._more()
        body, self._read = self._read[:length], self._read[length:]
        return Answer(int(status.split()[1]), headers, body)

    def _more(self) -> None:
        assert self._socket is not None
        part = self._socket.recv(1 << 16)
        if not part:
            raise ConnectionError("the service closed the connection before its answer")
        self._read += part


class Documented(NamedTuple):
    """A response of an operation, prepared once: a validator for each content type, and its headers."""

    validators: dict[str, Draft202012Validator]
    headers: dict[str, bool] | None  # whether they are required; the document of the admin API lists few

    def problem(self, answer: Answer) -> str:
        if self.headers is not None and (undocumented := answer.headers.keys() - TRANSPORT - self.headers.keys()):
            return f"headers {sorted(undocumented)} are not documented"
        if missing := [name for name, required in (self.headers or {}).items() if required > (name in answer.headers)]:
            return f"headers {missing} are missing"
        media_type = answer.headers["content-type"].split(";")[0]
        if media_type not in self.validators:
            return f"content type {media_type} is not documented"
        body = msgspec.json.decode(answer.body) if media_type.endswith("json") else answer.body.decode()
        error = next(self.validators[media_type].iter_errors(body), None)
        return "" if error is None else str(error.message)[:300]


@cache
def _documented(operation: Operation, status: int) -> Documented | None:
    response = operation.described["responses"].get(str(status))
    if response is None:
        return None
    headers = None if operation.path.startswith("/admin/") else response["headers"]
    return Documented(
        {name: operation.promises.validator(each["schema"]) for name, each in response["content"].items()},
        None if headers is None else {name.lower(): each["required"] for name, each in headers.items()},
    )


def problem(operation: Operation, answer: Answer) -> str:
    """How an answer differs from its document; empty when it does not."""
    if answer.status >= 500 and operation.path != "/readyz":
        return f"status {answer.status}"
    documented = _documented(operation, answer.status)
    return f"status {answer.status} is not documented" if documented is None else documented.problem(answer)


class Flight(NamedTuple):
    number: int
    request: Request
    connection: Connection
    began: float


class Report(NamedTuple):
    statuses: Counter[int]
    operations: Counter[str]
    problems: list[str]
    memory: list[int]  # kB of the service, at equal distances
    seconds: float
    slowest: Counter[str]  # milliseconds of the slowest answer, by operation

    def add(self, number: int, request: Request, answer: Answer) -> None:
        operation = request.operation
        self.statuses[answer.status] += 1
        self.operations[operation.name] += 1
        if found := problem(operation, answer):
            self.problems.append(f"request {number}, {operation.method} {request.target}: {found}")
            if len(self.problems) <= _PRINTED:
                print(self.problems[-1], file=sys.stderr, flush=True)


def send(running: Running, generator: Generator, first: int, count: int, seconds: float) -> Report:
    """At most `count` requests, for about so many `seconds`: sent in the order of their numbers, several in flight."""
    report = Report(Counter(), Counter(), [], [], time.monotonic(), Counter())
    flight: deque[Flight] = deque()
    unused = [Connection(running.port) for _ in range(_IN_FLIGHT)]
    for number in range(first, first + count):
        if time.monotonic() > report.seconds + seconds:
            break
        if (number - first) % max(count // _STEPS, 1) == 0:
            _note_progress(running, report, first)
        connection = unused.pop() if unused else _land(flight, report)
        request = generator.request(number)
        connection.send(request)
        flight.append(Flight(number, request, connection, time.monotonic()))
    while flight:
        _land(flight, report).close()
    _note_progress(running, report, first)
    return report._replace(seconds=time.monotonic() - report.seconds)


def _land(flight: deque[Flight], report: Report) -> Connection:
    """Wait for the answer to the oldest request; gives its connection, which is free again."""
    number, request, connection, began = flight.popleft()
    name = request.operation.name
    try:
        report.add(number, request, connection.receive())
    except OSError as error:
        raise ConnectionError(f"request {number}, {name}: {error}") from error
    report.slowest[name] = max(report.slowest[name], round(1000 * (time.monotonic() - began)))
    return connection


def _note_progress(running: Running, report: Report, first: int) -> None:
    """The last line of a run that was cut off tells where to resume it."""
    report.memory.append(_memory(running.process.pid))
    sent, failed = report.statuses.total(), sum(n for status, n in report.statuses.items() if status == 500)
    took = time.monotonic() - report.seconds
    line = f"{sent} answers in {took:.0f} s, {failed} x 500, {len(report.problems)} outside the documents"
    print(f"{line}, {report.memory[-1]} kB, resume with --first {first + sent}", file=sys.stderr, flush=True)


def _memory(pid: int) -> int:
    """Resident kB of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024 + sum(_memory(int(each)) for each in children)


@contextmanager
def served(engine: str) -> Iterator[tuple[Running, list[str]]]:
    """A service with a few records, and the tokens to use: of an administrator, read-only, unknown, none."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = Path(tempfile.mkdtemp(prefix="relaydeck-generated-", dir=memory))
    server = PostgresServer() if engine == "PostgreSQL" else None
    home = folder / "home"
    try:
        if server is not None:
            choose(home, server.url(server.fresh()))
        assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
        tokens = [issue(home, "root", "admin"), issue(home, "reader", "readonly"), "unknown", ""]
        settings = {"rate_limit_per_second": "0", "monitor_interval_seconds": "0", "log_level": "error"}
        with Running(home, token=tokens[0], **settings, **_PATIENCE) as running:
            yield running, tokens
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if server is not None:
            server.remove()


def run(engine: str, seed: int, first: int, count: int, seconds: float = inf) -> Report:
    with served(engine) as (running, tokens):
        return send(running, Generator(seed, tokens), first, count, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("SQLite", "PostgreSQL"), default="SQLite")
    parser.add_argument("--requests", type=int, default=500_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first request: resumes a run")
    parser.add_argument("--seconds", type=float, default=inf, help="stop after so long; resume with --first")
    options = parser.parse_args()
    report = run(options.engine, options.seed, options.first, options.requests, options.seconds)
    sent = report.statuses.total()
    print(f"{options.engine}, seed {options.seed}: {sent} requests from {options.first} in {report.seconds:.0f} s")
    print(f"operations: {len(report.operations)}, least often {min(report.operations.values())} times")
    print(f"statuses: {dict(sorted(report.statuses.items()))}")
    print(f"slowest answers, ms: {report.slowest.most_common(5)}")
    print(f"memory, kB: {report.memory}")
    print(f"answers outside the documents: {len(report.problems)}", *report.problems[:_PRINTED], sep="\n")
    sys.exit(1 if report.problems else 0)


if __name__ == "__main__":
    main()
