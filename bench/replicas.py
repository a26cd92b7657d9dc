"""Two replicas on one PostgreSQL: how long until a write through one is seen through the other."""

import http.client
import json
import time
from contextlib import ExitStack, closing
from itertools import count
from statistics import median, quantiles
from typing import Any, NamedTuple

from bench.comparing import Ratio
from bench.homes import Home, make_home
from bench.rows import Row
from bench.run import SIGNERS, Pace, Run, started_relaydeck
from bench.servers import copied, postgres_server, replica_of

_ALLOWED_SECONDS = 0.1
_POLL_SECONDS = 0.001
_MOST_SECONDS = 12.0  # of measuring, however slow
_WHAT = "a write through one replica, seen through the other"
_REVISION, _AT_LEAST = "relaydeck-revision", "Relaydeck-Min-Revision"


class Outcome(NamedTuple):
    seconds: list[float]  # from each answered write until it was seen
    asked_for: int  # lists that were asked for the revision of a write
    missed: int  # of them, those that did not show it


class Client:
    """One connection, kept."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def create(self, identifier: str) -> str | None:
        """The revision of the write, where the service tells it."""
        body = {"id": identifier, "type": "plain", "config": {"key": "5a" * 32}}
        answer, _ = self._ask("POST", SIGNERS, json.dumps(body))
        return answer.headers[_REVISION]

    def sees(self, total: int, **headers: str) -> bool:
        """Whether the list has that many signers."""
        _, body = self._ask("GET", f"{SIGNERS}?per_page=1&page={total}", None, **headers)
        return bool(body["pagination"]["total_items"] >= total)

    def _ask(self, method: str, path: str, body: str | None, **headers: str) -> tuple[http.client.HTTPResponse, Any]:
        self._connection.request(method, path, body, self._headers | headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(f"a replica answered {answer.status}")
        return answer, json.loads(content)

    def close(self) -> None:
        self._connection.close()


def expected_seconds(pace: Pace) -> float:
    return 10 + pace.visible_writes * _ALLOWED_SECONDS / 4


def measure(run: Run) -> list[Row]:
    with postgres_server() as server, ExitStack() as stack:
        first = copied(make_home(run.folder / "replicated", signers=1, relayers=1), server, run.folder / "replica-1")
        homes = [first, replica_of(first, run.folder / "replica-2")]
        clients = [_client(stack, home) for home in homes]
        found = _watch(run, clients, total=1)
    return [*_rows(run, found.seconds), _with_revision(found)]


def _client(stack: ExitStack, home: Home) -> Client:
    server = started_relaydeck(stack, home)
    return stack.enter_context(closing(Client(server.port, home.token)))


def _watch(run: Run, clients: list[Client], total: int) -> Outcome:
    seconds, asked_for, missed = [], 0, 0
    until = time.monotonic() + _MOST_SECONDS
    for number in range(run.pace.visible_writes):
        if time.monotonic() > until:
            break
        total += 1
        writer, reader = clients[number % 2], clients[1 - number % 2]
        reader.sees(total)  # what it would look up because of its own last write, it has looked up now
        revision = writer.create(f"seen-{total}")
        answered = time.monotonic()
        # Every other write is asked for by its revision: it must be there at once, so it tells nothing of the wait.
        if revision is not None and number % 4 >= 2:
            asked_for += 1
            missed += not reader.sees(total, **{_AT_LEAST: revision})
        else:
            seconds.append(_seen_after(reader, total, answered))
        run.advance(_ALLOWED_SECONDS / 4)
    return Outcome(seconds, asked_for, missed)


def _seen_after(reader: Client, total: int, answered: float) -> float:
    for _ in count():
        if reader.sees(total):
            return time.monotonic() - answered
        if time.monotonic() > answered + _MOST_SECONDS:
            raise RuntimeError("a write was never seen through the other replica")
        time.sleep(_POLL_SECONDS)
    raise AssertionError


def _rows(run: Run, seconds: list[float]) -> list[Row]:
    slow = quantiles(seconds, n=100, method="inclusive")[98]
    summary = f"{len(seconds)} writes: median {median(seconds) * 1e3:.1f} ms, 99th percentile {slow * 1e3:.1f} ms"
    run.small_print.append(f"{_WHAT}, {summary}")
    shares = [each / _ALLOWED_SECONDS for each in (median(seconds), slow)]
    measures = [f"{name}, as a share of {_ALLOWED_SECONDS * 1e3:.0f} ms" for name in ("median", "99th percentile")]
    middle, last = (Row(_WHAT, "what is allowed", m, Ratio(s, s, s)) for m, s in zip(measures, shares, strict=True))
    return [middle, last._replace(at_most=1)]


def _with_revision(found: Outcome) -> Row:
    what = f"{_WHAT}, asked for with {_AT_LEAST}"
    row = Row(what, "every such list", "lists that showed the write, as a share", None)
    if not found.asked_for:
        return row._replace(note="this version does not tell the revision of a write")
    share = 1 - found.missed / found.asked_for
    return row._replace(ratio=Ratio(share, share, share), at_least=1)
