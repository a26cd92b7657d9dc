"""What could be read in two ways is refused."""

import socket

import pytest

from tests.support.raw_http import Wire
from tests.support.running import Running

BODY = b'{"type":"plain","config":{"key":"k"}}'


def answer_to(service: Running, *lines: str, rest: bytes = b"") -> tuple[int, bytes]:
    request = "\r\n".join([*lines, "Host: x", "Connection: close", "", ""]).encode() + rest
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as client:
        client.sendall(request)
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.parametrize("framing", ["gzip, chunked", "chunked, chunked"])
def test_a_transfer_encoding_other_than_chunked_is_a_bad_request(service: Running, framing: str) -> None:
    status, body = answer_to(
        service,
        "POST /api/v1/signers HTTP/1.1",
        f"Authorization: Bearer {service.token}",
        "Content-Type: application/json",
        f"Transfer-Encoding: {framing}",
        rest=b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
    )
    assert (status, body) == (400, b'{"data":null,"message":"Bad Request","success":false}')


@pytest.mark.parametrize("first_is_good", [True, False])
def test_two_credentials_are_none(service: Running, first_is_good: bool) -> None:
    credentials = [f"Authorization: Bearer {service.token}", "Authorization: Bearer nobody"]
    status, body = answer_to(
        service, "GET /api/v1/signers HTTP/1.1", *(credentials if first_is_good else reversed(credentials))
    )
    assert (status, body) == (401, b'{"data":null,"message":"Unauthorized","success":false}')


def test_two_content_types_are_no_json(service: Running) -> None:
    status, _ = answer_to(
        service,
        "POST /api/v1/signers HTTP/1.1",
        f"Authorization: Bearer {service.token}",
        "Content-Type: application/json",
        "Content-Type: text/plain",
        f"Content-Length: {len(BODY)}",
        rest=BODY,
    )
    assert status == 400


@pytest.mark.parametrize("path", ["/%61pi/v1/signers", "/api%2Fv1%2Fsigners", "/met%72ics", "/api/v1/signers/"])
def test_a_path_counts_as_it_was_sent(service: Running, path: str) -> None:
    assert service.ask("GET", path).status == 404


def test_the_connection_is_closed_after_a_transfer_encoding_other_than_chunked(service: Running) -> None:
    with Wire(service) as wire:
        wire.send(
            wire.head("POST", "/api/v1/signers", "Content-Type: application/json", "Transfer-Encoding: gzip, chunked")
        )
        wire.send(b"0\r\n\r\n" + wire.head("GET", "/healthz"))
        answer = wire.answer()
        assert (answer.status, answer.headers["connection"], wire.closed()) == (400, "close", True)


@pytest.mark.parametrize("first", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_a_length_beside_chunks_is_ignored_and_nothing_is_read_after_the_chunks(service: Running, first: str) -> None:
    """RFC 9112, section 6.3: the chunks count, and the connection is closed, so no request can hide behind them."""
    framing = sorted(["Content-Length: 5", "Transfer-Encoding: chunked"], key=lambda each: each != first)
    with Wire(service) as wire:
        wire.send(wire.head("POST", "/api/v1/signers", "Content-Type: application/json", *framing))
        wire.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY) + wire.head("GET", "/healthz"))
        answer = wire.answer()
        assert (answer.status, answer.headers["connection"], wire.closed()) == (201, "close", True)


def test_headers_of_100_kib_are_accepted(service: Running) -> None:
    assert answer_to(service, "GET /healthz HTTP/1.1", f"X-Long: {'y' * 100 * 1024}") == (200, b"ok\n")


def test_headers_of_256_kib_are_refused(service: Running) -> None:
    with Wire(service) as wire:
        try:
            wire.send(wire.head("GET", "/healthz", f"X-Long: {'y' * 256 * 1024}"))
            answered = wire.socket.recv(12)
        except ConnectionError:  # the server closed the connection before it read the rest
            answered = b"HTTP/1.1 431"
    assert answered == b"HTTP/1.1 431"
