"""The process under test: it runs one operation, meets one fault, and reports each step to the explorer.

A report waits until the explorer has looked at the database, so that it sees the moment between an answer and whatever
comes next. An answer counts as acknowledged when it is sent, as it does on a socket.
"""

import asyncio
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tests.proofs.explore import planted
from tests.proofs.explore.boundary import Fault, boundary
from tests.proofs.explore.bounds import set_long_bounds, short_bounds
from tests.proofs.explore.operations import LIMITED, Operation, Request
from tests.proofs.explore.services import run_delivery, run_monitor

if TYPE_CHECKING:
    from relaydeck.worker.worker import Worker

STOPPED = "stopped"  # the file with the process id of the server's process that a fault stopped
_LISTS = [Request("GET", f"/api/v1/{name}?per_page=100") for name in ("signers", "relayers")]
_LONGEST_STOP = 10.0  # seconds
_LONGEST_RECOVERY = 60.0
_GO_ON = ("delivery", "monitor")  # lives that go on after a fault, in the same process
_STOPPED_SECONDS = 3.0
_ATTEMPTS = 10  # after a silence: a busy machine may take longer than the shortened time limits
_RETRY_SECONDS = 1.0  # a node that timed out is not asked for a moment
_SETTLE_SECONDS = 0.03  # for what a start leaves to be done in the background
_CONNECT_SECONDS = 0.3  # the same, with a node to connect to


class Task(NamedTuple):
    operation: Operation
    fault: Fault | None
    environment: Mapping[str, str]
    token: str  # that the request is sent with
    victim: str  # a token that some operation revokes
    places: Mapping[str, str]  # of files and databases that commands name
    output: Path  # standard output and error
    bug: str = ""
    ahead: float = 0.0  # seconds that the wall clock is ahead: what was to be tried again later is due

    @property
    def stdin(self) -> str:
        """A document has braces of its own."""
        stdin = self.operation.stdin
        return stdin.format(**self.places) if self.operation.copies else stdin


class Channel:
    def __init__(self, connected: socket.socket) -> None:
        self._connected = connected
        self._lock = threading.Lock()

    def report(self, step: str, **content: Any) -> None:
        with self._lock:
            self._connected.send(json.dumps({"step": step, **content}).encode())
            self._connected.recv(1)

    def report_unless_busy(self, step: str, **content: Any) -> None:
        """From a thread that may hold what the explorer waits for while it looks at an earlier report."""
        if not self._lock.locked():
            self.report(step, **content)

    def end(self, code: int) -> NoReturn:
        """Without a report nothing is known of the calls: a process that a fault ends makes none."""
        self.report("end", code=code, calls=boundary.calls, met=boundary.met)
        os._exit(code)


def run(task: Task, connected: socket.socket) -> NoReturn:
    """In a forked process; ends it."""
    channel = Channel(connected)
    output = os.open(task.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(task.environment)
    boundary.offset = task.ahead
    planted.plant(task.bug)
    set_long_bounds()
    try:
        if task.operation.command:
            _run_command(task, channel)
        else:
            asyncio.run(_RUNS[task.operation.life](task, channel))
    except BaseException as error:
        print(f"unforeseen in the subject: {type(error).__name__}: {error}", file=sys.stderr)
        raise
    finally:
        sys.stderr.flush()
    raise AssertionError("the subject ends its process by itself")


def _continue_later(process: int) -> None:
    """A process of the server that is stopped for good keeps its locks for good, and no service can change that."""

    def resume() -> None:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)

    timer = threading.Timer(_STOPPED_SECONDS, resume)
    timer.daemon = True
    timer.start()


@contextmanager
def _armed(task: Task, channel: Channel) -> Iterator[None]:
    def report(step: str, **content: Any) -> None:
        if step == "stop_backend":
            task.output.with_name(STOPPED).write_text(str(content["pid"]))
            os.kill(content["pid"], signal.SIGSTOP)
            if task.operation.life in _GO_ON:
                _continue_later(content["pid"])
        elif task.operation.revokes_during_hang or task.operation.taken_over:
            channel.report_unless_busy(step, **content)

    boundary.arm(task.fault, report)
    try:
        with short_bounds() if _is_silent(task) else nullcontext():
            yield
    finally:
        boundary.disarm()


def _run_command(task: Task, channel: Channel) -> NoReturn:
    reading, writing = os.pipe()
    os.write(writing, task.stdin.encode())
    os.close(writing)
    os.dup2(reading, 0)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.argv[1:] = [each.format(**task.places) for each in task.operation.command]
    code: object = 0
    with _armed(task, channel):
        try:
            runpy.run_module("relaydeck", run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            code = ended.code or 0
    sys.stdout.flush()
    _report_end(channel, succeeded=code == 0)


def _start_worker(task: Task, number: int = 1) -> "Worker":
    from relaydeck.http.metric_counts import Metrics
    from relaydeck.log import Log
    from relaydeck.settings.model import read_settings
    from relaydeck.worker.worker import Worker

    return Worker(read_settings(), Log(as_json=True), Metrics(task.output.with_name(f"metrics-{number}")))


async def _start_two(task: Task) -> tuple["Worker", "Worker"]:
    """Two workers of one service, at rest."""
    first, second = _start_worker(task), _start_worker(task, 2)
    for worker in (first, second):
        for each in _LISTS:
            await ask(worker, each, task.token)
        await ask(worker, _LISTS[0], task.victim)
    # Loads the admin API. A busy machine may need more than one attempt.
    while (await ask(first, Request("GET", "/admin/v1/networks"), task.token)).status != 200:
        await _await_recovery(first)
    await asyncio.sleep(_SETTLE_SECONDS if task.operation.home == "quiet" else _CONNECT_SECONDS)
    return first, second


async def _run_request(task: Task, channel: Channel) -> NoReturn:
    first, second = await _start_two(task)
    with _armed(task, channel):
        status = await _answer(first, task, channel, "answer")
    if status >= 500:
        await _await_recovery(first)
        await _answer(first, task, channel, "retry", attempts=_ATTEMPTS if _is_silent(task) else 1)
    # A write that one worker acknowledged is in the lists of the other.
    shown = [await ask(second, each, task.token) for each in _LISTS]
    victim = await ask(second, _LISTS[0], task.victim)
    signers, relayers = (json.loads(each.body)["data"] for each in shown)
    is_stale = any(each.is_stale for each in (*shown, victim))
    channel.report("shown", signers=signers, relayers=relayers, victim=victim.status, is_stale=is_stale)
    channel.end(0)  # at once, as if it were killed: the workers' tasks are not awaited


async def _await_recovery(worker: "Worker") -> None:
    """A worker that took the database for unreachable fails writes at once, until it has reached it again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_RECOVERY):
            while worker._follower.problem:
                await asyncio.sleep(0.05)


async def _run_at_limit(task: Task, channel: Channel) -> NoReturn:
    """More requests than the limit admits, to two workers in turn."""
    assert task.operation.request is not None
    rate, burst = (int(task.environment[name]) for name in LIMITED)
    began, statuses = time.monotonic(), []
    workers = [_start_worker(task), _start_worker(task, 2)]
    with _armed(task, channel):
        for number in range(3 * burst):
            statuses.append((await ask(workers[number % 2], task.operation.request, task.token)).status)
    admitted = sum(each != 429 for each in statuses)
    allowed = burst + rate * (time.monotonic() - began)
    channel.report("limited", admitted=admitted, allowed=allowed)
    _report_end(channel, succeeded=set(statuses) <= {200, 429})


async def _answer(worker: "Worker", task: Task, channel: Channel, step: str, attempts: int = 1) -> int:
    status, body, revision = await _perform(worker, task)
    for _ in range(1, attempts):
        if status < 500:
            break
        await asyncio.sleep(_RETRY_SECONDS)
        status, body, revision = await _perform(worker, task)
    channel.report(step, status=status, body=body.decode(), revision=revision)
    return status


async def _perform(worker: "Worker", task: Task) -> tuple[int, bytes, int]:
    assert task.operation.request is not None
    status, body, revision, _ = await ask(worker, task.operation.request, task.token)
    if task.operation.same_body and "error" in json.loads(body):
        status = 500  # a JSON-RPC error is a failure, whatever its status
    return status, body, revision


def _is_silent(task: Task) -> bool:
    return task.fault is not None and task.fault.kind == "silence"


async def _run_start(task: Task, channel: Channel) -> NoReturn:
    try:
        with _armed(task, channel):
            worker = _start_worker(task)
        await _answer(worker, task, channel, "answer")
    except Exception as error:  # the service logs it and exits
        channel.report("answer", status=500, body=str(error), revision=0)
        await _answer(_start_worker(task), task, channel, "retry")
    channel.end(0)


async def _run_stop(task: Task, channel: Channel) -> NoReturn:
    worker = _start_worker(task)
    await _answer(worker, task, channel, "answer")
    with _armed(task, channel):
        async with asyncio.timeout(_LONGEST_STOP):
            await worker.stop()
    channel.end(0)


class Answered(NamedTuple):
    status: int
    body: bytes
    revision: int
    is_stale: bool  # from memory, and the response states its age


async def ask(worker: Any, request: Request, token: str) -> Answered:
    """Status, body and revision of the answer of a worker's ASGI application."""
    path, _, query = request.path.partition("?")
    headers = [(b"authorization", b"Bearer " + token.encode())]
    if request.body is not None:
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(request.content))]
    if request.once:
        headers.append((b"idempotency-key", b"explored"))
    scope = {
        "type": "http",
        "method": request.method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "scheme": "http",
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": request.content, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await worker.pipeline(scope, receive, send)
    given = dict(sent[0]["headers"])
    body = b"".join(each["body"] for each in sent[1:])
    revision = int(given.get(b"relaydeck-revision", 0))
    return Answered(sent[0]["status"], body, revision, b"relaydeck-stale" in given)


async def _run_delivery(task: Task, channel: Channel) -> NoReturn:
    _report_end(channel, succeeded=await run_delivery(partial(_armed, task, channel), _longest_wait(task)))


async def _run_monitor(task: Task, channel: Channel) -> NoReturn:
    _report_end(channel, succeeded=await run_monitor(partial(_armed, task, channel), _longest_wait(task)))


def _longest_wait(task: Task) -> float:
    """For what does not come when another process has taken over."""
    return 10.0 if task.operation.taken_over and task.fault is not None else 30.0


def _report_end(channel: Channel, *, succeeded: bool) -> NoReturn:
    channel.report("answer", status=200 if succeeded else 500, body="", revision=0)
    channel.end(0)


_RUNS = {
    "": _run_request,
    "limit": _run_at_limit,
    "delivery": _run_delivery,
    "monitor": _run_monitor,
    "start": _run_start,
    "stop": _run_stop,
}
