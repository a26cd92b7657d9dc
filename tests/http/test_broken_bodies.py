"""A body that never becomes whole is answered like any other bad request, and changes nothing."""

import socket

import pytest

from tests.support.running import Running

CHUNKED = b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
CUT_OFF = b"Content-Length: 50\r\n\r\n{"


@pytest.mark.parametrize("rest", [CHUNKED, CUT_OFF], ids=["a malformed chunk", "a body cut off"])
def test_a_broken_body_is_a_bad_request(service: Running, rest: bytes) -> None:
    head = f"POST /api/v1/signers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.token}\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as client:
        client.sendall(head.encode() + b"Content-Type: application/json\r\n" + rest)
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    head_of_answer, _, body = answer.partition(b"\r\n\r\n")
    assert head_of_answer.startswith(b"HTTP/1.1 400 ")
    assert b"relaydeck-reason: the body is incomplete" in head_of_answer
    assert body == b'{"data":null,"message":"Bad Request","success":false}'
