"""Clients that are slow, silent, impatient or deaf: each is refused or let go, and the others are answered."""

import json
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support import shapes
from tests.support.raw_http import Wire, chunked
from tests.support.running import Answer, Running
from tests.support.seeding import fill, issue

SIGNERS = "/api/v1/signers"
JSON = "Content-Type: application/json"
MIB = 1_048_576


def with_signers(folder: Path) -> Path:
    fill(folder / "home", signers=[f"a signer with a rather long name, number {n}" for n in range(1000)])
    return folder / "home"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A client has more time than any machine needs."""
    home = with_signers(tmp_path_factory.mktemp("slow"))
    with Running(home, token=issue(home), header_timeout_seconds="60", body_timeout_seconds="60") as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A client has a third of a second for its headers and as long for its body."""
    home = with_signers(tmp_path_factory.mktemp("hasty"))
    with Running(home, token=issue(home), header_timeout_seconds="0.3", body_timeout_seconds="0.3") as running:
        yield running


@pytest.fixture(scope="module")
def unread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A client has a second to read its response, and a minute for everything else."""
    home = with_signers(tmp_path_factory.mktemp("unread"))
    patient = {"header_timeout_seconds": "60", "body_timeout_seconds": "60"}
    with Running(home, token=issue(home), write_timeout_seconds="1", **patient) as running:
        yield running


@pytest.fixture(autouse=True)
def others_are_answered(request: pytest.FixtureRequest) -> Iterator[None]:
    used = [name for name in ("hasty", "unread") if name in request.fixturenames]
    running: Running = request.getfixturevalue(used[0] if used else "served")
    yield
    assert in_time(running, "GET", f"{SIGNERS}?per_page=1").status == 200


def in_time(running: Running, method: str, path: str, *headers: str, body: bytes = b"") -> Answer:
    """The response on the first connection on which the headers arrive in time: a busy machine may delay them."""
    for _ in range(100):
        with Wire(running) as wire, suppress(ConnectionError):
            wire.send(wire.head(method, path, *headers) + body)
            return wire.answer()
    raise AssertionError("no headers arrived in time")


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", b"GET /api/v1/signers HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "],
    ids=["nothing", "a letter", "a line", "half a header"],
)
def test_a_client_that_does_not_finish_its_headers_is_let_go(hasty: Running, sent: bytes) -> None:
    with Wire(hasty) as wire:
        with suppress(ConnectionError):  # it was let go before it sent anything
            wire.send(sent)
        assert wire.closed()


def test_a_client_that_sends_its_headers_a_byte_at_a_time_is_let_go(hasty: Running) -> None:
    with Wire(hasty) as wire:
        head = iter(wire.head("GET", SIGNERS, *(f"X-{n}: y" for n in range(50))))
        with suppress(ConnectionError):  # it was let go between the look and the byte
            while not select.select([wire.socket], [], [], 0.02)[0] and (byte := next(head, None)) is not None:
                wire.send(bytes([byte]))
        assert wire.closed()


def test_an_idle_connection_is_let_go_after_its_answer(hasty: Running) -> None:
    assert in_time(hasty, "GET", f"{SIGNERS}?per_page=1").status == 200
    with Wire(hasty) as wire:
        with suppress(ConnectionError):
            wire.send(wire.head("GET", f"{SIGNERS}?per_page=1"))
            wire.answer()
        assert wire.closed()


@pytest.mark.parametrize("sent", [b"", b"{"], ids=["nothing", "a byte"])
def test_a_client_that_does_not_finish_its_body_is_refused(hasty: Running, sent: bytes) -> None:
    answer = in_time(hasty, "POST", SIGNERS, JSON, "Content-Length: 100", body=sent)
    assert (answer.status, answer.json, answer.headers["relaydeck-reason"]) == (
        400,
        shapes.BAD_REQUEST,
        "the body did not arrive in time",
    )


def test_a_client_that_does_not_finish_its_chunks_is_refused(hasty: Running) -> None:
    answer = in_time(hasty, "POST", SIGNERS, JSON, "Transfer-Encoding: chunked", body=b'5\r\n{"typ')
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


def test_many_slow_bodies_do_not_hold_the_service(served: Running) -> None:
    wires = [Wire(served) for _ in range(200)]
    for wire in wires:
        wire.send(wire.head("POST", SIGNERS, JSON, "Content-Length: 100") + b"{")
    answered = served.ask("GET", f"{SIGNERS}?per_page=1").status
    for wire in wires:
        wire.close()
    assert answered == 200


def test_a_client_that_leaves_in_the_middle_of_its_body_changes_nothing(served: Running) -> None:
    before = served.ask("GET", SIGNERS).json["pagination"]
    body = json.dumps(shapes.request("plain")).encode()
    with Wire(served) as wire:
        wire.send(wire.head("POST", SIGNERS, JSON, f"Content-Length: {len(body)}") + body[:-1])
    assert served.ask("GET", SIGNERS).json["pagination"] == before


def test_a_client_that_closes_its_half_is_let_go(served: Running) -> None:
    """The server takes a closed half for a client that left; whether it still answers is not promised."""
    with Wire(served) as wire:
        wire.send(wire.head("GET", f"{SIGNERS}?per_page=1"))
        wire.socket.shutdown(socket.SHUT_WR)
        while wire.socket.recv(65_536):
            pass


def test_pipelined_requests_are_answered_in_their_order(served: Running) -> None:
    with Wire(served) as wire:
        wire.send(b"".join(wire.head("GET", f"{SIGNERS}?per_page=1&page={n}") for n in range(1, 101)))
        pages = [answer.json["pagination"]["current_page"] for answer in wire.answers(100)]
    assert pages == list(range(1, 101))


def test_a_pipelined_request_behind_a_refused_body_is_answered(served: Running) -> None:
    with Wire(served) as wire:
        large = b" " * (MIB + 1)
        wire.send(wire.head("POST", SIGNERS, JSON, f"Content-Length: {len(large)}") + large)
        wire.send(wire.head("GET", f"{SIGNERS}?per_page=1"))
        assert [answer.status for answer in wire.answers(2)] == [413, 200]


def test_a_client_that_never_reads_does_not_hinder_others(served: Running) -> None:
    with Wire(served) as wire:
        fill_with_requests(wire)
        assert [served.ask("GET", f"{SIGNERS}?per_page=1").status for _ in range(20)] == [200] * 20


def fill_with_requests(wire: Wire) -> None:
    """Until the service reads no more of them, because nobody reads its responses."""
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.socket.setblocking(False)
    request = wire.head("GET", f"{SIGNERS}?per_page=1000") * 20
    with suppress(BlockingIOError):
        for _ in range(50):
            wire.socket.send(request)


def test_a_single_client_that_never_reads_is_dropped(unread: Running) -> None:
    with ExitStack() as stack:
        wires: list[Wire] = []
        deadline = time.monotonic() + 40
        while not any(map(is_dropped, wires)):
            assert time.monotonic() < deadline, "nobody was dropped"
            if len(wires) < 5:  # the time limit applies to connections from a moment after the start
                wires.append(stack.enter_context(Wire(unread)))
                fill_with_requests(wires[-1])
            time.sleep(0.1)


def is_dropped(wire: Wire) -> bool:
    """Without reading: the service does not accept another byte."""
    try:
        wire.socket.send(b"G")
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return False


def test_1000_idle_connections_do_not_hinder_others(served: Running) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    idle = [Wire(served) for _ in range(1000)]
    answered = [served.ask("GET", f"{SIGNERS}?per_page=1").status for _ in range(20)]
    for wire in idle:
        wire.close()
    assert answered == [200] * 20


def test_silent_connections_do_not_keep_others_out_however_many_they_are(served: Running) -> None:
    """More than the server's queue of connections holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    silent = [Wire(served) for _ in range(1500)]
    answered = served.ask("GET", f"{SIGNERS}?per_page=1").status
    for wire in silent:
        wire.close()
    assert answered == 200


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "chunked"])
def test_a_refusal_is_readable_by_a_client_that_is_still_sending(served: Running, announced: bool) -> None:
    body = b" " * (16 * MIB)
    with Wire(served) as wire:
        length = f"Content-Length: {len(body)}" if announced else "Transfer-Encoding: chunked"
        wire.send(wire.head("POST", SIGNERS, JSON, length))
        wire.send(body if announced else chunked(body))
        answer = wire.answer()
    assert (answer.status, answer.json) == (413, shapes.BAD_REQUEST)


def test_a_refused_credential_is_readable_by_a_client_that_is_still_sending(served: Running) -> None:
    body = b" " * (16 * MIB)
    with Wire(served) as wire:
        wire.send(wire.head("POST", SIGNERS, JSON, f"Content-Length: {len(body)}", token="wrong"))
        wire.send(body)
        answer = wire.answer()
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


def test_the_connection_serves_on_after_a_refused_body(served: Running) -> None:
    with Wire(served) as wire:
        body = b" " * (2 * MIB)
        wire.send(wire.head("POST", SIGNERS, JSON, f"Content-Length: {len(body)}") + body)
        assert wire.answer().status == 413
        wire.send(wire.head("GET", f"{SIGNERS}?per_page=1"))
        assert wire.answer().status == 200


def test_expect_100_continue_is_told_to_go_on(served: Running) -> None:
    body = json.dumps(shapes.request("plain")).encode()
    with Wire(served) as wire:
        wire.send(wire.head("POST", SIGNERS, JSON, f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert wire.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(body)
        assert wire.answer().status == 201


def test_expect_100_continue_with_too_large_a_body_is_refused_before_it_is_sent(served: Running) -> None:
    with Wire(served) as wire:
        wire.send(wire.head("POST", SIGNERS, JSON, f"Content-Length: {2 * MIB}", "Expect: 100-continue"))
        answer = wire.answer()
    assert (answer.status, answer.json) == (413, shapes.BAD_REQUEST)


def test_expect_100_continue_with_a_wrong_credential_is_refused_before_it_is_sent(served: Running) -> None:
    with Wire(served) as wire:
        wire.send(wire.head("POST", SIGNERS, JSON, f"Content-Length: {2 * MIB}", "Expect: 100-continue", token="wrong"))
        assert wire.socket.recv(12) == b"HTTP/1.1 401"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 1_000_000 + b"\r\n\r\n",
    ],
    ids=lambda sent: ascii(sent[:24]),
)
def test_what_is_no_http_is_refused_by_the_server(hasty: Running, sent: bytes) -> None:
    with Wire(hasty) as wire:
        try:
            wire.send(sent)
            said = wire.socket.recv(12)
        except ConnectionError:
            said = b""
    assert said in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431")
