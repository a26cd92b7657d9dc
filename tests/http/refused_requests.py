"""Requests of every kind that is refused, to a worker in this process, and what is left of them in memory.

`python -m tests.http.refused_requests HOME AMOUNT` prints for each kind the most frequent status of its responses, and
what stayed in memory after so many requests while the garbage collector was off.
"""

import asyncio
import gc
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from relaydeck.http.metric_counts import Metrics, allocate
from relaydeck.log import Log
from relaydeck.settings.model import Settings
from relaydeck.worker.worker import Worker
from tests.support.seeding import fill, issue, relayer

MOST_AT_ONCE = 2000
SETTLE_SECONDS = 2.0
WARM = 100
MARK = b"a value that occurs in no other object of the process"
LATE_SECONDS = 0.3
MIB = 1_048_576
SIGNERS, ADMIN = "/api/v1/signers", "/admin/v1/relayers"
RPC = "/api/v1/relayers/{}/rpc"


class Kind(NamedTuple):
    method: str
    path: str
    token: str = ""
    body: Any = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    announced: int = 0
    messages: tuple[dict[str, Any], ...] = ()


def parts(*bodies: bytes, then: tuple[dict[str, Any], ...] = ()) -> tuple[dict[str, Any], ...]:
    return *({"type": "http.request", "body": each, "more_body": True} for each in bodies), *then


GONE = ({"type": "http.disconnect"},)
CHUNKED = ((b"transfer-encoding", b"chunked"),)
FORM = ((b"content-type", b"application/x-www-form-urlencoded"), (b"host", b"test"))
SIGNER = {"type": "plain", "id": "ops", "config": {"key": "11" * 32}}


def kinds(api: str, admin: str) -> dict[str, Kind]:
    estimate = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": {}}
    return {
        "404 unknown path": Kind("GET", "/nothing"),
        "404 unknown path with a body": Kind("POST", "/nothing", body={}),
        "405": Kind("PUT", SIGNERS, api, body={}),
        "401": Kind("POST", SIGNERS, "wrong", body=SIGNER),
        "403": Kind("POST", ADMIN, api, body={}),
        "413 announced": Kind("POST", SIGNERS, api, announced=2 * MIB, messages=parts(b" " * 4096, then=GONE)),
        "413 in chunks": Kind("POST", SIGNERS, api, headers=CHUNKED, messages=parts(b" " * (MIB + 1), then=GONE)),
        "400 not JSON": Kind("POST", SIGNERS, api, body=b"{"),
        "400 unknown field": Kind("POST", SIGNERS, api, body=SIGNER | {"more": 1}),
        "400 content type": Kind("POST", SIGNERS, api, body=SIGNER, headers=((b"content-type", b"text/plain"),)),
        "400 page": Kind("GET", f"{SIGNERS}?page=x", api),
        "400 admin": Kind("POST", ADMIN, admin, body={"name": 1}),
        "400 incomplete": Kind("POST", SIGNERS, api, announced=100, messages=parts(b"{", then=GONE)),
        "400 incomplete and large": Kind("POST", SIGNERS, api, announced=MIB, messages=parts(b"{" * 20_000, then=GONE)),
        "400 client gone": Kind("POST", SIGNERS, api, announced=100, messages=GONE),
        "400 late": Kind("POST", SIGNERS, api, announced=100, messages=parts(b"{")),
        "500 no room": Kind("POST", SIGNERS, api, announced=MIB, messages=parts(b"{")),
        "404 notification": Kind("PATCH", "/api/v1/notifications/none", api, body={}),
        "404 relayer": Kind("POST", RPC.format("none"), api, body=estimate),
        "404 admin": Kind("GET", f"{ADMIN}/none", admin),
        "409 signer": Kind("POST", SIGNERS, api, body=SIGNER),
        "409 admin": Kind("POST", "/admin/v1/signers", admin, body=SIGNER),
        "200 method failure": Kind("POST", RPC.format("one"), admin, body=estimate),
        "401 console": Kind("POST", "/console/relayers", body=b"form_token=x", headers=FORM),
        "403 console": Kind("POST", "/console/sign-in", body=b"token=x", headers=FORM),
        "404 console": Kind("GET", "/console/assets/none"),
        "429": Kind("GET", "/api/v1/relayers", api),
        "500 database": Kind("PATCH", "/api/v1/notifications/none", api, body={}),
        "500 unexpected": Kind("GET", "/admin/v1/notifications/none", admin),
    }


class Client:
    """The client of one request: the two functions of an ASGI server."""

    def __init__(self, messages: Iterable[dict[str, Any]]) -> None:
        self._messages = iter(messages)
        self.status = 0

    async def receive(self) -> dict[str, Any]:
        if (message := next(self._messages, None)) is None:
            await asyncio.Event().wait()  # it sends nothing more
        assert message is not None
        return message

    async def send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)


def scope_of(kind: Kind, length: int) -> dict[str, Any]:
    path, _, query = kind.path.partition("?")
    headers = {b"x-mark": MARK, b"authorization": f"Bearer {kind.token}".encode()}
    headers |= {b"content-type": b"application/json"} | dict(kind.headers)
    if length and b"transfer-encoding" not in headers:
        headers[b"content-length"] = b"%d" % length
    return {
        "type": "http",
        "method": kind.method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": list(headers.items()),
        "scheme": "http",
        "client": ("127.0.0.1", 1),
    }


async def ask(worker: Worker, kind: Kind) -> int:
    body = kind.body if isinstance(kind.body, bytes) else b"" if kind.body is None else json.dumps(kind.body).encode()
    whole = {"type": "http.request", "body": body, "more_body": False}
    client = Client(kind.messages or (whole, *GONE))
    await worker.pipeline(scope_of(kind, kind.announced or len(body)), client.receive, client.send)
    return client.status


async def ask_often(worker: Worker, kind: Kind, amount: int) -> Counter[int]:
    statuses: Counter[int] = Counter()
    while left := amount - statuses.total():
        statuses.update(await asyncio.gather(*(ask(worker, kind) for _ in range(min(left, MOST_AT_ONCE)))))
    return statuses


def in_memory() -> Counter[str]:
    """Objects that a request may leave behind, by type; and references to the value that every request contains."""
    every = gc.get_objects()
    found = Counter(
        type(each).__name__ for each in every if isinstance(each, (BaseException, TracebackType, FrameType))
    )
    found["clients"] = sum(type(each) is Client for each in every)
    found["references"] = sys.getrefcount(MARK)
    return found


async def measure(worker: Worker, kind: Kind, amount: int) -> tuple[int, dict[str, int]]:
    await ask_often(worker, kind, WARM)  # loads and remembers what is needed
    gc.collect()
    gc.disable()
    before = in_memory()
    [(status, _)] = (await ask_often(worker, kind, amount)).most_common(1)
    until = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while (left := in_memory() - before) and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(0.01)  # threads of the service end their part after the response
    gc.enable()
    return status, left


async def run(home: Path, amount: int) -> None:
    api, admin = issue(home, "api"), issue(home, "admin", "admin")
    fill(home, relayers=[relayer("one")])
    settings = Settings(
        home=home,
        monitor_interval_seconds=0,
        body_timeout_seconds=LATE_SECONDS,
        rate_limit_per_second=1,
        rate_limit_burst=amount + WARM,  # one kind takes all of a token
    )
    metrics_path = home / "metrics"
    allocate(metrics_path, 1)
    metrics = Metrics(metrics_path)
    metrics.claim_row()
    worker = Worker(settings, Log(as_json=True, level="error"), metrics)
    try:
        while not gc.get_freeze_count():  # it is still loading in the background
            await asyncio.sleep(0.01)
        for name, kind in kinds(api, admin).items():
            if name == "500 database":
                with closing(sqlite3.connect(home / "relaydeck.db", isolation_level=None)) as database:
                    database.execute("ALTER TABLE notifications RENAME TO taken_away")
            print(json.dumps([name, *await measure(worker, kind, amount)]), flush=True)
    finally:
        await worker.stop()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
