"""Live updates: a message for each change, a bound on streams, and an end."""

import asyncio
import http.client
import re
import time
from collections.abc import AsyncGenerator, Callable

import pytest

from relaydeck.console.live import LatestChanges, StreamLimit, live_updates, shown_tables
from relaydeck.errors import TooManyRequests
from relaydeck.relayers import balance_history, snapshots
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.snapshots import StoredRunway
from relaydeck.secret import Secret
from relaydeck.signers import check_results
from relaydeck.signers.check import SignerCheck
from relaydeck.store.database import Row, Transaction
from tests.console.conftest import Operator
from tests.support.running import Running
from tests.support.seeding import issue, opened

_SHOWING_RELAYERS = ("", "/relayers", "/relayers/sepolia-1", "/runway", "/networks/sepolia", "/signers/ops")


async def yield_to_others() -> None:
    await asyncio.sleep(0)


class Source:
    revision = 7
    stopping = False

    async def latest(self) -> int:
        return self.revision

    def updates(self, seconds: float = 60.0) -> AsyncGenerator[bytes]:
        return live_updates(self.latest, lambda: self.stopping, yield_to_others, seconds=seconds)


def message(revision: int) -> bytes:
    return f"retry: 500\ndata: {revision}\n\n".encode()


async def test_every_change_is_a_message() -> None:
    source = Source()
    stream = source.updates()
    assert await anext(stream) == message(7)
    source.revision = 8
    assert await anext(stream) == message(8)


async def test_a_stream_ends_after_its_time() -> None:
    stream = Source().updates(seconds=0.01)
    assert [each async for each in stream] == [message(7)]


def test_a_stream_looks_at_each_table_once() -> None:
    assert shown_tables("audit," * 20_000 + "balances,nodes,unknown," + "audit") == ["audit", "balances", "nodes"]
    assert shown_tables("," * 60_000) == []


@pytest.mark.parametrize("ends", ["write", "stop"])
async def test_streams_share_one_poll_until_something_is_written_or_the_service_stops(ends: str) -> None:
    looks = list[int]()
    ended = asyncio.Event()

    def revision() -> int:
        looks.append(1)
        return 8 if ends == "write" and ended.is_set() else -1

    async def read(_: object) -> list[Row]:
        return []

    changes = LatestChanges(revision, read, lambda: ends == "stop" and ended.is_set(), poll_seconds=0.001)
    streams = [asyncio.create_task(changes.wait()) for _ in range(100)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(looks) == 1
    streams.pop().cancel()  # the others wait on when a browser leaves
    ended.set()
    await asyncio.gather(*streams)
    assert len(looks) <= 8


async def test_a_stop_ends_every_stream() -> None:
    source = Source()
    stream = source.updates()
    assert await anext(stream) == message(7)
    source.stopping = True
    assert [each async for each in stream] == []


async def read_forever() -> AsyncGenerator[bytes]:
    while True:
        yield b"part"


async def test_the_streams_of_a_worker_are_bounded_and_an_ended_one_makes_room() -> None:
    limit = StreamLimit(1)
    stream = limit.admit(Secret("a"), read_forever())
    await anext(stream)
    with pytest.raises(TooManyRequests):
        limit.admit(Secret("b"), read_forever())
    await stream.aclose()
    assert await anext(limit.admit(Secret("b"), read_forever())) == b"part"


async def test_a_session_cannot_take_the_streams_of_others() -> None:
    limit = StreamLimit(256)
    streams = [limit.admit(Secret("a"), read_forever()) for _ in range(100)]  # admitted before any is read
    read = [await anext(each, b"ended") for each in streams]
    assert (read.count(b"part"), read.count(b"ended")) == (8, 92)
    with pytest.raises(TooManyRequests):
        limit.admit(Secret("a"), read_forever())
    assert await anext(limit.admit(Secret("b"), read_forever())) == b"part"


def test_a_change_reaches_an_open_page(served: Running, operator: Operator) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("GET", "/console/live", headers={"Cookie": operator.cookie})
    response = connection.getresponse()
    assert (response.status, response.getheader("content-type")) == (200, "text/event-stream")
    first = _revision(response)
    served.ask("POST", "/admin/v1/relayers/sepolia-1/pause")
    assert _revision(response) > first
    connection.close()
    served.ask("POST", "/admin/v1/relayers/sepolia-1/resume")


def test_a_page_hears_of_what_it_shows_and_of_nothing_else(served: Running, operator: Operator) -> None:
    audit, *others = (
        open_page(served, operator, path)
        for path in ("/audit", "/events", "/deliveries", "/notifications", "/tokens", "/networks/sepolia")
    )
    before = [_revision(each) for each in (audit, *others)]
    served.ask("PATCH", "/admin/v1/signers/ops", {"labels": {"heard": "of"}})
    changed = _revision(audit)
    assert changed > before[0]
    served.ask("POST", "/admin/v1/notifications/pager/test")
    issue(served.home, "heard of", "api")
    # The first of each after that at the beginning: none of these pages shows the labels of a signer.
    assert [_revision(each) > changed for each in others] == [True] * len(others)
    for each in (audit, *others):
        each.close()


def measure_nothing(transaction: Transaction) -> None:
    transaction.execute("UPDATE leases SET fence = fence")


def measure_a_balance(transaction: Transaction) -> None:
    (row,) = transaction.all("SELECT seq FROM relayers WHERE id = 'sepolia-1'")
    now = int(time.time())
    balance_history.save(transaction, [(row.seq, BalancePeriod(now, now, now))])


def measure_a_runway(transaction: Transaction) -> None:
    (row,) = transaction.all("SELECT seq FROM relayers WHERE id = 'sepolia-1'")
    snapshots.save_runway(transaction, row.seq, StoredRunway(int(time.time()), 4_000_000_000, None))


def measure_trouble(transaction: Transaction) -> None:
    transaction.mark(snapshots.INCIDENTS)


def check_a_signer(transaction: Transaction) -> None:
    check_results.keep(transaction, SignerCheck("ops", int(time.time()), 1, "ok", "it signed", None, ()), "")


@pytest.mark.parametrize(
    ("measure", "shown_by"),
    [
        (measure_nothing, set[str]()),
        (measure_a_balance, {*_SHOWING_RELAYERS}),
        (measure_a_runway, {*_SHOWING_RELAYERS}),
        (measure_trouble, {*_SHOWING_RELAYERS, "/networks"}),
        # The overview of a small fleet has first steps, and a signer that was checked is one of them.
        (check_a_signer, {"", "/relayers/sepolia-1", "/signers", "/signers/ops"}),
    ],
)
def test_a_page_that_shows_what_is_measured_loads_itself_again_only_after_that(
    served: Running, operator: Operator, measure: Callable[[Transaction], None], shown_by: set[str]
) -> None:
    paths = [*_SHOWING_RELAYERS, "/networks", "/signers", "/tokens", "/audit"]
    loads_again(served, operator, operator.text(""))  # the first stream of a worker takes everything for changed
    pages = {path: operator.text(path) for path in paths}
    with opened(served.home) as store, store.database.transaction() as transaction:
        measure(transaction)
    assert {path for path, page in pages.items() if loads_again(served, operator, page)} == shown_by
    assert not any(loads_again(served, operator, operator.text(path)) for path in paths)


def loads_again(served: Running, operator: Operator, page: str) -> bool:
    """Whether the script of the page asks for it again, after what the next stream says first."""
    shown, shows = re.findall('data-revision="([0-9]+)" data-live="([^"]*)"', page)[0]
    stream = open_stream(served, operator, f"/live?shows={shows}")
    try:
        return _revision(stream) > int(shown)
    finally:
        stream.close()


@pytest.mark.parametrize("path", ["/nodes", "/networks/sepolia/now", "/relayers/sepolia-1/why"])
def test_a_page_of_what_nodes_answer_now_asks_them_again_with_each_stream(
    served: Running, operator: Operator, path: str
) -> None:
    page = operator.text(path)
    with opened(served.home) as store, store.database.transaction() as transaction:
        measure_nothing(transaction)
    assert loads_again(served, operator, page)


@pytest.mark.parametrize("path", ["/apply", "/estimate", "/view", "/tokens/root/revoke"])
def test_a_page_that_shows_nothing_that_changes_hears_of_nothing(operator: Operator, path: str) -> None:
    assert "data-live" not in operator.text(path)


async def test_a_stream_may_begin_with_a_later_revision_than_that_of_what_has_changed() -> None:
    revisions = iter([7, 8, 10])

    async def latest() -> int:
        return next(revisions)

    stream = live_updates(latest, lambda: False, yield_to_others, first=9)
    assert [await anext(stream), await anext(stream)] == [message(9), message(10)]


def open_page(served: Running, operator: Operator, path: str) -> http.client.HTTPResponse:
    """The stream that the page opens."""
    (shows,) = re.findall('data-live="([^"]*)"', operator.text(path))
    return open_stream(served, operator, f"/live?shows={shows}")


def _revision(response: http.client.HTTPResponse) -> int:
    while not (line := response.readline()).startswith(b"data: "):
        pass
    return int(line[6:])


def open_stream(served: Running, operator: Operator, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("GET", f"/console{path}", headers={"Cookie": operator.cookie, "Accept": "text/event-stream"})
    return connection.getresponse()


def test_every_stream_counts_against_its_session_until_the_browser_leaves(served: Running, operator: Operator) -> None:
    streams = [open_stream(served, operator, "/live") for _ in range(8)]
    for each in streams:
        _revision(each)
    refused = [open_stream(served, operator, path) for path in ("/live", "/health/checks", "/audit/verify")]
    assert [each.status for each in refused] == [429] * 3
    other = open_stream(served, Operator(served.port).sign_in(served.token), "/audit/verify")
    assert (other.status, other.getheader("content-type")) == (200, "text/event-stream")
    began = time.monotonic()
    for each in streams:
        each.close()
    while (again := open_stream(served, operator, "/audit/verify")).status != 200:
        again.close()
    assert time.monotonic() - began < 18  # a stream that nobody reads would last 20 seconds
    for each in (other, again, *refused):
        each.close()


def test_without_a_session_there_is_no_stream(served: Running) -> None:
    assert Operator(served.port).get("/live").status == 303


def test_a_service_with_an_open_stream_stops_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("stopping") / "home"
    running = Running(home, token=issue(home, "root", "admin"))
    operator = Operator(running.port).sign_in(running.token)
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    connection.request("GET", "/console/live", headers={"Cookie": operator.cookie})
    response = connection.getresponse()
    _revision(response)
    assert running.stop() == 0
    assert response.read().count(b"data: ") <= 1
    assert not list((home / "run").glob("stopping-*"))
