"""Live updates: a message for each change, a bound on streams, and an end."""

import asyncio
import http.client

import pytest

from relaydeck.console.live import LiveUpdates
from relaydeck.errors import TooManyRequests
from tests.console.conftest import Operator
from tests.running import Running
from tests.seeding import issue


class Source:
    revision = 7
    stopping = False

    def updates(self, most: int = 10, seconds: float = 60.0) -> LiveUpdates:
        return LiveUpdates(lambda: self.revision, lambda: self.stopping, most, seconds, poll_seconds=0.001)


def message(revision: int) -> bytes:
    return f"retry: 500\ndata: {revision}\n\n".encode()


async def test_every_change_is_a_message() -> None:
    source = Source()
    stream = source.updates().open()
    assert await anext(stream) == message(7)
    source.revision = 8
    assert await anext(stream) == message(8)


async def test_a_stream_ends_after_its_time() -> None:
    stream = Source().updates(seconds=0.01).open()
    assert [each async for each in stream] == [message(7)]


async def test_a_stop_ends_every_stream() -> None:
    source = Source()
    stream = source.updates().open()
    assert await anext(stream) == message(7)
    source.stopping = True
    assert [each async for each in stream] == []


async def test_streams_are_bounded_and_an_ended_one_makes_room() -> None:
    updates = Source().updates(most=1)
    stream = updates.open()
    await anext(stream)
    with pytest.raises(TooManyRequests):
        updates.open()
    await stream.aclose()  # type: ignore[attr-defined]
    assert await anext(updates.open()) == message(7)


async def test_nothing_looks_for_changes_without_a_stream() -> None:
    updates = Source().updates()
    stream = updates.open()
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    assert updates._watch is not None
    await asyncio.wait_for(updates._watch, 60)


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


def _revision(response: http.client.HTTPResponse) -> int:
    while not (line := response.readline()).startswith(b"data: "):
        pass
    return int(line[6:])


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
