"""A body is read only where an operation takes one, and after everything that can refuse the request without it."""

import asyncio
import json
import select
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import pytest

from relaydeck.api.operations import OPERATIONS
from relaydeck.http.body import Room
from tests.console.conftest import Operator
from tests.support import shapes
from tests.support.raw_http import Wire
from tests.support.running import Answer, Running
from tests.support.seeding import issue

MIB = 1_048_576
STRANGERS = 256  # forms of 4 KiB without a session
ROOM = 16  # bodies of 1 MiB that a worker reads at a time
SIGNERS, APPLY = "/api/v1/signers", "/admin/v1/apply"
JSON = "Content-Type: application/json"
FORM = "Content-Type: application/x-www-form-urlencoded"
UNFINISHED = f"Content-Length: {MIB}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Whoever waits for a body waits for longer than a test."""
    home = tmp_path_factory.mktemp("bodies") / "home"
    with Running(home, token=issue(home, kind="admin"), body_timeout_seconds="600") as running:
        yield running


@pytest.fixture(scope="module")
def cookie(served: Running) -> str:
    operator = Operator(served.port)
    assert operator.post("/sign-in", {"token": served.token}).status == 303
    return f"Cookie: {operator.cookie}"


def ask(running: Running, method: str, path: str, *headers: str) -> Answer:
    """The response to a request whose body does not come."""
    with Wire(running) as wire:
        wire.send(wire.head(method, path, *headers, f"Origin: http://127.0.0.1:{running.port}"))
        return wire.answer()


@pytest.mark.parametrize("path", [SIGNERS, "/api/v1/relayers", "/admin/v1/relayers", "/healthz", "/metrics", "/docs"])
def test_get_does_not_wait_for_a_body(served: Running, path: str) -> None:
    assert ask(served, "GET", path, JSON, UNFINISHED).status == 200


def test_the_connection_serves_on_after_a_body_that_nobody_reads(served: Running) -> None:
    with Wire(served) as wire:
        wire.send(wire.head("GET", "/healthz", UNFINISHED) + b" " * MIB + wire.head("GET", SIGNERS))
        assert [answer.status for answer in wire.answers(2)] == [200, 200]


def test_a_page_of_the_console_does_not_wait_for_a_body(served: Running, cookie: str) -> None:
    assert ask(served, "GET", "/console", cookie, FORM, UNFINISHED).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/relayers", 401), ("POST", "/apply", 401), ("POST", "/sign-in", 403), ("PUT", "/sign-in", 401)],
)
def test_the_console_refuses_strangers_without_their_forms(
    served: Running, method: str, path: str, status: int
) -> None:
    with Wire(served) as wire:
        wire.send(wire.head(method, f"/console{path}", "Origin: http://elsewhere.example", FORM, UNFINISHED))
        assert wire.answer().status == status


@pytest.mark.parametrize(
    ("method", "path", "status"), [("POST", "/nothing", 404), ("PUT", "/relayers", 405), ("POST", "/relayers", 413)]
)
def test_the_console_refuses_an_operator_without_the_form(
    served: Running, cookie: str, method: str, path: str, status: int
) -> None:
    with Wire(served) as wire:
        origin = "Sec-Fetch-Site: same-origin"
        wire.send(wire.head(method, f"/console{path}", cookie, origin, FORM, UNFINISHED))
        assert wire.answer().status == status


def test_a_form_without_a_session_has_at_most_4_kib(served: Running) -> None:
    with Wire(served) as wire:
        wire.send(wire.head("POST", "/console/sign-in", "Sec-Fetch-Site: same-origin", FORM, "Content-Length: 4097"))
        assert wire.answer().status == 413


TEXT = "Content-Type: text/plain"
PATCHED = ("PATCH", "/api/v1/notifications/pager"), ("PATCH", "/admin/v1/relayers/r")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", SIGNERS), ("POST", APPLY), ("POST", "/admin/v1/signers"), *PATCHED]
)
def test_a_large_body_that_is_not_json_is_refused_before_it_arrives(served: Running, method: str, path: str) -> None:
    refused = ask(served, method, path, TEXT, UNFINISHED)
    assert (refused.status, refused.headers["relaydeck-reason"]) == (400, "the content type is not JSON")


def test_a_large_form_with_another_content_type_is_refused_before_it_arrives(served: Running, cookie: str) -> None:
    refused = ask(served, "POST", "/console/apply", cookie, "Sec-Fetch-Site: same-origin", TEXT, UNFINISHED)
    assert refused.status == 400


def test_a_body_that_is_too_large_and_not_json_is_too_large(served: Running) -> None:
    assert ask(served, "POST", SIGNERS, TEXT, f"Content-Length: {MIB + 1}").status == 413


def without_content() -> list[tuple[str, str]]:
    return [(each.method.upper(), each.path) for each in OPERATIONS if each.method != "GET" and not each.request]


@pytest.mark.parametrize(("method", "path"), without_content())
def test_an_operation_without_a_body_waits_for_none(served: Running, method: str, path: str) -> None:
    path = f"/admin/v1/{path.format(id='r')}"
    assert ask(served, method, path, JSON, "Content-Length: 1025").status == 413


def test_an_operation_without_a_body_accepts_an_empty_one_in_chunks(served: Running) -> None:
    with Wire(served) as wire:
        wire.send(wire.head("POST", "/admin/v1/deliveries/replay", "Transfer-Encoding: chunked") + b"0\r\n\r\n")
        assert wire.answer().status == 200


def signer(name: str, size: int) -> bytes:
    """The request to create a signer, padded to so many bytes."""
    return json.dumps(shapes.request("plain", id=name)).encode().ljust(size)


def test_large_bodies_wait_their_turn_and_small_ones_do_not(served: Running) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(served)) for _ in range(ROOM + 1)]
        for number, wire in enumerate(wires[:-1]):
            wire.send(wire.head("POST", SIGNERS, JSON, UNFINISHED, "Expect: 100-continue"))
            assert wire.socket.recv(64) == b"HTTP/1.1 100 Continue\r\n\r\n"  # the body has its room
            wire.send(signer(f"slow-{number}", MIB)[:-1])
        last = wires[-1]
        last.send(last.head("POST", SIGNERS, JSON, "Content-Length: 16385") + signer("waits", 16_385))
        others = [served.ask("POST", SIGNERS, signer("small", 16_384)), served.ask("GET", SIGNERS)]
        waits = not select.select([last.socket], [], [], 0)[0]
        for wire in wires[:-1]:
            wire.send(b" ")
        finished = [wire.answer().status for wire in wires]
    assert ([each.status for each in others], waits, finished) == ([201, 200], True, [201] * (ROOM + 1))


def test_bodies_in_chunks_wait_their_turn(served: Running) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(served)) for _ in range(ROOM + 1)]
        for number, wire in enumerate(wires):
            head = wire.head("POST", SIGNERS, JSON, "Transfer-Encoding: chunked")
            wire.send(head + b"200\r\n" + signer(f"chunked-{number}", 512) + b"\r\n")
            assert served.ask("GET", SIGNERS).status == 200  # so that the worker reads them in this order
        wires[-1].send(b"0\r\n\r\n")
        others = [served.ask("POST", SIGNERS, signer("small beside chunks", 16_384)), served.ask("GET", SIGNERS)]
        waits = not select.select([wires[-1].socket], [], [], 0)[0]
        for wire in wires[:-1]:
            wire.send(b"0\r\n\r\n")
        finished = [wire.answer().status for wire in wires]
    assert ([each.status for each in others], waits, finished) == ([201, 200], True, [201] * (ROOM + 1))


def test_strangers_who_fill_their_room_keep_no_caller_waiting(served: Running) -> None:
    """Each may send as much as a form without a session contains, whatever its cookie claims."""
    form = urlencode({"token": "wrong"}).encode()
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(form), form)
    headers = FORM, "Transfer-Encoding: chunked", "Sec-Fetch-Site: same-origin", "Cookie: relaydeck_session=x"
    with ExitStack() as stack:
        first = [stack.enter_context(Wire(served)) for _ in range(STRANGERS)]
        for wire in first:
            wire.send(wire.head("POST", "/console/sign-in", *headers, "Expect: 100-continue"))
        for wire in first:
            assert wire.socket.recv(64) == b"HTTP/1.1 100 Continue\r\n\r\n"  # the form has its room
        last = stack.enter_context(Wire(served))
        last.send(last.head("POST", "/console/sign-in", *headers) + sent)
        caller = served.ask("POST", SIGNERS, signer("beside strangers", 20_000))
        waits = not select.select([last.socket], [], [], 0)[0]
        first[0].send(sent)
        finished = [wire.answer().status for wire in (first[0], last)]
    assert (caller.status, waits, finished) == (201, True, [401, 401])


def test_the_largest_apply_document_has_room(served: Running) -> None:
    answer = served.ask("POST", APPLY, b"{}".ljust(32 * MIB))
    assert (answer.status, answer.json["detail"]) == (400, "Object missing required field document")


async def test_whoever_gives_up_waiting_lets_the_next_one_in() -> None:
    room = Room(10)
    await room.enter(8)
    first, second = (asyncio.ensure_future(room.enter(share)) for share in (9, 2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait_for(second, 10)
    room.leave(8)
    room.leave(2)
    await asyncio.wait_for(room.enter(10), 10)


async def test_whoever_is_cancelled_when_its_turn_comes_gives_its_share_back() -> None:
    room = Room(10)
    await room.enter(10)
    waiting = asyncio.ensure_future(room.enter(5))
    await asyncio.sleep(0)
    room.leave(10)
    waiting.cancel()
    await asyncio.wait({waiting})
    await asyncio.wait_for(room.enter(10), 10)


def test_a_large_body_that_finds_no_room_in_time_is_logged_with_the_reason(home: Path) -> None:
    with Running(home, token=issue(home), body_timeout_seconds="1") as running, ExitStack() as stack:
        wires = [stack.enter_context(Wire(running)) for _ in range(3 * ROOM)]
        for wire in wires:
            wire.send(wire.head("POST", SIGNERS, JSON, UNFINISHED) + signer("slow", MIB)[:-1])
        statuses = {wire.answer().status for wire in wires}
        logged = {json.loads(line)["event"] for line in running.log.splitlines() if '"level": "error"' in line}
    assert (statuses, logged) == ({400, 500}, {"a large body found no room in time: too many arrive at once"})
